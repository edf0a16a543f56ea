"""The experts of AlfWorld: an Explorer that reads observations, an Oracle that knows the game.

The Explorer only reads the first observation and the later ones. It searches likely places first,
opens closed receptacles, remembers what it saw, and does the task with the first object that fits.
It never uses the game's state, so a policy can learn its behaviour from its transcripts.

`things` is the household: types of things, their properties, and where people keep them. Type names
are ALFRED's. The weights are our own estimates: of ten such things in a home, how many are in that
place. The Explorer's search and the generator of the embedded games use them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.env import AlfWorld
from agent_envs.alfworld.game import Words
from agent_envs.alfworld.world import NOTHING
from agent_envs.assets import table
from agent_envs.experts import Expert, playing

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacle types that have a door; all doors are closed at the start of a game."""

TOOLS = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
"""The receptacle type that gives a property."""

CHANCE = 0.05
"""Weight of a receptacle type that the table does not list for a thing."""

_OPENABLE = frozenset(name.lower() for name in OPENABLE)
_TOOLS = {verb: tool.lower() for verb, tool in TOOLS.items()}
_OPPOSITE = {"heat": "cool", "cool": "heat"}
_VERBS = {"clean": "clean", "heat": "heat", "hot": "heat", "cool": "cool"}

_TASK = re.compile(r"Your task is to: (.*?)\.?\s*$", re.MULTILINE)
_LIGHT = re.compile(r"(?:look at|examine) (?:an? |the |some )?(\w+) (?:under|with) the (\w+)")
_PLACE = re.compile(
    r"(?:(?P<before>clean|heat|cool) some |(?:put|find) (?P<count>two|some|an?) )"
    r"(?:(?P<state>clean|hot|cool) )?(?P<thing>\w+) "
    r"(?:and put (?:it|them) )?(?:in|on) (?P<place>\w+)"
)
_NAME = re.compile(r"\ban? (\S+ \d+)")


class Explorer:
    """A `Searcher` that has observed all turns of the episode, including other players' turns.

    Raises:
        ValueError: the opening has no task line that AlfWorld uses.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AlfWorld)
        self._searcher = Searcher(self._env.transcript[0][1], put=self._env.words.put)
        self._observed = 1

    def act(self) -> str:
        """The next command; it is not executed."""
        return self._update_searcher().act()

    def think(self) -> str:
        """The current target: a thing, tool or place by name, or by type if none is known."""
        return self._update_searcher().think()

    def _update_searcher(self) -> Searcher:
        for action, observation in self._env.transcript[self._observed :]:
            self._searcher.observe(action, observation)
        self._observed = len(self._env.transcript)
        return self._searcher


class Oracle(Expert):
    """Plays a shortest solution from the full state: an upper bound, not suited for imitation."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AlfWorld)

    def act(self) -> str:
        """The next command; it is not executed.

        Raises:
            ValueError: the task is done, or its goal can no longer be reached.
        """
        commands, task = plan(self._env.world), self._env.task_id
        if not commands:
            why = "is done" if self._env.world.won else "cannot be done any more"
            raise ValueError(f"task {task} {why}: there is no next command; call reset()")
        return commands[0]


class Searcher:
    """`act()` returns the next command, `observe(action, observation)` processes its result.

    Args:
        opening: the first observation, with the list of receptacles and the task line.
        rng: breaks ties between equally good places; without it, the order of the opening's
            list breaks them.
        put: the command that puts an object `o` into a receptacle `r`.

    Raises:
        ValueError: the opening has no task line that AlfWorld uses.
    """

    def __init__(
        self, opening: str, rng: np.random.Generator | None = None, *, put: str = Words().put
    ) -> None:
        self.tasks, self._put = read_tasks(opening), put
        room, _, _ = opening.partition("Your task is to:")
        self.memory = Memory(read_names(room))
        self._places_of_kind = Counter(map(kind_of, self.memory.places))
        self._preference = dict.fromkeys(self.memory.places, 1.0)
        if rng is not None:
            noise = rng.lognormal(sigma=0.3, size=len(self.memory.places))
            self._preference = dict(zip(self.memory.places, noise.tolist(), strict=True))

    @property
    def task(self) -> TaskLine:
        """The first task that is not done."""
        return next((one for one in self.tasks[:-1] if not self._is_done(one)), self.tasks[-1])

    def _is_done(self, task: TaskLine) -> bool:
        """Whether a place of the right type was seen with the things, treated as required."""
        memory = self.memory

        def count(things: list[str]) -> int:
            fit = [thing for thing in things if kind_of(thing) == task.thing]
            return sum(not task.verb or task.verb in memory.treated.get(one, ()) for one in fit)

        seen = memory.seen.items()
        return any(kind_of(p) == task.place and count(found) >= task.count for p, found in seen)

    def act(self) -> str:
        """The next command; the same until the next `observe`."""
        task, memory = self.task, self.memory
        if memory.held and not self._is_useful(memory.held):
            return self._put_thing_down()
        if task.light:
            return self._light_thing()
        if not memory.held:
            return self._fetch_thing()
        if task.verb and task.verb not in memory.treated.get(memory.held, ()):
            return self._treat_thing()
        target = self._choose_target()
        return self._reach_place(target) or self._put.format(o=memory.held, r=target)

    def think(self) -> str:
        """The current target: a thing, tool or place by name, or by type if none is known."""
        task, memory = self.task, self.memory
        if memory.held and not self._is_useful(memory.held):
            return memory.held
        if not memory.held:
            return self._choose_thing()[0] or task.thing
        if task.light:
            return next((lamp for lamp, _ in memory.find(task.place)), task.place)
        if task.verb and task.verb not in memory.treated.get(memory.held, ()):
            return self._choose_tool()
        return self._choose_target() or task.place

    def observe(self, action: str, observation: str) -> None:
        """Process the observation after an action, its own or another player's."""
        if observation.strip() == NOTHING:
            self._learn_refusal(action.strip())
        else:
            self.memory.learn(observation)

    def _learn_refusal(self, action: str) -> None:
        """Learn from a refused action, if it is the action that this searcher would have taken."""
        memory = self.memory
        match action.split():
            case ["go", "to", *words] if (place := " ".join(words)) in memory.places:
                if memory.here:
                    memory.share({*memory.here, place})
            case _ if action != self.act():
                pass
            case ["take", kind, number, "from", *words]:
                memory.forget(f"{kind} {number}", " ".join(words))
            case [verb, kind, number, _, *words] if verb == self._put.partition(" ")[0]:
                memory.unfit.add((f"{kind} {number}", " ".join(words)))
            case ["clean" | "heat" | "cool" as verb, kind, number, "with", *_]:
                memory.unfit.add((f"{kind} {number}", verb))
            case ["use", *words]:
                for place in memory.here:
                    memory.forget(" ".join(words), place)
            case ["open" | "examine", *words]:
                memory.view(" ".join(words), "")

    def _is_useful(self, thing: str) -> bool:
        fits = (thing, self.task.verb) not in self.memory.unfit
        return fits and kind_of(thing) == self.task.thing

    def _light_thing(self) -> str:
        """Go to a lamp with the object in hand and switch the lamp on."""
        if not self.memory.held:
            return self._fetch_thing()
        lamps = {place: lamp for lamp, place in self.memory.find(self.task.place)}
        if not lamps:
            return self._search_places(self.task.place)
        place = self._choose_nearest(list(lamps))
        return self._reach_place(place, door=False) or f"use {lamps[place]}"

    def _treat_thing(self) -> str:
        """Clean, heat or cool the held object."""
        tool = self._choose_tool()
        return (
            self._reach_place(tool, door=False)
            or f"{self.task.verb} {self.memory.held} with {tool}"
        )

    def _fetch_thing(self) -> str:
        """Take an object of the task's type that is not yet at the target."""
        thing, place = self._choose_thing()
        if not thing:
            return self._search_places(self.task.thing)
        return self._reach_place(place) or f"take {thing} from {place}"

    def _choose_tool(self) -> str:
        """The nearest receptacle that cleans, heats or cools."""
        kind = _TOOLS[self.task.verb]
        return self._choose_nearest(
            [place for place in self.memory.places if kind_of(place) == kind]
        )

    def _choose_thing(self) -> tuple[str, str]:
        """The nearest known object of the task's type that is not at the target, and its place."""
        target = self._choose_target() if self.task.count > 1 else ""
        known = [
            (thing, place)
            for thing, place in self.memory.find(self.task.thing)
            if place != target and self._is_useful(thing)
        ]
        place = self._choose_nearest([place for _, place in known])
        return next((thing for thing, where in known if where == place), ""), place

    def _choose_target(self) -> str:
        """The target place: the one with most of the objects, else the nearest."""
        memory = self.memory
        fit = [
            place
            for place in memory.places
            if kind_of(place) == self.task.place and (memory.held, place) not in memory.unfit
        ]
        kinds = {p: sum(kind_of(t) == self.task.thing for t in memory.seen.get(p, ())) for p in fit}
        most = max(kinds.values(), default=0) if self.task.count > 1 else 0
        return self._choose_nearest([place for place in fit if kinds[place] >= most])

    def _put_thing_down(self) -> str:
        """Put a useless object down at a place that is likely to accept it."""
        memory, kind = self.memory, kind_of(self.memory.held)
        fit = [place for place in memory.places if (memory.held, place) not in memory.unfit]
        weights = read_habits().get(kind, {})
        liked = [p for p in fit if weights.get(kind_of(p), 0.0) > 0] or fit
        place = self._choose_nearest(liked)
        return self._reach_place(place) or self._put.format(o=memory.held, r=place)

    def _search_places(self, kind: str) -> str:
        """Look into the most likely place for a type of object."""
        memory = self.memory
        fresh = [place for place in memory.places if place not in memory.seen]
        if not fresh:  # it was overlooked or moved: look again, oldest view first
            return self._view_place(next(iter(memory.seen), ""))
        weights = read_habits().get(kind, {})

        def promise(place: str) -> float:
            weight = weights.get(kind_of(place), CHANCE) / self._places_of_kind[kind_of(place)]
            return weight * self._preference[place] / max(self._count_steps(place), 1)

        return self._view_place(max(fresh, key=promise))

    def _view_place(self, place: str) -> str:
        return self._reach_place(place) or (f"examine {place}" if place else "look")

    def _reach_place(self, place: str, *, door: bool = True) -> str:
        """The next step towards a place (and its door, if `door`), "" if it is reached."""
        if place and place not in self.memory.here:
            return f"go to {place}"
        return f"open {place}" if door and place in self.memory.closed else ""

    def _count_steps(self, place: str) -> int:
        """Steps until a place can be used, given what is known about its door."""
        memory = self.memory
        unknown = place not in memory.seen and kind_of(place) in _OPENABLE
        return (place not in memory.here) + (place in memory.closed or unknown)

    def _choose_nearest(self, places: Sequence[str]) -> str:
        """The place with the fewest steps, ties in the opening's order; "" if there is none."""
        return min(
            places,
            key=lambda place: self._count_steps(place) - self._preference[place] / 1e6,
            default="",
        )


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A parsed task line: `count` things of a type, each treated with `verb`, in a place.

    light: the place is a lamp, and the task is to look at the thing under it.
    """

    thing: str
    place: str
    count: int = 1
    verb: str = ""
    light: bool = False


def read_tasks(text: str) -> list[TaskLine]:
    """The one or two tasks named in an opening text; raises as `read_task`."""
    line = _TASK.search(text)
    return [read_task(part) for part in (line[1] if line else text).split(", and ")]


def read_task(text: str) -> TaskLine:
    """The task named in an opening text (or in a bare task line).

    Raises:
        ValueError: no task line, or a wording that AlfWorld does not use.
    """
    line = _TASK.search(text)
    wording = line[1] if line else text.strip().rstrip(".")
    if found := _LIGHT.match(wording):
        return TaskLine(found[1], found[2], light=True)
    if found := _PLACE.match(wording):
        verb = _VERBS.get(found["before"] or found["state"] or "", "")
        return TaskLine(found["thing"], found["place"], 2 if found["count"] == "two" else 1, verb)
    raise ValueError(
        f"no AlfWorld task in {text[-200:]!r}; expected a line such as "
        f"'Your task is to: put a clean mug in shelf.'"
    )


def kind_of(name: str) -> str:
    """`drawer 3` -> `drawer`."""
    return name.partition(" ")[0]


def read_names(text: str) -> list[str]:
    """The things or receptacles in a list such as `a mug 2, and a pen 1`."""
    return _NAME.findall(text)


@dataclass(slots=True)
class Memory:
    """The facts in the observations so far."""

    places: list[str]  # every receptacle, in the order of the opening text
    here: set[str] = field(default_factory=set)  # receptacles within reach
    together: dict[str, set[str]] = field(default_factory=dict)  # those at the same location
    seen: dict[str, list[str]] = field(default_factory=dict)  # contents, oldest view first
    closed: set[str] = field(default_factory=set)  # their contents, once seen, stay known
    held: str = ""
    treated: dict[str, set[str]] = field(default_factory=dict)  # thing -> clean, heat, cool
    unfit: set[tuple[str, str]] = field(default_factory=set)  # (thing, place or verb) refused

    def arrive(self, place: str) -> None:
        """The agent is now at this place, and at all others at the same location."""
        self.here = self.together.setdefault(place, {place})

    def share(self, places: set[str]) -> None:
        """These places are all at the agent's location."""
        group = set(places)
        for place in places:
            group |= self.together.get(place, set())
        for place in group:
            self.together[place] = group
        self.here = group

    def face(self, places: str) -> None:
        """These places, as a list in words, are all at the agent's location."""
        self.share(set(places.replace("and ", "").split(", ")))

    def close(self, place: str) -> None:
        """The door of a place is closed."""
        self.closed.add(place)

    def hold(self, thing: str) -> None:
        """The agent has a thing in hand."""
        self.held = thing

    def view(self, place: str, things: str) -> None:
        """The agent sees the contents of a place, a list in words."""
        self.seen.pop(place, None)
        self.seen[place] = read_names(things)
        self.closed.discard(place)

    def take(self, thing: str, place: str) -> None:
        """The agent took a thing."""
        self.held = thing
        self.forget(thing, place)

    def put_down(self, thing: str, place: str) -> None:
        """The agent put a thing down."""
        self.held = ""
        self.seen.setdefault(place, []).append(thing)

    def forget(self, thing: str, place: str) -> None:
        """A thing is no longer where it was seen."""
        if thing in self.seen.get(place, ()):
            self.seen[place].remove(thing)

    def treat(self, verb: str, thing: str) -> None:
        """The agent cleaned, heated or cooled a thing."""
        done = self.treated.setdefault(thing, set())
        done.add(verb)
        done.discard(_OPPOSITE.get(verb, ""))

    def find(self, kind: str) -> list[tuple[str, str]]:
        """Every (thing, place) of a type that was seen and not taken away since."""
        return [
            (thing, place)
            for place, things in self.seen.items()
            for thing in things
            if kind_of(thing) == kind and thing != self.held
        ]

    def learn(self, observation: str) -> None:
        """Process an observation."""
        for pattern, update in _UPDATES:
            if found := pattern.search(observation):
                update(self, *found.groups())


_UPDATES: tuple[tuple[re.Pattern[str], Callable[..., None]], ...] = (
    (re.compile(r"You arrive at \S+ \d+\. (?:On the|The) (\S+ \d+)"), Memory.arrive),
    (re.compile(r"You are facing the (.*?)\. "), Memory.face),
    (re.compile(r"The (\S+ \d+) is closed\."), Memory.close),
    (re.compile(r"You close the (\S+ \d+)\."), Memory.close),
    (re.compile(r"(?:On the|The) (\S+ \d+)(?: is open\. In it)?, you see (.*)\."), Memory.view),
    (re.compile(r"You pick up the (\S+ \d+) from the (\S+ \d+)\."), Memory.take),
    (re.compile(r"You (?:move|put) the (\S+ \d+) \S+ the (\S+ \d+)\."), Memory.put_down),
    (re.compile(r"You (clean|heat|cool) the (\S+ \d+) using"), Memory.treat),
    (re.compile(r"You are carrying: an? (\S+ \d+)\."), Memory.hold),
)
"""Patterns of sentences in observations, and how each updates the memory."""


@dataclass(frozen=True, slots=True)
class ThingType:
    """A type of thing: its properties, and its weight for each receptacle type."""

    name: str
    abilities: frozenset[str]
    places: Mapping[str, float]


@cache
def read_things() -> dict[str, ThingType]:
    """All types of things by name, in alphabetical order, from `things.toml`."""
    return {
        name: ThingType(name, frozenset(entry.get("abilities", ())), entry["places"])
        for name, entry in table("alfworld/things.toml").items()
    }


@cache
def read_habits() -> dict[str, dict[str, float]]:
    """Type of thing -> receptacle type -> weight, lower-cased as in the game's text."""
    return {
        name.lower(): {place.lower(): weight for place, weight in thing.places.items()}
        for name, thing in read_things().items()
    }
