"""Dead groups, and DAPO's penalty."""

import numpy as np
import pytest

from credit.filters import has_signal, is_dead, overlong_penalty
from tests.credit.batches import batch


def test_groups_of_equal_outcomes_are_dead():
    # group 4 has two outcomes; 0.1 three times and 1.0 alone are dead; 0, 0.5, 1 is not
    outcome = [1.0, 0.0, 0.1, 0.1, 0.1, 1.0, 0.0, 0.5, 1.0]
    group = [4, 4, 2, 2, 2, 9, 3, 3, 3]
    assert is_dead(outcome, group).tolist() == [False] * 2 + [True] * 4 + [False] * 3
    assert is_dead([], []).shape == (0,)


def test_turn_level_credit_gives_a_dead_group_a_signal():
    turns = batch([2, 1, 2], [1.0, 1.0, 0.0], [0, 0, 1])
    assert has_signal(turns, [0.5, 0.5, -1.0, 0.0, 0.0]).tolist() == [False] * 5
    assert has_signal(turns, [0.5, 0.1, 0.5, 0.0, 0.0]).tolist() == [True] * 3 + [False] * 2
    alive = batch([2, 1], [1.0, 0.0], [0, 0])
    assert has_signal(alive, [0.0, 0.0, 0.0]).tolist() == [True] * 3


def test_overlong_penalty():  # maximum 10, buffer 4: 0 up to 6, then -1/4 for each token
    lengths = [0, 6, 7, 8, 10, 12]
    expected = [0, 0, -0.25, -0.5, -1, -1]
    assert overlong_penalty(lengths, maximum=10, buffer=4) == pytest.approx(expected)
    assert not np.signbit(overlong_penalty([3], maximum=10, buffer=4)[0])
