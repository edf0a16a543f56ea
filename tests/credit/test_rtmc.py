"""RTMC: values of states and actions from the group's returns, worked by hand."""

import numpy as np
import pytest

import credit
from tests.credit.batches import batch


def three(**columns):
    """(s, A) (d, C) succeeds; (s, A) (d, D) and (s, B) fail."""
    return batch(
        [2, 2, 1], [1.0, 0.0, 0.0], [0, 0, 0], anchor=[*"sdsds"], action=[*"ACADB"], **columns
    )


def test_values_by_hand():
    # v_0 = 1/3. s: Q(A) = 1/2 twice, Q(B) = 0; V = (1 + 2/3) / 5 = 1/3. d: V = (1 + 2/3) / 4 = 5/12
    whole = np.array([1 / 6, 7 / 12, 1 / 6, -5 / 12, -1 / 3])
    assert credit.RTMC(gamma=1.0)(three()) == pytest.approx(whole)
    # without a prior d: 1 - 1/2; s: V = 1/3
    expected = [1 / 6, 1 / 2, 1 / 6, -1 / 2, -1 / 3]
    assert credit.RTMC(gamma=1.0, prior=0.0)(three()) == pytest.approx(expected)
    # in units of the deviation; with a prior the five have the mean .0333 and the squares .0278
    # .3403 .0278 .1736 .1111; the mean of the squares .1361 less .0011 is .1350, deviation .3674;
    # the mean is not subtracted
    found = credit.RTMC(gamma=1.0, mode="std")(three())
    assert found == pytest.approx(whole / 0.3674, rel=1e-3)


def test_only_the_first_visit_counts_and_all_get_it():
    # (s, A) three times in the success: one return of 1; v_0 = 1/2, V = (1 + 0 + 1) / 4 = 1/2
    turns = batch([3, 1], [1.0, 0.0], [0, 0], anchor=["s"] * 4, action=[*"AAAB"])
    assert credit.RTMC(gamma=1.0)(turns) == pytest.approx([1 / 2] * 3 + [-1 / 2])


def test_a_discount_punishes_early_turns_of_equal_successes():
    # v_0 = 1 is not discounted: returns .25, .5, 1 in states of their own; (G - 1) 2 / 3
    turns = batch([3, 1], [1.0, 1.0], [0, 0])
    expected = [-0.75 * 2 / 3, -0.5 * 2 / 3, 0, 0]
    assert credit.RTMC(gamma=0.5)(turns) == pytest.approx(expected)
    assert credit.RTMC(gamma=1.0)(turns).tolist() == [0] * 4
