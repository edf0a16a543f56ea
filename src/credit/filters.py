"""DAPO's filters: which trajectories carry a signal, and what too long a reply costs."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import segments
from credit.choices import finite, within
from credit.segments import Array
from credit.turns import Turns


def informative(turns: Turns) -> NDArray[np.bool_]:
    """Trajectories whose group has different outcomes: [M] bool. DAPO Eq. 11, dynamic sampling.

    The others' advantages are 0 under every method that compares outcomes within a group.
    """
    spread: NDArray[np.bool_] = segments.center(turns.outcome, turns.group) != 0
    if not len(spread):
        return spread
    _, dense = np.unique(turns.group, return_inverse=True)
    living: NDArray[np.bool_] = np.bincount(dense, spread)[dense] > 0
    return living


def overlong_penalty(length: ArrayLike, *, maximum: int, buffer: int) -> Array:
    """Soft penalty of long replies, from 0 to -1: [K] -> [K]. DAPO Eq. 13.

    0 up to maximum - buffer tokens, then linear to -1 at the maximum, and -1 beyond.

    Raises:
        ValueError: a buffer outside [1, maximum].
    """
    within("buffer", buffer, 1, maximum, "it is a part of the maximum")
    over = finite("length", length) - (maximum - buffer)
    penalty: Array = -np.clip(over / buffer, 0.0, 1.0)
    return penalty + 0.0
