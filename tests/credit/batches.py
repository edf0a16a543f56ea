"""Batches for the tests of credit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from credit import Turns


def batch(lengths: list[int], outcomes: list[float], groups: list[int], **columns: Any) -> Turns:
    """Trajectories of these lengths; columns that are not given are unremarkable."""
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
    """Ragged batches: 1-40 trajectories of 1-20 turns, groups of 1 and more, few anchors."""
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=40))
    total, count = sum(lengths), len(lengths)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    equal = draw(st.booleans())
    return batch(
        lengths,
        ([1.0] * count if equal else rng.integers(0, 2, count).astype(float)),
        rng.integers(0, draw(st.integers(1, 6)), count),
        reward=rng.normal(size=total) if draw(st.booleans()) else np.zeros(total),
        valid=rng.random(total) < draw(st.floats(0, 1)),
        progress=rng.random(total),
        anchor=[f"s{k}" for k in rng.integers(0, draw(st.integers(1, 30)), total)],
        action=[f"a{k}" for k in rng.integers(0, draw(st.integers(1, 30)), total)],
    )
