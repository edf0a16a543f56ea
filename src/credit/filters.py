"""Dead groups, which carry no learning signal, and DAPO's penalty of overlong replies."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit.stats import Array
from credit.turns import Turns


def is_dead(outcome: ArrayLike, group: ArrayLike) -> NDArray[np.bool_]:
    """Whether all trajectories of a trajectory's group have one outcome: [M], [M] -> [M] bool.

    Then they have advantage 0 under every method that compares outcomes in a group.

    Source: DAPO Eq. 11 (dynamic sampling).
    """
    values = np.asarray(outcome, dtype=np.float64)
    _, first, dense = np.unique(group, return_index=True, return_inverse=True)
    other = values != values[first][dense]
    dead: NDArray[np.bool_] = (np.bincount(dense, other) == 0)[dense]
    return dead


def has_signal(
    turns: Turns, advantage: ArrayLike, *, row_penalty: float = 0.0
) -> NDArray[np.bool_]:
    """Whether the group of a turn has anything to learn from: [N] -> [N] bool.

    A dead group has nothing, unless its advantages differ between the turns of a trajectory, i.e.
    unless there is turn-level credit. With `row_penalty`, as of `GRPO`, outcomes are those of rows.
    """
    values = np.asarray(advantage, dtype=np.float64)
    other = values != values[turns.position == 0][turns.trajectory]
    _, dense = np.unique(turns.group_of_turn, return_inverse=True)
    score = turns.outcome[turns.trajectory] - (row_penalty and row_penalty * ~turns.valid)
    return ~is_dead(score, turns.group_of_turn) | (np.bincount(dense, other) > 0)[dense]


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
