"""Episodes as the audits play them: from shared seeds, recorded turn by turn, by any actor.

An actor sees what an agent sees; it is made anew for every episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

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


def begun(env: Env, start: Start) -> Record:
    """The record of a reset."""
    observation, info = env.reset(seed=start.seed, options=start.options)
    return Record(None, observation, 0.0, False, False, info)


def stepped(env: Env, action: Any) -> Record:
    """The record of a step."""
    return Record(action, *cast("Any", env.step(action)))


def episode(env: Env, start: Start, make_actor: Callable[[], Actor]) -> Iterator[Record]:
    """An episode by the actor that is made after its reset, to its end or the turn limit."""
    record = begun(env, start)
    yield record
    actor = make_actor()
    for _ in range(limit_of(env)):
        record = stepped(env, actor(record.observation, record.info))
        yield record
        if record.ended:
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


def audits_of(env: Env) -> ModuleType | None:
    """The module that the environment's class names in `audits`, with `actions` and `NON_SOLVERS`.

    Raises:
        ImportError: there is no such module.
    """
    name = getattr(env.unwrapped, "audits", "")
    return import_module(name) if name else None
