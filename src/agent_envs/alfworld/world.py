"""The native engine: one AlfWorld game in play, answering as TextWorld answers, letter by letter.

State is a handful of small integers and lists, and what can be done next is worked out once a change,
so a step costs microseconds. Left out: facts about what was looked at, which decide nothing.
"""

from __future__ import annotations

from bisect import insort
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent_envs.alfworld.game import Game

REFUSED = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
MIDDLE = "You are in the middle of a room. Looking quickly around you, you see"
HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
TREATMENTS = (  # verb, what the thing must be, what it becomes, what it stops being, where
    ("clean", "cleanable", "isclean", "", ("sinktype", "sinkbasintype")),
    ("heat", "heatable", "ishot", "iscool", ("microwavetype",)),
    ("cool", "coolable", "iscool", "ishot", ("fridgetype",)),
)
KNIVES = ("knifetype", "butterknifetype")


class World:
    """A game in play. Copies and pickles share the game's tables.

    State: `location` (a number into `game.locations`), `held` (an object's number or -1), `contents`
    (of each receptacle, objects in order), `opened` (receptacles), `properties` (objects by property),
    `lies_at` (locations of each object, as the problem's facts have it).
    """

    __slots__ = (
        "_admissible",
        "_anchor",
        "_local",
        "_taken_from",
        "contents",
        "game",
        "held",
        "lies_at",
        "location",
        "opened",
        "properties",
        "won",
    )

    def __init__(self, game: Game) -> None:
        self.game = game
        self.location = game.start
        self.held = -1
        self.contents = [list(things) for things in game.contents]
        self.opened = set(game.opened)
        self.properties = {name: set(things) for name, things in game.initially.items()}
        self.lies_at: list[frozenset[int]] = list(game.lies_at)
        self._taken_from: dict[int, set[int]] = {}
        self._changed()

    @property
    def intro(self) -> str:
        """The opening text: the room and the task."""
        game = self.game
        room = _listed(
            name for name, spot in zip(game.receptacle_names, game.spot, strict=True) if spot >= 0
        )
        return f"{WELCOME}\n\n{MIDDLE} {room}.\n\n{game.task}"

    def admissible(self) -> list[str]:
        """Every command that would do something, sorted."""
        return self._admissible.copy()

    def execute(self, command: str) -> str:
        """Do a command and say what came of it: `REFUSED` if it was not admissible."""
        command = command.strip()
        place = self.game.go.get(command)
        if place is not None and self.game.spot[place] != self.location:
            self.location = self.game.spot[place]
            self._changed()
            return f"You arrive at {self.game.receptacle_names[place]}. {self._view(place)}"
        known = self._local.get(command)
        return REFUSED if known is None else known[0](*known[1:])

    def anchor(self) -> str:
        """Key of location, held object, contents, open doors and properties: 32 hex digits."""
        if not self._anchor:
            state = (
                self.location,
                self.held,
                self.contents,
                sorted(self.opened),
                [sorted(things) for things in self.properties.values()],
            )
            key = blake2b(repr(state).encode(), digest_size=16, key=self.game.digest)
            self._anchor = key.hexdigest()
        return self._anchor

    def facts(self) -> list[str]:
        """The facts that the anchor stands for, by the names an agent reads, sorted."""
        game = self.game
        facts = [f"at({game.locations[self.location]})"]
        facts += [f"holds({game.object_names[self.held]})"] if self.held >= 0 else []
        facts += [f"open({game.receptacle_names[place]})" for place in self.opened]
        for name, things in self.properties.items():
            facts += [f"{name}({game.object_names[thing]})" for thing in things]
        for place, things in zip(game.receptacle_names, self.contents, strict=True):
            facts += [f"in({game.object_names[thing]}, {place})" for thing in things]
        return sorted(facts)

    def here(self) -> list[int]:
        """Receptacles within reach."""
        return self.game.places_at[self.location]

    def accessible(self, place: int) -> bool:
        """Can things be put in and taken out of a receptacle?"""
        return place not in self.game.openable or place in self.opened

    def satisfies(self, thing: int) -> bool:
        """Is this object of the goal's type, with the property it asks for?"""
        goal = self.game.goal
        return self.game.object_types[thing] == goal.thing and (
            not goal.needs or thing in self.properties[goal.needs]
        )

    def _is_won(self) -> bool:
        game, goal = self.game, self.game.goal
        if goal.lamp:
            lamps = self.properties["istoggled"] & game.able["toggleable"]
            return (
                self.held >= 0
                and game.object_types[self.held] == goal.thing
                and any(
                    game.object_types[lamp] == goal.lamp
                    for place in self.here()
                    for lamp in lamps.intersection(self.contents[place])
                )
            )
        return any(
            sum(map(self.satisfies, things)) >= goal.count
            for kind, things in zip(game.receptacle_types, self.contents, strict=True)
            if kind == goal.place
        )

    def _changed(self) -> None:
        """Work out anew what follows from the state."""
        self._anchor = ""
        self.won = self._is_won()
        local = self._local = self._commands()
        words = sorted(local)
        first = next((i for i, word in enumerate(words) if word > "go to"), len(words))
        self._admissible = [*words[:first], *self.game.go_from[self.location], *words[first:]]

    def _commands(self) -> dict[str, tuple[Callable[..., str], *tuple[int | str, ...]]]:
        """What can be done here besides going elsewhere: command -> method and its arguments."""
        game, held = self.game, self.held
        commands: dict[str, tuple[Callable[..., str], *tuple[int | str, ...]]] = {
            "look": (self._look,),
            "inventory": (self._inventory,),
            "help": (self._help,),
        }
        for place in self.here():
            name = game.receptacle_names[place]
            commands[f"examine {name}"] = (self._view, place)
            if place in game.openable:
                commands[f"close {name}" if place in self.opened else f"open {name}"] = (
                    self._door,
                    place,
                )
            if held >= 0:
                self._add_uses_of_held(commands, place, name)
            elif self.accessible(place):
                for thing in self.contents[place]:
                    if thing in game.able["pickupable"]:
                        commands[f"take {game.object_names[thing]} from {name}"] = (
                            self._take,
                            thing,
                            place,
                        )
            for thing in game.able["toggleable"].intersection(self.contents[place]):
                commands[f"use {game.object_names[thing]}"] = (self._use, thing)
        if held >= 0:
            commands[f"examine {game.object_names[held]}"] = (self._examine_held,)
            if game.object_types[held] in KNIVES:
                for thing in game.able["sliceable"]:
                    if self.location in self.lies_at[thing]:
                        command = f"slice {game.object_names[thing]} with {game.object_names[held]}"
                        commands[command] = (self._slice, thing)
        return commands

    def _add_uses_of_held(self, commands: dict[str, Any], place: int, name: str) -> None:
        """What the held object can be put into, and cleaned, heated or cooled with."""
        game, held = self.game, self.held
        thing, kind = game.object_names[held], game.receptacle_types[place]
        if self.accessible(place) and (kind, game.object_types[held]) in game.fits:
            commands[f"move {thing} to {name}"] = (self._put, place)
        for verb, able, becomes, loses, tools in TREATMENTS:
            if kind in tools and held in game.able[able]:
                commands[f"{verb} {thing} with {name}"] = (self._treat, verb, becomes, loses, name)

    def _view(self, place: int) -> str:
        game = self.game
        name = game.receptacle_names[place]
        if place in game.openable and place not in self.opened:
            return f"The {name} is closed."
        things = _listed(game.object_names[thing] for thing in self.contents[place])
        if place in game.openable:
            return f"The {name} is open. In it, you see {things}."
        return f"On the {name}, you see {things}."

    def _look(self) -> str:
        places, names = self.here(), self.game.receptacle_names
        if not places:
            return f"{MIDDLE} nothing."
        floor = _listed(self.game.object_names[thing] for thing in self._on_the_floor(places))
        return f"You are facing the {_joined([names[p] for p in places])}. Next to it, you see {floor}."

    def _on_the_floor(self, places: list[int]) -> list[int]:
        """What the grammar takes to lie beside a receptacle: put down here after it was taken from it.

        A thing that was taken from two receptacles of this spot is listed twice, as TextWorld does.
        """
        return [
            thing
            for thing, left in sorted(self._taken_from.items())
            if self.location in self.lies_at[thing]
            for _ in left.intersection(places)
        ]

    def _inventory(self) -> str:
        if self.held < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {self.game.object_names[self.held]}."

    def _help(self) -> str:
        return HELP

    def _door(self, place: int) -> str:
        name = self.game.receptacle_names[place]
        if place in self.opened:
            self.opened.discard(place)
            self._changed()
            return f"You close the {name}."
        self.opened.add(place)
        self._changed()
        return f"You open the {name}. {self._view(place)}"

    def _take(self, thing: int, place: int) -> str:
        self.contents[place].remove(thing)
        self._taken_from.setdefault(thing, set()).add(place)
        self.lies_at[thing] -= {self.location}
        self.held = thing
        self._changed()
        return f"You pick up the {self.game.object_names[thing]} from the {self.game.receptacle_names[place]}."

    def _put(self, place: int) -> str:
        thing = self.held
        if thing not in self.contents[place]:
            insort(self.contents[place], thing)
        self._taken_from.get(thing, set()).discard(place)
        self.lies_at[thing] |= {self.location}
        self.held = -1
        self._changed()
        return f"You move the {self.game.object_names[thing]} to the {self.game.receptacle_names[place]}."

    def _treat(self, verb: str, becomes: str, loses: str, tool: str) -> str:
        self.properties[becomes].add(self.held)
        if loses:
            self.properties[loses].discard(self.held)
        self._changed()
        return f"You {verb} the {self.game.object_names[self.held]} using the {tool}."

    def _use(self, lamp: int) -> str:
        self.properties["istoggled"].add(lamp)
        self._changed()
        return f"You turn on the {self.game.object_names[lamp]}."

    def _slice(self, thing: int) -> str:
        self.properties["issliced"].add(thing)
        self._changed()
        names = self.game.object_names
        return f"You sliced the {names[thing]} with the {names[self.held]}."

    def _examine_held(self) -> str:
        """The first line of the grammar that fits what is held."""
        game, thing = self.game, self.held
        name = game.object_names[thing]
        if thing in game.vessels:
            inside = _listed(game.object_names[inner] for inner in game.vessels[thing])
            return f"This is a normal {name}. In it, you see {inside}."
        clean, hot, cool, sliced, on = (
            thing in self.properties[p]
            for p in ("isclean", "ishot", "iscool", "issliced", "istoggled")
        )
        heat = "hot" if hot else "cool" if cool else ""
        if sliced and (clean or heat):
            return (
                f"This is a {' and '.join(filter(None, (heat, clean and 'clean')))} sliced {name}."
            )
        if clean and heat:
            return f"This is a {heat} and clean {name}."
        if clean or heat:
            return f"This is a {'cold' if heat == 'cool' else heat or 'clean'} {name}."
        if thing in game.able["toggleable"] and on:
            return f"This {name} is on."
        if thing in game.able["sliceable"] and sliced:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."


def _joined(words: list[str]) -> str:
    """`x`; `x, and y`; `x, y, and z`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, and {words[-1]}"


def _listed(names: Iterable[str]) -> str:
    words = [f"a {name}" for name in names]
    return _joined(words) if words else "nothing"
