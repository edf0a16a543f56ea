"""The experts of AlfWorld: an Explorer that reads observations, an Oracle that knows the game.

The Explorer only reads the first observation and the later ones. It searches likely places first,
opens closed receptacles, remembers what it saw, and does the task with the first object that fits.
It never uses the game's state, so a policy can learn its behaviour from its transcripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.env import AlfWorld
from agent_envs.alfworld.layouts import CHANCE, OPENABLE, TOOLS, habits
from agent_envs.alfworld.memory import Memory, kind_of, named, read_task
from agent_envs.alfworld.world import World
from agent_envs.experts import playing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym
    import numpy as np

REFUSED = "Nothing happens."
_OPENABLE = frozenset(name.lower() for name in OPENABLE)
_TOOLS = {verb: tool.lower() for verb, tool in TOOLS.items()}


class Explorer:
    """A `Searcher` that has observed all turns of the episode, including other players' turns.

    Raises:
        ValueError: the opening has no task line that AlfWorld uses.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AlfWorld)
        self._searcher = Searcher(self._env.transcript[0][1])
        self._observed = 1

    def act(self) -> str:
        """The next command; it is not executed."""
        return self._informed().act()

    def think(self) -> str:
        """The current target: a thing, tool or place by name, or by type if none is known."""
        return self._informed().think()

    def _informed(self) -> Searcher:
        for action, observation in self._env.transcript[self._observed :]:
            self._searcher.observe(action, observation)
        self._observed = len(self._env.transcript)
        return self._searcher


class Oracle:
    """Plays a shortest solution from the full state: an upper bound, not suited for imitation.

    Raises:
        ValueError: the engine is not the native one.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AlfWorld)
        if not isinstance(self._env.world, World):
            raise ValueError(  # noqa: TRY004  the option is wrong, not a type
                "the Oracle of AlfWorld needs engine='native', this episode has another engine; "
                "use the Explorer"
            )

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

    def think(self) -> str:
        """Always "": its reasons are facts that the agent has not seen."""
        return ""


class Searcher:
    """`act()` returns the next command, `observe(action, observation)` processes its result.

    Args:
        opening: the first observation, with the list of receptacles and the task line.
        rng: breaks ties between equally good places; without it, the order of the opening's
            list breaks them.

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
        """The next command; the same until the next `observe`."""
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
        """The current target: a thing, tool or place by name, or by type if none is known."""
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
        """Process the observation after an action, its own or another player's."""
        if observation.strip() == REFUSED:
            self._refused(action.strip())
        else:
            self.memory.learn(observation)

    def _refused(self, action: str) -> None:
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
        """Go to a lamp with the object in hand and switch the lamp on."""
        if not self.memory.held:
            return self._fetch()
        lamps = {place: lamp for lamp, place in self.memory.find(self.task.place)}
        if not lamps:
            return self._search(self.task.place)
        place = self._nearest(list(lamps))
        return self._reach(place, door=False) or f"use {lamps[place]}"

    def _treat(self) -> str:
        """Clean, heat or cool the held object."""
        tool = self._tool()
        return self._reach(tool, door=False) or f"{self.task.verb} {self.memory.held} with {tool}"

    def _fetch(self) -> str:
        """Take an object of the task's type that is not yet at the target."""
        thing, place = self._wanted()
        if not thing:
            return self._search(self.task.thing)
        return self._reach(place) or f"take {thing} from {place}"

    def _tool(self) -> str:
        """The nearest receptacle that cleans, heats or cools."""
        kind = _TOOLS[self.task.verb]
        return self._nearest([place for place in self.memory.places if kind_of(place) == kind])

    def _wanted(self) -> tuple[str, str]:
        """The nearest known object of the task's type that is not at the target, and its place."""
        target = self._target() if self.task.count > 1 else ""
        known = [
            (thing, place)
            for thing, place in self.memory.find(self.task.thing)
            if place != target and self._useful(thing)
        ]
        place = self._nearest([place for _, place in known])
        return next((thing for thing, where in known if where == place), ""), place

    def _target(self) -> str:
        """The target place: the one with most of the objects, else the nearest."""
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
        """Put a useless object down at a place that is likely to accept it."""
        memory, kind = self.memory, kind_of(self.memory.held)
        fit = [place for place in memory.places if (memory.held, place) not in memory.unfit]
        weights = habits().get(kind, {})
        liked = [p for p in fit if weights.get(kind_of(p), 0.0) > 0] or fit
        place = self._nearest(liked)
        return self._reach(place) or f"move {memory.held} to {place}"

    def _search(self, kind: str) -> str:
        """Look into the most likely place for a type of object."""
        memory = self.memory
        fresh = [place for place in memory.places if place not in memory.seen]
        if not fresh:  # it was overlooked or moved: look again, oldest view first
            return self._view(next(iter(memory.seen), ""))
        weights = habits().get(kind, {})

        def promise(place: str) -> float:
            weight = weights.get(kind_of(place), CHANCE) / self._number[kind_of(place)]
            return weight * self._taste[place] / max(self._cost(place), 1)

        return self._view(max(fresh, key=promise))

    def _view(self, place: str) -> str:
        return self._reach(place) or (f"examine {place}" if place else "look")

    def _reach(self, place: str, *, door: bool = True) -> str:
        """The next step towards a place (and its door, if `door`), "" if it is reached."""
        if place and place not in self.memory.here:
            return f"go to {place}"
        return f"open {place}" if door and place in self.memory.closed else ""

    def _cost(self, place: str) -> int:
        """Steps until a place can be used, given what is known about its door."""
        memory = self.memory
        unknown = place not in memory.seen and kind_of(place) in _OPENABLE
        return (place not in memory.here) + (place in memory.closed or unknown)

    def _nearest(self, places: Sequence[str]) -> str:
        """The place with the fewest steps, ties in the opening's order; "" if there is none."""
        return min(
            places, key=lambda place: self._cost(place) - self._taste[place] / 1e6, default=""
        )
