"""Batches for the tests of credit."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import strategies as st

from credit import Turns

GOOD: dict[str, Any] = {
    "group": [0, 0], "outcome": [1.0, 0.0], "goal": ["g", "g"], "trajectory": [0, 0, 1],
    "reward": [0.0, 0.0, 0.0], "valid": [True, False, True], "progress": [0.0, 0.5, 1.0],
    "anchor": ["a", "b", "a"], "action": ["x", "y", "z"],
}  # fmt: skip


def batch(lengths: list[int], outcomes: list[float], groups: list[int], **columns: Any) -> Turns:
    """Trajectories of these lengths, with neutral values in the columns that are not given."""
    total = sum(lengths)
    plain: dict[str, Any] = {
        "reward": np.zeros(total),
        "valid": np.ones(total, dtype=bool),
        "progress": np.zeros(total),
        "anchor": [f"state {row}" for row in range(total)],
        "action": [f"action {row}" for row in range(total)],
    }
    return Turns(
        group=groups,
        outcome=outcomes,
        goal=["goal"] * len(lengths),
        trajectory=np.repeat(np.arange(len(lengths)), lengths),
        **{**plain, **columns},
    )


@st.composite
def batches(draw: st.DrawFn) -> Turns:
    """Ragged batches of 1-80 trajectories with 1-30 turns, in groups of 1 or more.

    Every column is given. Outcomes are 0 and 1, in some batches all 1. Keys repeat or are all
    distinct.
    """
    count = draw(st.integers(1, 80))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = rng.integers(1, draw(st.integers(1, 30)) + 1, count)
    total = int(lengths.sum())
    states = draw(st.sampled_from([1, 5, 30, None]))
    keys = np.arange(total) if states is None else rng.integers(0, states, total)
    equal, paid = draw(st.booleans()), draw(st.booleans())
    return batch(
        lengths.tolist(),
        [1.0] * count if equal else rng.integers(0, 2, count).astype(float).tolist(),
        rng.integers(0, draw(st.integers(1, count)), count).tolist(),
        reward=rng.normal(size=total) * paid,
        valid=rng.random(total) < draw(st.floats(0, 1)),
        progress=rng.random(total),
        anchor=[f"s{key}" for key in keys],
        action=[f"a{key}" for key in rng.integers(0, draw(st.integers(1, 30)), total)],
        turn_reward=rng.normal(size=(total, 1)),
        turn_reward_names=("implicit",),
        entropy=rng.exponential(size=total),
        gold_logprob=-rng.exponential(size=total),
        progress_before=rng.random(total),
    )


def rows(turns: Turns, trajectories: Any, **columns: Any) -> Turns:
    """Batch of the given trajectories in the given order, with some columns of `turns` replaced."""
    given = {field.name: getattr(turns, field.name) for field in fields(turns)} | columns
    chosen = np.asarray(trajectories, dtype=np.intp)
    taken = turn_rows(turns, chosen)
    whole = ("group", "outcome", "goal")
    made = {
        name: column[chosen if name in whole else taken]
        for name, column in given.items()
        if name != "turn_reward_names" and column is not None
    }
    lengths = np.bincount(turns.trajectory)[chosen]
    made["trajectory"] = np.repeat(np.arange(len(chosen)), lengths)
    return Turns(**made, turn_reward_names=turns.turn_reward_names)


def turn_rows(turns: Turns, trajectories: Any) -> Any:
    """Rows of the turns of the given trajectories, in the given order."""
    return np.concatenate([np.flatnonzero(turns.trajectory == one) for one in trajectories])
