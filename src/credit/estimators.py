"""Calling an estimator: with or without a generator, and what it must return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credit.plugins import refusal
from credit.turns import Turns
from credit.validation import as_array, check_generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from credit.segments import Array

_GENERATOR = np.random.Generator
_ALLOWED = "it must return one finite number for each turn"


def estimate(
    estimator: Callable[..., Any], turns: Turns, rng: np.random.Generator | None = None
) -> Array:
    """Advantages by any estimator, checked: -> [N] float64.

    Args:
        estimator: Callable from (turns, rng), or from (turns) alone, to [N] numbers.
        turns: The batch.
        rng: Generator of an estimator that draws.

    Raises:
        TypeError: An argument is of another type, or what was returned is no array of numbers.
        ValueError: The estimator draws, and there is no `rng`. What was returned has another shape,
            or a number that is not finite.
    """
    _check_callable(estimator)
    check_turns(turns)
    check_generator(rng)
    given = _called(estimator, turns, rng)
    try:
        found = as_array("the advantage", given)
    except TypeError as error:
        raise TypeError(f"the estimator returned no array of numbers: {error}") from error
    if found.dtype.kind not in "iuf":
        raise TypeError(f"the estimator returned {found.dtype}; {_ALLOWED}")
    if found.shape != (len(turns),):
        raise ValueError(
            f"the estimator returned shape {list(found.shape)} for N={len(turns)} turns; {_ALLOWED}"
        )
    if (wrong := np.flatnonzero(~np.isfinite(found))).size:
        row = wrong[0]
        raise ValueError(f"the estimator returned {found[row]} for turn {row}; {_ALLOWED}")
    return found.astype(np.float64)


def check_turns(given: object) -> None:
    """Raise TypeError unless an estimator was given `Turns`."""
    if not isinstance(given, Turns):
        raise TypeError(
            f"an estimator reads credit.Turns, got {given!r:.60} ({type(given).__name__}); make "
            "them by credit.Turns(group=..., outcome=..., trajectory=...), or from a trainer's "
            "rows by credit.rows(...).turns"
        )


def _check_callable(estimator: Any) -> None:
    """Raise TypeError unless this is an estimator, and not the name or the class of one."""
    if isinstance(estimator, type):
        raise TypeError(
            f"the estimator is the class {estimator.__name__}; make one of it, as "
            f"{estimator.__name__}()"
        )
    if not callable(estimator):
        raise TypeError(
            "the estimator must be callable as (turns) or (turns, rng), got "
            f"{estimator!r:.60} ({type(estimator).__name__}); credit.make(name) makes one by name"
        )
    if (why := refusal(estimator, 1)) and refusal(estimator, 2):
        raise TypeError(f"the estimator must be callable as (turns) or (turns, rng): {why}")


def _called(estimator: Callable[..., Any], turns: Turns, rng: np.random.Generator | None) -> Any:
    """What an estimator returns, with `rng` if it takes one."""
    if refusal(estimator, 2):
        return estimator(turns)
    try:
        return estimator(turns, rng)
    except AttributeError as error:
        if rng is not None or error.obj is not None or not hasattr(_GENERATOR, str(error.name)):
            raise
        raise ValueError(
            f"the estimator reads rng.{error.name}, and no rng was given: make "
            "rng = np.random.default_rng(seed) once and call credit.estimate(estimator, turns, rng)"
        ) from error
