"""DAPO's filters: trajectories that carry a learning signal, and a penalty of overlong replies."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import as_finite, check_range


def informative(turns: Turns) -> NDArray[np.bool_]:
    """Mask of the trajectories whose group has different outcomes: [M] bool.

    All other trajectories have advantage 0 under every method that compares outcomes in a group.

    Source: DAPO Eq. 11 (dynamic sampling).
    """
    different: NDArray[np.bool_] = stats.center(turns.outcome, turns.group) != 0
    if not len(different):
        return different
    _, dense = np.unique(turns.group, return_inverse=True)
    mask: NDArray[np.bool_] = np.bincount(dense, different)[dense] > 0
    return mask


def overlong_penalty(length: ArrayLike, *, maximum: int, buffer: int) -> Array:
    """Penalty of long replies, from 0 to -1: [K] -> [K].

    0 up to maximum - buffer tokens, then linear to -1 at the maximum, and -1 beyond

    Source: DAPO Eq. 13.

    Args:
        length: [K] lengths of replies in tokens.
        maximum: Length with the full penalty, in tokens.
        buffer: Length of the linear part, in tokens.

    Returns:
        [K] penalties, to be added to rewards.

    Raises:
        ValueError: `buffer` lies outside [1, maximum], or a length is not finite.
    """
    check_range("buffer", buffer, 1, maximum, "it is a part of the maximum")
    over = as_finite("length", length) - (maximum - buffer)
    penalty: Array = -np.clip(over / buffer, 0.0, 1.0)
    return penalty + 0.0
