"""Tasks that are other tasks, too: two of a panel, or two seeds of a lifted world."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_envs.signals import TASKS
from agent_envs.testing.episodes import CutShort, Play, Start, panel_of
from agent_envs_lab.audits.walk import digest_of

if TYPE_CHECKING:
    from agent_envs.signals import Signals
    from agent_envs.testing.episodes import Env

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


def find_copies(env: Env) -> tuple[int, list[tuple[str, str]]]:
    """Tasks of the panel that begin as an earlier one: with its goal, anchor, actions, observation.

    Returns:
        The number of tasks that were begun before an enclosing `Budget` was used up, and the pairs,
        the earlier task first.
    """
    known, pairs = dict[str, str](), list[tuple[str, str]]()
    panel = panel_of(env)
    with suppress(CutShort):
        for number, task_id in enumerate(panel.task_ids if panel else ()):
            begun = Play(env, Start(0, number)).record
            told = [begun.info.get(key) for key in ("goal", "anchor", "admissible_actions")]
            first = known.setdefault(repr([*told, digest_of(begun.observation)]), task_id)
            if first != task_id:
                pairs.append((first, task_id))
    return len(known) + len(pairs), pairs
