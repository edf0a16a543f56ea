"""Calling an estimator: with or without a generator, and what it must return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credit.plugins import refusal
from credit.validation import as_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from credit.segments import Array
    from credit.turns import Turns


def estimate(
    estimator: Callable[..., Any], turns: Turns, rng: np.random.Generator | None = None
) -> Array:
    """Advantages by any estimator, checked: -> [N] float64.

    Args:
        estimator: Callable from (turns, rng), or from (turns) alone, to [N] numbers.
        turns: The batch.
        rng: Generator of an estimator that draws.

    Raises:
        TypeError: What was returned is no array of numbers.
        ValueError: It has another shape, or a number is not finite.
    """
    given = estimator(turns) if refusal(estimator, 2) else estimator(turns, rng)
    try:
        found = as_array("the advantage", given)
    except TypeError as error:
        raise TypeError(f"the estimator returned no array of numbers: {error}") from error
    if found.dtype.kind not in "iuf":
        raise TypeError(f"the estimator returned {found.dtype}, not one number for each turn")
    if found.shape != (len(turns),):
        raise ValueError(
            f"the estimator returned shape {list(found.shape)}; it must return one number for each "
            f"of N={len(turns)} turns"
        )
    if (wrong := np.flatnonzero(~np.isfinite(found))).size:
        raise ValueError(f"the estimator returned {found[wrong[0]]} for turn {wrong[0]}")
    return found.astype(np.float64)
