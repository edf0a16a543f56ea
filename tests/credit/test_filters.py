"""Dead groups, and DAPO's penalty."""

import numpy as np
import pytest

import credit
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
    assert has_signal(turns, [0.0, 0.0, 0.5, 1e-17, 0.0]).tolist() == [True] * 3 + [False] * 2


@pytest.mark.parametrize("name", ["reinforce", "reinforce_pp"])
def test_a_method_that_compares_beyond_the_group_learns_from_equal_outcomes(name):
    turns = batch([1, 1, 1, 1], [1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1])
    found = has_signal(turns, credit.make(name)(turns))
    assert found.tolist() == [True, True] + [name == "reinforce_pp"] * 2
    assert not has_signal(turns, credit.make("grpo")(turns)).any()


def test_sums_of_the_same_rewards_are_one_outcome():
    found = is_dead([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1, 0.5, 0.6], [0, 0, 1, 1])
    assert found.tolist() == [True, True, False, False]


def test_overlong_penalty():  # maximum 10, buffer 4: 0 up to 6, then -1/4 for each token
    lengths = [0, 6, 7, 8, 10, 12]
    expected = [0, 0, -0.25, -0.5, -1, -1]
    assert overlong_penalty(lengths, maximum=10, buffer=4) == pytest.approx(expected)
    assert not np.signbit(overlong_penalty([3], maximum=10, buffer=4)[0])
