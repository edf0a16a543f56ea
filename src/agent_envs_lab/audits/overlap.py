"""Test tasks of a lifted world that are training tasks, too: two seeds may give one task."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent_envs.signals import TASKS

if TYPE_CHECKING:
    from agent_envs.signals import Signals

SAMPLE = 32
"""Test tasks that are looked for among the training tasks."""


def count_shared_starts(env: Signals, *, seconds: float) -> tuple[int, int]:
    """Of the first `SAMPLE` test tasks those that start as a training task does.

    Starts are compared by the digest of the state, or by goal and observation if the world cannot
    be copied.

    Args:
        env: the lifted world; it must be reset afterwards.
        seconds: time limit.

    Returns:
        The number, and the number of training tasks that were seen in time.
    """
    until, first = time.monotonic() + seconds, TASKS["train"] + TASKS["val"]
    tested = [_find_start(env, seed) for seed in range(first, first + SAMPLE)]
    starts, seen = set[str](), 0
    while seen < TASKS["train"] and time.monotonic() < until:
        starts.add(_find_start(env, seed=seen))
        seen += 1
    return sum(start in starts for start in tested), seen


def _find_start(env: Signals, seed: int) -> str:
    goal, turn = env.begin(f"seed-{seed}")
    return turn.anchor if env.anchor == "state" else f"{goal}\n{turn.observation}"
