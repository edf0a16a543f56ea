"""What audits play with: starts, players of an environment, chance, and special steps."""

from __future__ import annotations

import random
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import crc32

import numpy as np

from agent_envs.testing.episodes import Start, panel_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_envs.testing.episodes import Env, Record

DRAWS = 64
"""Number of generator states that a turn can begin with."""
PLAYERS = {
    "agent_envs.alfworld": "agent_envs_lab.audits.alfworld",
    "agent_envs.appworld": "agent_envs_lab.audits.appworld",
    "agent_envs.bifurcation": "agent_envs_lab.audits.bifurcation",
    "agent_envs.ezpoints": "agent_envs_lab.audits.ezpoints",
    "agent_envs.search_qa": "agent_envs_lab.audits.search_qa",
    "agent_envs.sokoban": "agent_envs_lab.audits.sokoban",
    "agent_envs.sotopia": "agent_envs_lab.audits.sotopia",
    "agent_envs.textworld": "agent_envs_lab.audits.textworld",
    "agent_envs.webshop": "agent_envs_lab.audits.webshop",
}
"""The package of an environment -> the module with its players."""


def find_players(env: Env) -> ModuleType | None:
    """The module of an environment with any of `actions`, `NON_SOLVERS`, `LIMIT`; None without.

    It is the one that the class attribute `audits` names, else that of `PLAYERS`.

    Raises:
        ImportError: the module does not exist.
    """
    name = getattr(env.unwrapped, "audits", "")
    for kind in type(env.unwrapped).__mro__:
        name = name or PLAYERS.get(kind.__module__.rpartition(".")[0], "")
    return import_module(name) if name else None


def name_of(env: Env) -> str:
    """The id of an environment, or the name of its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def draw_starts(env: Env, tasks: int, seed: int) -> list[Start]:
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


def group_tasks(env: Env, starts: Sequence[Start]) -> list[str]:
    """What each task is made from: its origin in the panel, else the task itself."""
    panel = panel_of(env)
    if panel is None:
        return [str(start.seed) for start in starts]
    ids = [panel.at(start.task) for start in starts]
    return [panel.origins.get(one, one) for one in ids]


class Other(NamedTuple):
    """A step of another instance, between steps of the first."""

    step: Any

    def __repr__(self) -> str:
        return f"in the other instance {self.step!r}"


class Extra(NamedTuple):
    """An inserted action; the episode is compared with the one without it."""

    action: Any

    def __repr__(self) -> str:
        return repr(self.action)


class Copied:
    """A step at which a copy is made."""

    def __repr__(self) -> str:
        return "a copy is made"


COPIED = Copied()


class Chance:
    """Sets the generators of environment, Python and NumPy to one of `DRAWS` states.

    Equal turns then draw equal numbers, regardless of earlier draws.
    """

    def __init__(self, env: Env) -> None:
        self._env = env.unwrapped

    def __call__(self, record: Record, action: Any) -> None:
        """Choose the state by the anchor before a turn and its action."""
        self.fix(str(record.info.get("anchor")), action)

    def fix(self, key: str, action: Any) -> None:
        """Choose the state by the key of a turn's beginning and its action."""
        place = crc32(f"{key}\n{action!r}".encode("utf-8", "surrogatepass")) % DRAWS
        python, numpy = _make_global_states()
        random.setstate(python[place])
        np.random.set_state(numpy[place])
        generator = getattr(self._env.np_random, "bit_generator", None)
        if generator is not None:
            generator.state = _make_own_state(cast("Any", type(generator)), place)


@cache
def _make_global_states() -> tuple[list[Any], list[Any]]:
    return (
        [random.Random(place).getstate() for place in range(DRAWS)],
        [np.random.RandomState(place).get_state() for place in range(DRAWS)],
    )


@cache
def _make_own_state(kind: type, place: int) -> Any:
    return kind(place).state
