"""Episodes as the audits play them: from shared seeds, recorded turn by turn, by any actor.

An actor sees what an agent sees; it is made anew for every episode.
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
"""From an observation and its info to the next action."""
Actions: TypeAlias = Callable[[Env, np.random.Generator], Actor]
"""Makes the actor of an episode that was just reset."""

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
"""Texts that are no action of most environments."""
NONSENSE = ("xyzzy", "q" * 300, "y", "vqjzkxw")
"""Words that are an action only where they are listed."""
WORDS = 0.9  # share of the words that an actor was given
SHOWN = 100
"""Characters of an action in messages."""
DRAWS = 64
"""States of the generators that turns can begin with."""
LONGEST = 200  # turns of an environment without a turn limit


class Record(NamedTuple):
    """One turn as seen from outside; the first has action None."""

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
    """How an episode begins: the seed, and the number of the task where there is a panel."""

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
    """The panel of an environment, None where it has none."""
    return cast("Panel | None", getattr(env.unwrapped, "panel", None))


def starts(env: Env, tasks: int, seed: int) -> list[Start]:
    """So many tasks of the panel, drawn by the seed, each with a seed of its own.

    Without a panel the seeds alone are the tasks.

    Raises:
        ValueError: fewer than one task.
    """
    if tasks < 1:
        raise ValueError(f"tasks counts the tasks to play and is at least 1, got {tasks}")
    panel = panel_of(env)
    if panel is None:
        return [Start(seed + place) for place in range(tasks)]
    drawn = np.random.default_rng(seed).permutation(len(panel.task_ids))[:tasks]
    return [Start(seed + place, int(task)) for place, task in enumerate(np.sort(drawn))]


def limit_of(env: Env) -> int:
    """The turn limit: the environment's, its spec's, or `LONGEST`."""
    own = getattr(env.unwrapped, "max_turns", None)
    of_spec = env.spec.max_episode_steps if env.spec is not None else None
    return int(own or of_spec or LONGEST)


class Other(NamedTuple):
    """A step of another instance, between those of the first."""

    step: Any


class Extra(NamedTuple):
    """An action that is put in, to compare with the episode without it."""

    action: Any


COPIED = type("Copied", (), {"__repr__": lambda _: "a copy is made"})()
"""Where, among the steps of an episode, a copy is made."""


class Chance:
    """Puts the generators of environment, Python and NumPy into one of `DRAWS` states.

    Equal turns then draw equal numbers, whatever was drawn before.
    """

    def __init__(self, env: Env) -> None:
        self._env = env.unwrapped

    def fix(self, key: str, action: Any) -> None:
        """Choose the state by what a turn begins with and what is done."""
        place = crc32(f"{key}\n{action!r}".encode("utf-8", "surrogatepass")) % DRAWS
        python, numpy = _global_states()
        random.setstate(python[place])
        np.random.set_state(numpy[place])  # noqa: NPY002  what others' environments draw from
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
    """An episode under way; an error that the environment raises gets a note of the actions.

    The error also has them as its attribute `steps`, for `violations.shortest`.

    Attributes:
        start: How it began. actions: What was done since.
        record: The latest turn.
    """

    def __init__(self, env: Env, start: Start, chance: Chance | None = None) -> None:
        self._env, self.start, self._chance = env, start, chance
        self.actions: list[Any] = []
        self.record = self._noted(self._begun)

    def step(self, action: Any) -> Record:
        """Do an action: the record of its turn."""
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
    """Every turn of these steps: a `Start` resets, what follows are actions, up to the end."""
    play: Play | None = None
    for step in steps:
        if isinstance(step, Start):
            play = Play(env, step, chance)
            yield play, play.record
        elif play is not None and not play.record.ended:
            yield play, play.step(step)


def quoted(action: Any, most: int = SHOWN) -> str:
    """An action as Python writes it; a long one is cut, with a mark, its quote and its length."""
    text = repr(action)
    if len(text) <= most:
        return text
    end = text[-1] if isinstance(action, (str, bytes)) else ""
    size = f" ({len(action):,} characters)" if isinstance(action, (str, bytes)) else ""
    return f"{text[: most - 2]}…{end}{size}"


def shown_by(steps: Sequence[Any]) -> str:
    """How to see something again."""
    start, *rest = steps
    return f"  shown by {start}, then {sequence(rest)}" if rest else f"  shown by {start}"


def sequence(steps: Sequence[Any]) -> str:
    """Steps in order, long actions cut, what is repeated counted."""
    shown = []
    for text, same in groupby(map(_step, steps)):
        times = len(list(same))
        shown += [text] * times if times < REPEATED else [f"{text} ({times} times)"]
    return ", ".join(shown) or "nothing"


REPEATED = 4  # times, to be counted in messages


def _step(step: Any) -> str:
    if isinstance(step, Start):
        return str(step)
    if isinstance(step, Other):
        return f"in the other instance {_step(step.step)}"
    return quoted(step.action if isinstance(step, Extra) else step)


def episode(env: Env, start: Start, make_actor: Callable[[], Actor]) -> Iterator[Record]:
    """An episode by the actor that is made after its reset, to its end or the turn limit."""
    play = Play(env, start)
    yield play.record
    actor = make_actor()
    for _ in range(limit_of(env)):
        yield play.step(actor(play.record.observation, play.record.info))
        if play.record.ended:
            return


def dressed(env: Env, action: str) -> str:
    """An action as `env` takes it: a whole reply where that is what it reads."""
    parser = parser_of(env)
    if parser is not None:
        *before, last = parser.tags
        return "".join(f"<{tag}>.</{tag}>" for tag in before) + f"<{last}>{action}</{last}>"
    form = str(getattr(env.unwrapped, "reply_form", ""))
    return form.format(thought="", action=action) if form else action


def parser_of(env: Env) -> ParseReply | None:
    """The wrapper that reads actions from replies, None where there is none."""
    while isinstance(env, gym.Wrapper) and not isinstance(env, ParseReply):
        env = env.env
    return env if isinstance(env, ParseReply) else None


def listed(env: Env, info: dict[str, Any]) -> list[Any]:
    """What `info` says can be done next, as `env` takes it; nothing where it says nothing."""
    return [dressed(env, action) for action in info.get("admissible_actions") or ()]


def odd_actions(env: Env) -> list[Any]:
    """Actions that mostly are none: odd texts, or samples of a space of something else."""
    if isinstance(env.action_space, Text):
        return [dressed(env, text) for text in ODD]
    return [env.action_space.sample() for _ in ODD]


def wander(env: Env, rng: np.random.Generator) -> Actor:
    """Actions for any environment: listed ones, some twice, odd texts, and samples of the space."""
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
    """Makes actors that say these words, for an environment of text that lists no actions."""

    def made(env: Env, rng: np.random.Generator) -> Actor:
        wandering, said = wander(env, rng), [dressed(env, word) for word in words]

        def act(shown: Any, info: dict[str, Any]) -> Any:
            if rng.random() < WORDS:
                return said[int(rng.integers(len(said)))]
            return wandering(shown, info)

        return act

    return made


def audits_of(env: Env) -> ModuleType | None:
    """The module that the environment's class names in `audits`, with `actions` and `NON_SOLVERS`.

    Raises:
        ImportError: there is no such module.
    """
    name = getattr(env.unwrapped, "audits", "")
    return import_module(name) if name else None
