"""A scripted expert that knows only what was observed, and demonstrations with mistakes in them.

It reads the opening text and the observations, as a person would: it searches likely places first,
opens what is closed, remembers what it saw, and does what the task says with the first thing that
fits. It never looks at the game's state, so that what it does can be learned from its transcripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agent_envs.alfworld.layouts import CHANCE, OPENABLE, TOOLS, habits
from agent_envs.alfworld.memory import Memory, kind_of, named, read_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import gymnasium as gym
    import numpy as np

REFUSED = "Nothing happens."
_OPENABLE = frozenset(name.lower() for name in OPENABLE)
_TOOLS = {verb: tool.lower() for verb, tool in TOOLS.items()}


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
        self.memory = Memory(named(room))
        self._number = {
            kind: sum(kind_of(place) == kind for place in self.memory.places)
            for kind in {kind_of(place) for place in self.memory.places}
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

    def think(self) -> str:
        """What it is after now: a thing, tool or place by name, or by type if none is known."""
        task, memory = self.task, self.memory
        if memory.held and not self._useful(memory.held):
            return memory.held
        if not memory.held:
            return self._wanted()[0] or task.thing
        if task.light:
            return next((lamp for lamp, _ in memory.find(task.place)), task.place)
        if task.verb and task.verb not in memory.treated.get(memory.held, ()):
            return self._tool()
        return self._target() or task.place

    def observe(self, action: str, observation: str) -> None:
        """Take in what an action brought, be it the expert's own or somebody else's."""
        if observation.strip() == REFUSED:
            self._refused(action.strip())
        else:
            self.memory.learn(observation)

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
        return (
            kind_of(thing) == self.task.thing and (thing, self.task.verb) not in self.memory.unfit
        )

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
        tool = self._tool()
        return self._reach(tool, door=False) or f"{self.task.verb} {self.memory.held} with {tool}"

    def _fetch(self) -> str:
        """Take a thing of the task's type that is not yet where it belongs."""
        thing, place = self._wanted()
        if not thing:
            return self._search(self.task.thing)
        return self._reach(place) or f"take {thing} from {place}"

    def _tool(self) -> str:
        """The nearest receptacle that cleans, heats or cools."""
        kind = _TOOLS[self.task.verb]
        return self._nearest([place for place in self.memory.places if kind_of(place) == kind])

    def _wanted(self) -> tuple[str, str]:
        """The nearest known thing of the task's type that is out of place, and where it is."""
        target = self._target() if self.task.count > 1 else ""
        known = [
            (thing, place)
            for thing, place in self.memory.find(self.task.thing)
            if place != target and self._useful(thing)
        ]
        place = self._nearest([place for _, place in known])
        return next((thing for thing, where in known if where == place), ""), place

    def _target(self) -> str:
        """The place to fill: the one that holds most of the things, else the nearest."""
        memory = self.memory
        fit = [
            place
            for place in memory.places
            if kind_of(place) == self.task.place and (memory.held, place) not in memory.unfit
        ]
        kinds = {p: sum(kind_of(t) == self.task.thing for t in memory.seen.get(p, ())) for p in fit}
        most = max(kinds.values(), default=0) if self.task.count > 1 else 0
        return self._nearest([place for place in fit if kinds[place] >= most])

    def _put_down(self) -> str:
        """Get rid of a thing that is of no use, where it is likely to be allowed."""
        memory, kind = self.memory, kind_of(self.memory.held)
        fit = [place for place in memory.places if (memory.held, place) not in memory.unfit]
        weights = habits().get(kind, {})
        liked = [p for p in fit if weights.get(kind_of(p), 0.0) > 0] or fit
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
            weight = weights.get(kind_of(place), CHANCE) / self._number[kind_of(place)]
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
        unknown = place not in memory.seen and kind_of(place) in _OPENABLE
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
    """One turn of a demonstration: what was seen, what was done and why, whether it was a slip."""

    observation: str
    action: str
    thought: str
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
        yield Shown(observation, action, (_aim(action) if slip else "") or expert.think(), slip)
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
        f"go to {kind_of(place)} {number + 20}",  # no such place
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


def _aim(action: str) -> str:
    """The thing that a slip hopes to take, as if it were there; "" for any other action."""
    thing, _, place = action.removeprefix("take ").partition(" from ")
    return thing if place else ""


def _loose(memory: Memory, place: str) -> list[str]:
    """Things within sight that can be taken from a place and surely be put back there."""
    things = [] if place in memory.closed else memory.seen.get(place, [])
    return [thing for thing in things if kind_of(place) in habits().get(kind_of(thing), {})]


def _pick(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))] if names else ""
