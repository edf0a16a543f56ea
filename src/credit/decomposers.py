"""Decomposers: the contribution of each turn to the outcome of a finished trajectory.

A decomposer is any callable from `Turns` to one credit per turn, [N]. `judge.Judge` is one that
asks a language model, `turnrd.TurnRDDecomposer` one that uses a trained model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credit.segments import Array
from credit.turns import Turns
from credit.validation import as_finite, check_positive, nearest

Decomposer: TypeAlias = Callable[[Turns], ArrayLike]

_NEED_ARGUMENTS = {
    "judge": "credit.judge.Judge(ask), where ask sends a prompt to a language model",
    "turnrd": "credit.turnrd.TurnRDDecomposer(model, states), from the policy's hidden states",
}


@dataclass(frozen=True)
class Progressive:
    """Progress made by the turn.

    credit_t = progress_t - progress_{t-1}, with progress 0 before the first turn

    Source: HAS §3.2 (Progressive).
    """

    def __call__(self, turns: Turns) -> Array:
        """Credit of each turn: [N]."""
        before = np.where(turns.position == 0, 0.0, np.roll(turns.progress, 1))
        return turns.progress - before


def from_name(name: str) -> Decomposer:
    """Make a decomposer from its name.

    Raises:
        ValueError: The name is unknown, or the decomposer needs arguments.
    """
    if name in _NEED_ARGUMENTS:
        raise ValueError(
            f"decomposer {name!r} needs more than a name: pass {_NEED_ARGUMENTS[name]}"
        )
    if name != "progressive":
        known = nearest(name, ["progressive", *_NEED_ARGUMENTS])
        own = "one of your own is given as the function itself"
        raise ValueError(f"unknown decomposer {name!r}{known}; {own}")
    return Progressive()


def checked_credit(decomposer: Decomposer, turns: Turns) -> Array:
    """Call a decomposer and check what it returns: [N].

    Raises:
        ValueError: The credit has another length, or is not finite.
    """
    who = getattr(decomposer, "__name__", type(decomposer).__name__)
    credit = as_finite(f"credit of {who}", decomposer(turns))
    if credit.shape != (len(turns),):
        raise ValueError(f"{who} gave credit of shape {credit.shape} for {len(turns)} turns")
    return credit


def project(values: ArrayLike, turns: Turns, *, clip: float = 2.0) -> Array:
    """Clip values and shift them by one amount per trajectory to sum to its outcome: [N] -> [N].

    credit_t = clip(V_t, -c, c) - (Σ_s clip(V_s, -c, c) - R) / T, for a trajectory of T turns

    Source: HAS Eq. 5.

    Args:
        values: [N] value V of each turn.
        turns: The batch, with outcomes R.
        clip: Bound c > 0.

    Returns:
        [N] credit.

    Raises:
        ValueError: A value is not finite, or `clip` is not positive.
    """
    check_positive("clip", clip, "it bounds values on both sides")
    bounded = np.clip(as_finite("values", values), -clip, clip)
    count = len(turns.group)
    excess = np.bincount(turns.trajectory, bounded, count) - turns.outcome
    length = np.bincount(turns.trajectory, minlength=count)
    return bounded - (excess / np.maximum(length, 1))[turns.trajectory]
