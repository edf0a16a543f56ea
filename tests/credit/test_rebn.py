"""Return batch normalization: worked numbers, and what it equals."""

import pytest

import credit
from tests.credit.batches import batch


def test_returns_are_compared_over_the_whole_batch():
    # scores 1, 3 | 2 of one task, 0, 4 of another; returns at 0.5: 2.5, 3 | 2 | 2, 4. The mean is
    # 2.7; deviations -.2, .3, -.7, -.7, 1.3, whose squares sum to 2.8: std² = 2.8 / 5 = .56
    turns = batch([2, 1, 2], [2.0, 2.0, 4.0], [0, 0, 1], reward=[1, 1, 0, 0, 0])
    expected = [-0.26726, 0.40089, -0.93541, -0.93541, 1.73720]
    assert credit.ReBN(gamma=0.5)(turns) == pytest.approx(expected, abs=1e-5)
    # without a discount: 4, 3 | 2 | 4, 4: mean 3.4, std² (3 * .36 + .16 + 1.96) / 5 = .64
    assert credit.make("rebn")(turns) == pytest.approx([0.75, -0.5, -1.75, 0.75, 0.75])


def test_a_group_of_equal_outcomes_is_compared_with_the_others():
    solved = [1.0, 1.0, 0.0, 0.0]  # mean 1/2, deviation 1/2
    turns = batch([1] * 4, solved, [0, 0, 1, 1])
    assert credit.ReBN()(turns) == pytest.approx([1, 1, -1, -1])
    assert credit.ReBN()(batch([1, 2], [1.0, 1.0], [0, 1])).tolist() == [0, 0, 0]
