"""Shortest solutions from any state, by a search specialised for AlfWorld.

Every move costs one step regardless of the distance. A solution is therefore a short itinerary of
stations (a receptacle, whether its door must be open, what to do there). Its length depends only on
which stations share a location and which doors are open. The search enumerates the itineraries that
can be shortest and takes the best. It uses the full state, including what the agent has not seen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import permutations, product
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.alfworld.game import DONE

if TYPE_CHECKING:
    from agent_envs.alfworld.game import Game
    from agent_envs.alfworld.world import World

_FORMS = {"go": "go to {r}", "open": "open {r}", "take": "take {o} from {r}", "use": "use {o}"}


class Station(NamedTuple):
    """An action at a receptacle, whose door must be open if `door`; verb "" only goes there."""

    receptacle: int
    door: bool
    verb: str
    thing: int


Itinerary = tuple[Station, ...]


def plan(world: World) -> list[str] | None:
    """The commands of a shortest solution from this state; None if there is none.

    Two goals are reached one after the other, in the order that takes fewer commands.
    """
    left = [part for part in world.game.parts if not world.has_reached(part)]
    if len(left) < 2:  # noqa: PLR2004
        return [] if world.won else _plan_part(world, left[0])
    ways = []
    for first, second in permutations(left):
        before, twin = _plan_part(world, first), copy.deepcopy(world)
        for command in before or ():
            twin.execute(command)
        after = _plan_part(twin, second)
        if before is not None and after is not None:
            ways.append(before + after)
    return min(ways, key=len, default=None)


def _plan_part(world: World, game: Game) -> list[str] | None:
    """The commands that reach one goal."""
    search = _Search(world, game)
    itineraries = search.iter_to_lamp() if game.goal.lamp else search.iter_to_place()
    best = min(map(search.list_steps, itineraries), key=len, default=None)
    return None if best is None else [_write_command(world, *step) for step in best]


class _Search:
    """The data shared by all itineraries from one state."""

    def __init__(self, world: World, game: Game) -> None:
        self.world, self.game, self.place = world, game, game.place
        self.shut = game.openable - world.opened
        self.where: dict[int, list[int]] = {thing: [] for thing in game.goal_objects}
        for receptacle, things in enumerate(world.contents):
            for thing in things:
                if thing in self.where:
                    self.where[thing].append(receptacle)
        treatment = game.goal.treatment
        self.done = world.props[DONE[treatment]] if treatment else game.goal_objects
        tools = {"clean": game.sinks, "heat": game.microwaves, "cool": game.fridges}
        self.tools = sorted(r for r in tools.get(treatment, ()) if self.place[r] >= 0)

    def list_steps(self, itinerary: Itinerary) -> list[tuple[str, int, int]]:
        """The steps of an itinerary from here: verb, object or -1, receptacle."""
        location, opened = self.world.location, set()
        steps = []
        for receptacle, door, verb, thing in itinerary:
            if self.place[receptacle] != location:
                location = self.place[receptacle]
                steps.append(("go", -1, receptacle))
            if door and receptacle in self.shut and receptacle not in opened:
                opened.add(receptacle)
                steps.append(("open", -1, receptacle))
            if verb:
                steps.append((verb, thing, receptacle))
        return steps

    def iter_to_lamp(self) -> Iterator[Itinerary]:
        """Itineraries that end at a lit lamp with an object of the right type in hand."""
        lit = self.world.props["istoggled"]
        lamps = [
            Station(receptacle, False, "" if thing in lit else "use", thing)
            for receptacle, things in enumerate(self.world.contents)
            if self.place[receptacle] >= 0
            for thing in self.game.goal_lamps.intersection(things)
        ]
        for thing in self._drop_alike(self.game.goal_objects):
            for taking in self._iter_takings(thing):
                for lamp in lamps:
                    yield from self._free_hands((*taking, lamp))

    def iter_to_place(self) -> Iterator[Itinerary]:
        """Itineraries that treat the objects as required and bring them to one receptacle."""
        for receptacle in self._choose_targets():
            here = frozenset(self.world.contents[receptacle])
            ready = self.game.goal_objects & self.done & here  # they count already
            missing = self.game.goal.count - len(ready)
            things = self._drop_alike(self.game.goal_objects - ready)
            for chosen in permutations(things, missing):
                if self.world.held in chosen[1:]:  # the object in hand goes first
                    continue
                each = [list(self._iter_deliveries(thing, receptacle)) for thing in chosen]
                for parts in product(*each):
                    yield from self._free_hands(tuple(s for part in parts for s in part))

    def _choose_targets(self) -> list[int]:
        """Receptacles of the right type; of equally good ones only the first."""
        sources = {place for places in self.where.values() for place in places}
        special = {self.place[r] for r in (*sources, *self.tools)} | {self.world.location}
        chosen: dict[Any, int] = {}
        for receptacle in sorted(self.game.goal_receptacles):
            spot = self.place[receptacle]
            if receptacle in sources or spot in special:
                chosen[receptacle, "own"] = receptacle
            elif spot >= 0:
                chosen.setdefault(receptacle in self.shut, receptacle)
        return list(chosen.values())

    def _drop_alike(self, things: frozenset[int]) -> list[int]:
        """Objects; of equally good ones only as many as the goal needs."""
        kept: dict[Any, list[int]] = {}
        for thing in sorted(things):
            key = (*self.where[thing], thing in self.done, thing == self.world.held)
            same = kept.setdefault(key, [])
            if len(same) < self.game.goal.count:
                same.append(thing)
        return [thing for same in kept.values() for thing in same]

    def _iter_takings(self, thing: int) -> Iterator[Itinerary]:
        """Itineraries that take an object."""
        if thing == self.world.held:
            yield ()
        elif thing in self.game.pickupable:
            for receptacle in self.where[thing]:
                if self.place[receptacle] >= 0:
                    yield (Station(receptacle, True, "take", thing),)

    def _iter_deliveries(self, thing: int, target: int) -> Iterator[Itinerary]:
        """Itineraries that treat an object as required and bring it to a receptacle."""
        for taking in self._iter_takings(thing):
            left = set(self.where[thing]).difference(station.receptacle for station in taking)
            putting: Itinerary = (Station(target, True, "move", thing),)
            if target in left:  # an object can be in two receptacles at once
                putting = ()
            elif target not in self.game.fits[thing]:
                continue
            if thing in self.done:
                yield (*taking, *putting)
            else:
                for tool in self.tools:
                    treating = Station(tool, False, self.game.goal.treatment, thing)
                    yield (*taking, treating, *putting)

    def _free_hands(self, itinerary: Itinerary) -> Iterator[Itinerary]:
        """The itinerary; if it starts by taking something, the held object is put down first."""
        if not itinerary or self.world.held < 0 or itinerary[0].verb != "take":
            yield itinerary
            return
        spot = self.place[itinerary[0].receptacle]
        doors = {station.receptacle for station in itinerary if station.door}
        fits = sorted(r for r in self.game.fits[self.world.held] if self.place[r] >= 0)
        near = [r for r in fits if self.place[r] in (self.world.location, spot) or r in doors]
        elsewhere = sorted(fits, key=self.shut.__contains__)[:1]
        for receptacle in dict.fromkeys(near + elsewhere):
            yield (Station(receptacle, True, "move", self.world.held), *itinerary)


def _write_command(world: World, verb: str, thing: int, receptacle: int) -> str:
    """The command for a verb, an object and a receptacle."""
    forms = _FORMS | {"move": world.words.put}
    form = forms.get(verb, f"{verb} {{o}} with {{r}}")
    return form.format(o=world.game.objects[thing], r=world.game.receptacles[receptacle])
