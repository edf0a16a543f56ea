"""Episodes of the audits: played from given seeds by any actor, and recorded turn by turn.

An actor sees what an agent sees; each episode has a new actor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from zlib import crc32

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

from agent_envs.parse import ParseReply

if TYPE_CHECKING:
    from types import ModuleType

    from agent_envs.panels import Panel

Env: TypeAlias = "gym.Env[Any, Any]"
Actor: TypeAlias = Callable[[Any, dict[str, Any]], Any]
"""Maps an observation and its info to the next action."""
Actions: TypeAlias = Callable[[Env, np.random.Generator], Actor]
"""Makes the actor of an episode, after its reset."""

ODD = (
    "",
    " ",
    "xyzzy",
    "0",
    "look look look",
    "\x00\x1b[2J",
    "ÿ漢字🎉",
    "<action>",
    "{}",
    "q" * 300,
)
"""Texts that are not an action in most environments."""
NONSENSE = ("xyzzy", "q" * 300, "y", "vqjzkxw")
"""Words that are an action only if they are listed."""
WORDS = 0.9  # share of actions that are the given words
SHOWN = 100
"""Most characters of an action in messages."""
DRAWS = 64
"""Number of generator states that a turn can begin with."""
LONGEST = 200  # most turns in an environment without a turn limit


class Record(NamedTuple):
    """One turn as seen from outside; the action of the reset is None."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class Start(NamedTuple):
    """The beginning of an episode: the seed, and the task's number if there is a panel."""

    seed: int
    task: int | None = None

    @property
    def options(self) -> dict[str, int] | None:
        """The options of `reset`."""
        return None if self.task is None else {"task": self.task}

    def __str__(self) -> str:
        options = "" if self.task is None else f", options={self.options}"
        return f"reset(seed={self.seed}{options})"


def name_of(env: Env) -> str:
    """The id of an environment, or the name of its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def panel_of(env: Env) -> Panel | None:
    """The panel of an environment, or None."""
    return cast("Panel | None", getattr(env.unwrapped, "panel", None))


def starts(env: Env, tasks: int, seed: int) -> list[Start]:
    """The starts of `tasks` random tasks of the panel, each with its own seed.

    Without a panel, the seeds are the tasks.

    Raises:
        ValueError: fewer than one task.
    """
    if tasks < 1:
        raise ValueError(f"tasks, the number of tasks to play, must be at least 1, got {tasks}")
    panel = panel_of(env)
    if panel is None:
        return [Start(seed + place) for place in range(tasks)]
    drawn = np.random.default_rng(seed).permutation(len(panel.task_ids))[:tasks]
    return [Start(seed + place, int(task)) for place, task in enumerate(np.sort(drawn))]


def limit_of(env: Env) -> int:
    """The turn limit of the environment or of its spec, else `LONGEST`."""
    own = getattr(env.unwrapped, "max_turns", None)
    of_spec = env.spec.max_episode_steps if env.spec is not None else None
    return int(own or of_spec or LONGEST)


class Other(NamedTuple):
    """A step of another instance, between steps of the first."""

    step: Any


class Extra(NamedTuple):
    """An inserted action; the episode is compared with the one without it."""

    action: Any


COPIED = type("Copied", (), {"__repr__": lambda _: "a copy is made"})()
"""Marks the place among the steps at which a copy is made."""


class Chance:
    """Sets the generators of environment, Python and NumPy to one of `DRAWS` states.

    Equal turns then draw equal numbers, regardless of earlier draws.
    """

    def __init__(self, env: Env) -> None:
        self._env = env.unwrapped

    def fix(self, key: str, action: Any) -> None:
        """Choose the state by the key of a turn's beginning and its action."""
        place = crc32(f"{key}\n{action!r}".encode("utf-8", "surrogatepass")) % DRAWS
        python, numpy = _global_states()
        random.setstate(python[place])
        np.random.set_state(numpy[place])
        generator = getattr(self._env.np_random, "bit_generator", None)
        if generator is not None:
            generator.state = _own_state(cast("Any", type(generator)), place)


@cache
def _global_states() -> tuple[list[Any], list[Any]]:
    return (
        [random.Random(place).getstate() for place in range(DRAWS)],
        [np.random.RandomState(place).get_state() for place in range(DRAWS)],
    )


@cache
def _own_state(kind: type, place: int) -> Any:
    return kind(place).state


class Play:
    """A running episode; errors of the environment get a note with the actions.

    The error's attribute `steps` also has the actions, for `violations.shortest`.

    Attributes:
        start: The beginning. actions: The actions since.
        record: The latest turn.
    """

    def __init__(self, env: Env, start: Start, chance: Chance | None = None) -> None:
        self._env, self.start, self._chance = env, start, chance
        self.actions: list[Any] = []
        self.record = self._noted(self._begun)

    def step(self, action: Any) -> Record:
        """Take an action, return the record of its turn."""
        if self._chance is not None:
            self._chance.fix(str(self.record.info.get("anchor")), action)
        self.actions.append(action)
        self.record = self._noted(self._stepped)
        return self.record

    def _begun(self) -> Record:
        observation, info = self._env.reset(seed=self.start.seed, options=self.start.options)
        return Record(None, observation, 0.0, False, False, info)

    def _stepped(self) -> Record:
        return Record(self.actions[-1], *cast("Any", self._env.step(self.actions[-1])))

    def _noted(self, do: Callable[[], Record]) -> Record:
        try:
            return do()
        except Exception as error:
            steps = (self.start, *self.actions)
            error.add_note(shown_by(steps))
            vars(error)["steps"] = steps
            raise


def performed(
    env: Env, steps: Sequence[Any], chance: Chance | None = None
) -> Iterator[tuple[Play, Record]]:
    """Plays steps and yields every turn: a `Start` resets, actions follow up to the end."""
    play: Play | None = None
    for step in steps:
        if isinstance(step, Start):
            play = Play(env, step, chance)
            yield play, play.record
        elif play is not None and not play.record.ended:
            yield play, play.step(step)


def quoted(action: Any, most: int = SHOWN) -> str:
    """The repr of an action; a long one is truncated and followed by its length."""
    text = repr(action)
    if len(text) <= most:
        return text
    end = text[-1] if isinstance(action, (str, bytes)) else ""
    size = f" ({len(action):,} characters)" if isinstance(action, (str, bytes)) else ""
    return f"{text[: most - 2]}…{end}{size}"


def shown_by(steps: Sequence[Any]) -> str:
    """The line of a message that says how to reproduce something."""
    start, *rest = steps
    return f"  shown by {start}, then {sequence(rest)}" if rest else f"  shown by {start}"


def sequence(steps: Sequence[Any]) -> str:
    """Steps in order; long actions are truncated, repeated steps are counted."""
    shown = []
    for text, same in groupby(map(_step, steps)):
        times = len(list(same))
        shown += [text] * times if times < REPEATED else [f"{text} ({times} times)"]
    return ", ".join(shown) or "nothing"


REPEATED = 4  # repetitions from which on messages count them


def _step(step: Any) -> str:
    if isinstance(step, Start):
        return str(step)
    if isinstance(step, Other):
        return f"in the other instance {_step(step.step)}"
    return quoted(step.action if isinstance(step, Extra) else step)


def episode(env: Env, start: Start, make_actor: Callable[[], Actor]) -> Iterator[Record]:
    """Plays an episode with a new actor, to its end or the turn limit."""
    play = Play(env, start)
    yield play.record
    actor = make_actor()
    for _ in range(limit_of(env)):
        yield play.step(actor(play.record.observation, play.record.info))
        if play.record.ended:
            return


def dressed(env: Env, action: str) -> str:
    """The input of `env.step` for an action: a whole reply if `env` reads replies."""
    parser = parser_of(env)
    if parser is not None:
        *before, last = parser.tags
        return "".join(f"<{tag}>.</{tag}>" for tag in before) + f"<{last}>{action}</{last}>"
    form = str(getattr(env.unwrapped, "reply_form", ""))
    return form.format(thought="", action=action) if form else action


def parser_of(env: Env) -> ParseReply | None:
    """The wrapper `ParseReply` of an environment, or None."""
    while isinstance(env, gym.Wrapper) and not isinstance(env, ParseReply):
        env = env.env
    return env if isinstance(env, ParseReply) else None


def listed(env: Env, info: dict[str, Any]) -> list[Any]:
    """The admissible actions in `info` as inputs of `env.step`; [] if there is no list."""
    return [dressed(env, action) for action in info.get("admissible_actions") or ()]


def odd_actions(env: Env) -> list[Any]:
    """Mostly invalid actions: odd texts, or samples of a space that is not text."""
    if isinstance(env.action_space, Text):
        return [dressed(env, text) for text in ODD]
    return [env.action_space.sample() for _ in ODD]


def wander(env: Env, rng: np.random.Generator) -> Actor:
    """An actor for any environment: listed actions, repetitions, odd texts, and samples."""
    env.action_space.seed(int(rng.integers(2**31)))
    done, odd = list[Any](), odd_actions(env)

    def act(_: Any, info: dict[str, Any]) -> Any:
        kind, choices = rng.choice(4, p=(0.75, 0.1, 0.1, 0.05)), listed(env, info)
        if kind == 0 and choices:
            action = choices[int(rng.integers(len(choices)))]
        elif kind == 1 and done:
            action = done[-1]
        else:
            action = odd[int(rng.integers(len(odd)))] if kind > 1 else env.action_space.sample()
        done.append(action)
        return action

    return act


def saying(words: Sequence[str]) -> Actions:
    """Makes actors that use these words, for text environments without lists of actions."""

    def made(env: Env, rng: np.random.Generator) -> Actor:
        wandering, said = wander(env, rng), [dressed(env, word) for word in words]

        def act(shown: Any, info: dict[str, Any]) -> Any:
            if rng.random() < WORDS:
                return said[int(rng.integers(len(said)))]
            return wandering(shown, info)

        return act

    return made


def audits_of(env: Env) -> ModuleType | None:
    """The module in the class attribute `audits` of an environment, None without one.

    Raises:
        ImportError: the module does not exist.
    """
    name = getattr(env.unwrapped, "audits", "")
    return import_module(name) if name else None
