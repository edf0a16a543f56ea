"""Kevin: the discounted return over the group, worked by hand, and what it equals."""

import numpy as np
import pytest
from hypothesis import given

import credit
from credit import stats
from tests.credit.batches import batch, batches

# scores 0, .8, 1.3 and .8, 0, 0; .4 * .8 + .16 * 1.3 = .528, .8 + .4 * 1.3 = 1.32
TWO = batch([3, 3], [0.0, 0.0], [0, 0], reward=[0, 0.8, 1.3, 0.8, 0, 0])


def test_sums_and_maxima():  # mean .658, deviation .592: (.528 - .658) / .592 = -.220
    expected = [-0.220, 1.118, 1.084, 0.240, -1.111, -1.111]
    assert credit.Kevin()(TWO) == pytest.approx(expected, abs=1e-3)
    # the maximum: .4 * .8 = .32 is above .16 * 1.3 = .208
    found = stats.standardize([0.32, 0.8, 1.3, 0.8, 0, 0], [0] * 6)
    assert credit.Kevin(returns="max")(TWO).tolist() == pytest.approx(found)
    # the outcome is the score of the last turn: .4, 1; 0: mean .4667, deviation .503
    turns = batch([2, 1], [1.0, 0.0], [0, 0])
    assert credit.Kevin()(turns) == pytest.approx([-0.132, 1.060, -0.927], abs=1e-3)


@pytest.mark.slow
@given(batches())
def test_of_one_score_sum_and_maximum_are_the_same(turns):
    outcome = batch(
        np.bincount(turns.trajectory).tolist(), turns.outcome.tolist(), turns.group.tolist()
    )
    assert credit.Kevin(returns="max")(outcome) == pytest.approx(credit.Kevin()(outcome))
