"""A scripted expert that knows only what was observed, and demonstrations with mistakes in them.

It reads the opening text and the observations, as a person would: it searches likely places first,
opens what is closed, remembers what it saw, and does what the task says with the first thing that
fits. It never looks at the game's state, so that what it does can be learned from its transcripts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agent_envs.alfworld.layouts import CHANCE, OPENABLE, TOOLS, habits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import gymnasium as gym
    import numpy as np

REFUSED = "Nothing happens."
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
_FACING = re.compile(r"You are facing the (.*?)\. ")
_ARRIVE = re.compile(r"You arrive at (\S+ \d+)\.")
_CLOSED = re.compile(r"The (\S+ \d+) is closed\.|You close the (\S+ \d+)\.")
_VIEW = re.compile(r"(?:On the|The) (\S+ \d+)(?: is open\. In it)?, you see (.*)\.")
_TAKE = re.compile(r"You pick up the (\S+ \d+) from the (\S+ \d+)\.")
_PUT = re.compile(r"You (?:move|put) the (\S+ \d+) (?:to|in/on) the (\S+ \d+)\.")
_TREAT = re.compile(r"You (clean|heat|cool) the (\S+ \d+) using")
_CARRY = re.compile(r"You are carrying: an? (\S+ \d+)\.")


@dataclass(frozen=True, slots=True)
class Task:
    """What the task line asks for: `count` things of a type, `verb` done to each, in a place.

    `light` says that the place is a lamp under which the thing is to be looked at.
    """

    thing: str
    place: str
    count: int = 1
    verb: str = ""
    light: bool = False


def read_task(text: str) -> Task:
    """The task named in an opening text (or in a bare task line).

    Raises:
        ValueError: no task line, or one of a wording that AlfWorld does not use.
    """
    line = _TASK.search(text)
    wording = line[1] if line else text.strip().rstrip(".")
    if found := _LIGHT.match(wording):
        return Task(found[1], found[2], light=True)
    if found := _PLACE.match(wording):
        verb = _VERBS.get(found["before"] or found["state"] or "", "")
        return Task(found["thing"], found["place"], 2 if found["count"] == "two" else 1, verb)
    raise ValueError(
        f"no AlfWorld task in {text[-200:]!r}; expected a line such as "
        f"'Your task is to: put a clean mug in shelf.'"
    )


def _type(name: str) -> str:
    """`drawer 3` -> `drawer`."""
    return name.partition(" ")[0]


@dataclass(slots=True)
class Memory:
    """What the observations told so far."""

    places: list[str]  # every receptacle, in the order of the opening text
    here: set[str] = field(default_factory=set)  # receptacles within reach
    together: dict[str, set[str]] = field(default_factory=dict)  # those that share a spot
    seen: dict[str, list[str]] = field(default_factory=dict)  # contents, oldest view first
    closed: set[str] = field(default_factory=set)
    held: str = ""
    treated: dict[str, set[str]] = field(default_factory=dict)  # thing -> clean, heat, cool
    unfit: set[tuple[str, str]] = field(default_factory=set)  # (thing, place or verb) refused

    def arrive(self, place: str) -> None:
        """The agent now stands at this place, and at all that share its spot."""
        self.here = self.together.setdefault(place, {place})

    def share(self, places: set[str]) -> None:
        """These places turn out to stand at one spot, the agent's."""
        group = set(places)
        for place in places:
            group |= self.together.get(place, set())
        for place in group:
            self.together[place] = group
        self.here = group

    def view(self, place: str, things: list[str]) -> None:
        """The agent sees what is in a place."""
        self.seen.pop(place, None)
        self.seen[place] = things
        self.closed.discard(place)

    def shut(self, place: str) -> None:
        """The agent sees a closed door; what it saw behind it stays known."""
        self.closed.add(place)

    def take(self, thing: str, place: str) -> None:
        """The agent took a thing."""
        self.held = thing
        self.forget(thing, place)

    def put(self, thing: str, place: str) -> None:
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
            if _type(thing) == kind and thing != self.held
        ]


class Explorer:
    """The expert: `act()` says what to do next, `observe(action, observation)` what came of it.

    Args:
        opening: the first observation, with the list of receptacles and the task line.
        rng: makes it prefer some places over equally good ones; without it, it keeps the
            order in which the opening lists them.

    Raises:
        ValueError: the opening has no task line that AlfWorld uses.
    """

    def __init__(self, opening: str, rng: np.random.Generator | None = None) -> None:
        self.task = read_task(opening)
        room, _, _ = opening.partition("Your task is to:")
        self.memory = Memory(_NAME.findall(room))
        self._number = {
            kind: sum(_type(place) == kind for place in self.memory.places)
            for kind in {_type(place) for place in self.memory.places}
        }
        self._taste = dict.fromkeys(self.memory.places, 1.0)
        if rng is not None:
            noise = rng.lognormal(sigma=0.3, size=len(self.memory.places))
            self._taste = dict(zip(self.memory.places, noise.tolist(), strict=True))

    def act(self) -> str:
        """The next command; the same until something is observed."""
        task, memory = self.task, self.memory
        if memory.held and not self._useful(memory.held):
            return self._put_down()
        if task.light:
            return self._light()
        if not memory.held:
            return self._fetch()
        if task.verb and task.verb not in memory.treated.get(memory.held, ()):
            return self._treat()
        target = self._target()
        return self._reach(target) or f"move {memory.held} to {target}"

    def observe(self, action: str, observation: str) -> None:
        """Take in what an action brought, be it the expert's own or somebody else's."""
        memory = self.memory
        if observation.strip() == REFUSED:
            self._refused(action.strip())
            return
        if found := _ARRIVE.search(observation):
            memory.arrive(found[1])
        if found := _FACING.search(observation):
            memory.share({name.removeprefix("and ") for name in found[1].split(", ")})
        if found := _CLOSED.search(observation):
            memory.shut(found[1] or found[2])
        if found := _VIEW.search(observation):
            memory.view(found[1], _NAME.findall(found[2]))
        if found := _TAKE.search(observation):
            memory.take(found[1], found[2])
        if found := _PUT.search(observation):
            memory.put(found[1], found[2])
        if found := _TREAT.search(observation):
            memory.treat(found[1], found[2])
        if found := _CARRY.search(observation):
            memory.held = found[1]

    def _refused(self, action: str) -> None:
        """Learn from a refusal, if the expert would have tried the same."""
        memory = self.memory
        match action.split():
            case ["go", "to", *words] if (place := " ".join(words)) in memory.places:
                if memory.here:
                    memory.share({*memory.here, place})
            case _ if action != self.act():
                pass
            case ["take", kind, number, "from", *words]:
                memory.forget(f"{kind} {number}", " ".join(words))
            case ["move", kind, number, "to", *words]:
                memory.unfit.add((f"{kind} {number}", " ".join(words)))
            case ["clean" | "heat" | "cool" as verb, kind, number, "with", *_]:
                memory.unfit.add((f"{kind} {number}", verb))
            case ["use", *words]:
                for place in memory.here:
                    memory.forget(" ".join(words), place)
            case ["open" | "examine", *words]:
                memory.view(" ".join(words), [])

    def _useful(self, thing: str) -> bool:
        return _type(thing) == self.task.thing and (thing, self.task.verb) not in self.memory.unfit

    def _light(self) -> str:
        """Hold the thing where a lamp is and switch the lamp on."""
        if not self.memory.held:
            return self._fetch()
        lamps = {place: lamp for lamp, place in self.memory.find(self.task.place)}
        if not lamps:
            return self._search(self.task.place)
        place = self._nearest(list(lamps))
        return self._reach(place, door=False) or f"use {lamps[place]}"

    def _treat(self) -> str:
        """Clean, heat or cool what is held."""
        tool = self._nearest([p for p in self.memory.places if _type(p) == _TOOLS[self.task.verb]])
        return self._reach(tool, door=False) or f"{self.task.verb} {self.memory.held} with {tool}"

    def _fetch(self) -> str:
        """Take a thing of the task's type that is not yet where it belongs."""
        target = self._target() if self.task.count > 1 else ""
        known = [
            (thing, place)
            for thing, place in self.memory.find(self.task.thing)
            if place != target and self._useful(thing)
        ]
        if not known:
            return self._search(self.task.thing)
        place = self._nearest([place for _, place in known])
        thing = next(thing for thing, where in known if where == place)
        return self._reach(place) or f"take {thing} from {place}"

    def _target(self) -> str:
        """The place to fill: the one that holds most of the things, else the nearest."""
        memory = self.memory
        fit = [
            place
            for place in memory.places
            if _type(place) == self.task.place and (memory.held, place) not in memory.unfit
        ]
        kinds = {p: sum(_type(t) == self.task.thing for t in memory.seen.get(p, ())) for p in fit}
        most = max(kinds.values(), default=0) if self.task.count > 1 else 0
        return self._nearest([place for place in fit if kinds[place] >= most])

    def _put_down(self) -> str:
        """Get rid of a thing that is of no use, where it is likely to be allowed."""
        memory, kind = self.memory, _type(self.memory.held)
        fit = [place for place in memory.places if (memory.held, place) not in memory.unfit]
        weights = habits().get(kind, {})
        liked = [p for p in fit if weights.get(_type(p), 0.0) > 0] or fit
        place = self._nearest(liked)
        return self._reach(place) or f"move {memory.held} to {place}"

    def _search(self, kind: str) -> str:
        """Look into the most promising place for a type of thing."""
        memory = self.memory
        fresh = [place for place in memory.places if place not in memory.seen]
        if not fresh:  # it must have been overlooked or moved: look again, oldest view first
            return self._view(next(iter(memory.seen), ""))
        weights = habits().get(kind, {})

        def promise(place: str) -> float:
            weight = weights.get(_type(place), CHANCE) / self._number[_type(place)]
            return weight * self._taste[place] / max(self._cost(place), 1)

        return self._view(max(fresh, key=promise))

    def _view(self, place: str) -> str:
        return self._reach(place) or (f"examine {place}" if place else "look")

    def _reach(self, place: str, *, door: bool = True) -> str:
        """The step towards a place (through its door, if asked), "" when nothing is in the way."""
        if place and place not in self.memory.here:
            return f"go to {place}"
        return f"open {place}" if door and place in self.memory.closed else ""

    def _cost(self, place: str) -> int:
        """Steps until a place can be used, by what is known of its door."""
        memory = self.memory
        unknown = place not in memory.seen and _type(place) in _OPENABLE
        return (place not in memory.here) + (place in memory.closed or unknown)

    def _nearest(self, places: Sequence[str]) -> str:
        """The place that takes the fewest steps, in the opening's order; "" of none."""
        return min(
            places, key=lambda place: self._cost(place) - self._taste[place] / 1e6, default=""
        )


def explorer(env: gym.Env[Any, Any]) -> Explorer:
    """The expert as it would stand after the running episode, whoever played it so far.

    Raises:
        ValueError: the environment has not been reset, or its text is not AlfWorld's.
    """
    transcript: list[tuple[str, str]] = list(getattr(env.unwrapped, "transcript", ()))
    if not transcript:
        raise ValueError(f"explorer needs a running AlfWorld episode: call reset() on {env} first")
    expert = Explorer(transcript[0][1])
    for action, observation in transcript[1:]:
        expert.observe(action, observation)
    return expert


class Playable(Protocol):
    """What a demonstration needs of a world."""

    @property
    def intro(self) -> str:
        """The opening text."""

    @property
    def won(self) -> bool:
        """Whether the task is done."""

    def execute(self, command: str) -> str:
        """Do a command and return what is seen of it."""


class Shown(NamedTuple):
    """One turn of a demonstration: what was seen, what was done then, whether it was a slip."""

    observation: str
    action: str
    mistake: bool


def demonstration(
    world: Playable,
    rng: np.random.Generator,
    *,
    mistake: float = 0.1,
    max_turns: int = 50,
    expert: Explorer | None = None,
) -> Iterator[Shown]:
    """Play a world with the expert, who slips now and then and recovers; ends when won.

    Args:
        world: a fresh world; it is played to its end.
        rng: draws the slips.
        mistake: share of turns that are slips, in [0, 1).
        max_turns: the demonstration is cut here.
        expert: who plays; by default one without tastes.

    Raises:
        ValueError: `mistake` outside [0, 1).
    """
    if not 0 <= mistake < 1:
        raise ValueError(f"mistake is a share of turns and must lie in [0, 1), got {mistake}")
    expert, observation = expert or Explorer(world.intro), world.intro
    for _ in range(max_turns):
        slip = rng.random() < mistake
        action = _slip(expert, rng) if slip else expert.act()
        yield Shown(observation, action, slip)
        observation = world.execute(action)
        expert.observe(action, observation)
        if world.won:
            return


def _slip(expert: Explorer, rng: np.random.Generator) -> str:
    """A plausible mistake in this situation; none of them makes the task impossible."""
    memory, right = expert.memory, expert.act()
    place, here = _pick(memory.places, rng), _pick(sorted(memory.here), rng)
    number = int(rng.integers(1, 4))
    slips = [
        f"go to {place}",  # nothing to do there
        f"go to {_pick(list(memory.seen), rng) or place}",  # seen already
        f"go to {_type(place)} {number + 20}",  # no such place
        f"take {expert.task.thing} {number} from {here or place}",  # not there, or behind a door
        _pick(["look", "inventory", f"examine {here or place}"], rng),
    ]
    if memory.held:
        slips.append(f"move {memory.held} to {here or place}")  # not where it belongs
        slips.append(f"{_pick(list(_TOOLS), rng)} {memory.held} with {here or place}")
    else:
        slips += [f"take {thing} from {here}" for thing in _loose(memory, here)][:2]
    wrong = [slip for slip in slips if slip != right]
    return _pick(wrong, rng)


def _loose(memory: Memory, place: str) -> list[str]:
    """Things within sight that can be taken from a place and surely be put back there."""
    things = [] if place in memory.closed else memory.seen.get(place, [])
    return [thing for thing in things if _type(place) in habits().get(_type(thing), {})]


def _pick(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))] if names else ""
