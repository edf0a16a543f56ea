"""Decomposers: how much each turn of a finished trajectory contributed, Turns -> [N].

Any callable of that kind will do. `judge.Judge` asks a language model, `turnrd.Decomposer` a
trained model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credit.choices import finite, nearest, positive
from credit.segments import Array
from credit.turns import Turns

Decompose: TypeAlias = Callable[[Turns], ArrayLike]

_MADE_WITH = {
    "judge": "credit.judge.Judge(ask), where ask sends a prompt to a language model",
    "turnrd": "credit.turnrd.Decomposer(model, states), from the policy's hidden states",
}


@dataclass(frozen=True)
class Progressive:
    """Progress made by the turn: [N]. The first turn's is counted from 0, that of the reset."""

    def __call__(self, turns: Turns) -> Array:
        """progress_t - progress_{t-1}."""
        before = np.where(turns.position == 0, 0.0, np.roll(turns.progress, 1))
        return turns.progress - before


def named(name: str) -> Decompose:
    """The decomposer of a name.

    Raises:
        ValueError: an unknown name, or one that needs more than a name.
    """
    if name in _MADE_WITH:
        raise ValueError(f"decomposer {name!r} needs more than a name: pass {_MADE_WITH[name]}")
    if name != "progressive":
        raise ValueError(
            f"unknown decomposer {name!r}{nearest(name, ['progressive', *_MADE_WITH])}"
        )
    return Progressive()


def checked(decomposer: Decompose, turns: Turns) -> Array:
    """What a decomposer says of the turns: [N].

    Raises:
        ValueError: it has another length, or is not finite.
    """
    who = getattr(decomposer, "__name__", type(decomposer).__name__)
    credit = finite(f"credit of {who}", decomposer(turns))
    if credit.shape != (len(turns),):
        raise ValueError(f"{who} gave credit of shape {credit.shape} for {len(turns)} turns")
    return credit


def project(values: ArrayLike, turns: Turns, *, clip: float = 2.0) -> Array:
    """Values shifted so that each trajectory's sum is its outcome: [N] -> [N]. HAS Eq. 5.

    Each is first clipped to [-c, c]; all turns of a trajectory are shifted alike.
    """
    positive("clip", clip, "it bounds values on both sides")
    bounded = np.clip(finite("values", values), -clip, clip)
    count = len(turns.group)
    owed = np.bincount(turns.trajectory, bounded, count) - turns.outcome
    length = np.bincount(turns.trajectory, minlength=count)
    return bounded - (owed / np.maximum(length, 1))[turns.trajectory]
