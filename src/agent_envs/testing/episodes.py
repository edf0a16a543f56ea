"""Episodes seen from outside: played from given seeds by any actor, recorded turn by turn.

An actor sees what an agent sees; each episode has a new actor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

from agent_envs.contract import ContractError
from agent_envs.replies import ParseReply

if TYPE_CHECKING:
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
SHOWN = 100  # most characters of an action in messages
AGREED = 40  # texts with a longer common beginning are shown from their first difference on
REPEATED = 4  # repetitions from which on messages count them
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

    def __repr__(self) -> str:
        options = "" if self.task is None else f", options={self.options}"
        return f"reset(seed={self.seed}{options})"


class Violation(ContractError):
    """What is wrong, and the steps that show it; `rule` is the rule of `RULES` that found it."""

    def __init__(self, wrong: str, steps: Sequence[Any], rule: Any = None) -> None:
        self.wrong, self.steps, self.rule = wrong, tuple(steps), rule
        super().__init__(f"{wrong}\n{show_steps(self.steps)}" if self.steps else wrong)


def panel_of(env: Env) -> Panel:
    """The panel of an environment; None where there is none, as in someone else's."""
    return cast("Panel", getattr(env.unwrapped, "panel", None))


def limit_of(env: Env) -> int:
    """The turn limit of the environment or of its spec, else `LONGEST`."""
    own = getattr(env.unwrapped, "max_turns", None)
    of_spec = env.spec.max_episode_steps if env.spec is not None else None
    return int(own or of_spec or LONGEST)


class Play:
    """A running episode; errors of the environment get a note with the actions.

    The error's attribute `steps` also has the actions.

    Attributes:
        start: The beginning. actions: The actions since.
        record: The latest turn.
    """

    def __init__(
        self, env: Env, start: Start, before_step: Callable[[Record, Any], None] | None = None
    ) -> None:
        self._env, self.start, self._before_step = env, start, before_step
        self.actions: list[Any] = []
        self.record = self._note_steps(self._reset)

    def step(self, action: Any) -> Record:
        """Take an action, return the record of its turn."""
        if self._before_step is not None:
            self._before_step(self.record, action)
        self.actions.append(action)
        self.record = self._note_steps(self._take_last)
        return self.record

    def _reset(self) -> Record:
        observation, info = self._env.reset(seed=self.start.seed, options=self.start.options)
        return Record(None, observation, 0.0, False, False, info)

    def _take_last(self) -> Record:
        return Record(self.actions[-1], *cast("Any", self._env.step(self.actions[-1])))

    def _note_steps(self, do: Callable[[], Record]) -> Record:
        try:
            return do()
        except Exception as error:
            steps = (self.start, *self.actions)
            error.add_note(show_steps(steps))
            vars(error)["steps"] = steps
            raise


def play_steps(
    env: Env, steps: Sequence[Any], before_step: Callable[[Record, Any], None] | None = None
) -> Iterator[tuple[Play, Record]]:
    """Plays steps and yields every turn: a `Start` resets, actions follow up to the end."""
    play: Play | None = None
    for step in steps:
        if isinstance(step, Start):
            play = Play(env, step, before_step)
            yield play, play.record
        elif play is not None and not play.record.ended:
            yield play, play.step(step)


def play_episode(env: Env, start: Start, make_actor: Callable[[], Actor]) -> Iterator[Record]:
    """Plays an episode with a new actor, to its end or the turn limit."""
    play = Play(env, start)
    yield play.record
    actor = make_actor()
    for _ in range(limit_of(env)):
        yield play.step(actor(play.record.observation, play.record.info))
        if play.record.ended:
            return


def quote(action: Any, most: int = SHOWN) -> str:
    """The repr of an action; a long one is truncated and followed by its length."""
    text = repr(action)
    if len(text) <= most or isinstance(action, Start):
        return text
    end = text[-1] if isinstance(action, (str, bytes)) else ""
    size = f" ({len(action):,} characters)" if isinstance(action, (str, bytes)) else ""
    return f"{text[: most - 2]}…{end}{size}"


def show_steps(steps: Sequence[Any]) -> str:
    """The line of a message that says how to reproduce something."""
    start, *rest = steps
    return f"  shown by {start}, then {list_steps(rest)}" if rest else f"  shown by {start}"


def list_steps(steps: Sequence[Any]) -> str:
    """Steps in order; long actions are truncated, repeated steps are counted."""
    shown = []
    for text, same in groupby(map(quote, steps)):
        times = len(list(same))
        shown += [text] * times if times < REPEATED else [f"{text} ({times} times)"]
    return ", ".join(shown) or "nothing"


def name_turn(record: Record, turn: int) -> str:
    """The turn's name in messages."""
    return "reset" if turn == 0 else f"step {turn} ({quote(record.action, 60)})"


def write_input(env: Env, action: str) -> str:
    """The input of `env.step` for an action: a whole reply if `env` reads replies."""
    parser = find_parser(env)
    if parser is not None:
        *before, last = parser.tags
        return "".join(f"<{tag}>.</{tag}>" for tag in before) + f"<{last}>{action}</{last}>"
    form = str(getattr(env.unwrapped, "reply_form", ""))
    return form.format(thought="", action=action) if form else action


def find_parser(env: Env) -> ParseReply | None:
    """The wrapper `ParseReply` of an environment, or None."""
    while isinstance(env, gym.Wrapper) and not isinstance(env, ParseReply):
        env = env.env
    return env if isinstance(env, ParseReply) else None


def list_inputs(env: Env, info: dict[str, Any]) -> list[Any]:
    """The admissible actions in `info` as inputs of `env.step`; [] if there is no list."""
    return [write_input(env, action) for action in info.get("admissible_actions") or ()]


def draw_odd_inputs(env: Env) -> list[Any]:
    """Mostly invalid actions: odd texts, or samples of a space that is not text."""
    if isinstance(env.action_space, Text):
        return [write_input(env, text) for text in ODD]
    return [env.action_space.sample() for _ in ODD]


def wander(env: Env, rng: np.random.Generator) -> Actor:
    """An actor for any environment: listed actions, repetitions, odd texts, and samples."""
    env.action_space.seed(int(rng.integers(2**31)))
    done, odd = list[Any](), draw_odd_inputs(env)

    def act(_: Any, info: dict[str, Any]) -> Any:
        kind, choices = rng.choice(4, p=(0.75, 0.1, 0.1, 0.05)), list_inputs(env, info)
        if kind == 0 and choices:
            action = choices[int(rng.integers(len(choices)))]
        elif kind == 1 and done:
            action = done[-1]
        else:
            action = odd[int(rng.integers(len(odd)))] if kind > 1 else env.action_space.sample()
        done.append(action)
        return action

    return act


def say_words(words: Sequence[str]) -> Actions:
    """Makes actors that use these words, for text environments without lists of actions."""

    def make_actor(env: Env, rng: np.random.Generator) -> Actor:
        wandering, inputs = wander(env, rng), [write_input(env, word) for word in words]

        def act(observation: Any, info: dict[str, Any]) -> Any:
            if rng.random() < WORDS:
                return inputs[int(rng.integers(len(inputs)))]
            return wandering(observation, info)

        return act

    return make_actor


def find_difference(one: Record, other: Record) -> str:
    """The first field in which two records differ, with both values; "" if they are equal."""
    for name, a, b in zip(Record._fields, one, other, strict=True):
        if not _is_same(a, b):
            if isinstance(a, dict) and isinstance(b, dict):
                key = next(key for key in {**a, **b} if not _is_same(a.get(key), b.get(key)))
                return f"{name} differs: {key!r}: {_quote_both(a.get(key), b.get(key))}"
            return f"{name} differs: {_quote_both(a, b)}"
    return ""


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(np.all(one == other))


def _quote_both(one: Any, other: Any) -> str:
    """Both values; long texts from their first difference on."""
    if isinstance(one, str) and isinstance(other, str):
        same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        if same > AGREED:
            one, other = "…" + one[same - 10 :], "…" + other[same - 10 :]
    return f"{quote(one, 80)} and {quote(other, 80)}"
