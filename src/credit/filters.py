"""Dead groups, which carry no learning signal, and DAPO's penalty of overlong replies."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import stats
from credit.stats import Array
from credit.turns import Turns

_ROUNDING = 1e-12  # of advantages that are 0 but for the order of their sums


def is_dead(outcome: ArrayLike, group: ArrayLike) -> NDArray[np.bool_]:
    """Whether all trajectories of a trajectory's group have one outcome: [M], [M] -> [M] bool.

    Then they have advantage 0 under every method that compares outcomes in a group.

    Source: DAPO Eq. 11 (dynamic sampling).
    """
    _, dense = np.unique(group, return_inverse=True)
    return ~stats.is_varied(outcome, dense)


def has_signal(turns: Turns, advantage: ArrayLike) -> NDArray[np.bool_]:
    """Whether a turn of the turn's group has an advantage other than 0: [N] -> [N] bool."""
    _, dense = np.unique(turns.group_of_turn, return_inverse=True)
    learns = np.abs(np.asarray(advantage, dtype=np.float64)) > _ROUNDING
    return np.asarray((np.bincount(dense, learns) > 0)[dense])


def overlong_penalty(length: ArrayLike, *, maximum: int, buffer: int) -> Array:
    """Penalty of long replies, from 0 to -1, to be added to rewards: [K] -> [K].

    0 up to maximum - buffer tokens, then linear to -1 at the maximum, and -1 beyond

    Source: DAPO Eq. 13.

    Args:
        length: [K] lengths of replies in tokens.
        maximum: Length with the full penalty, in tokens.
        buffer: Length of the linear part, in tokens.

    Returns:
        [K] penalties.
    """
    over = np.asarray(length, dtype=np.float64) - (maximum - buffer)
    penalty: Array = -np.clip(over / buffer, 0.0, 1.0)
    return penalty + 0.0
