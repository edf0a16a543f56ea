"""Turn-level RLOO: worked numbers, and what it equals."""

import pytest

import credit
from tests.credit.batches import batch


def test_by_hand_where_a_trajectory_that_has_ended_counts_as_zero():
    # one unit of pay a turn; returns-to-go 1 and 3, 2, 1: 1 - 3, 3 - 1, 2 - 0, 1 - 0
    turns = batch([1, 3], [0.0, 0.0], [0, 0], reward=[1.0] * 4)
    assert credit.TurnRLOO()(turns) == pytest.approx([-2, 2, 2, 1])
    # returns-to-go, with the outcomes 4, 1, 0 at the end: 6, 5; 1; 2, 1, 0
    turns = batch([2, 1, 3], [4.0, 1.0, 0.0], [0, 0, 0], reward=[1.0, 1, 0, 1, 1, 0])
    # position 0: 6 - 1.5, 1 - 4, 2 - 3.5; position 1: 5 - (0 + 1) / 2, 1 - (5 + 0) / 2
    assert credit.TurnRLOO()(turns) == pytest.approx([4.5, 4.5, -3, -1.5, -1.5, 0])
    # equal trajectories get exactly zero
    turns = batch([2, 2, 2], [0.1] * 3, [0] * 3, reward=[0.1, 0.7] * 3)
    assert credit.TurnRLOO()(turns).tolist() == [0.0] * 6
