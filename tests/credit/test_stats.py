"""Segment statistics: numbers worked by hand, and relations on any input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from credit import stats

LENGTH = st.shared(st.integers(0, 60), key="length")
VALUES = arrays(np.float64, LENGTH, elements=st.floats(-1e3, 1e3))
IDS = arrays(np.int64, LENGTH, elements=st.integers(-3, 3))
CENTRED = [stats.center, stats.standardize, stats.leave_one_out]


def test_worked_numbers():  # segment 5: 1, 2, 6, mean 3; segment 9: 4 alone
    x, ids = [1.0, 4.0, 2.0, 6.0], [5, 9, 5, 5]
    assert stats.center(x, ids) == pytest.approx([-2, 0, -1, 3])
    # squared deviations 4 + 1 + 9 = 14 over 3 - 1: std sqrt(7)
    assert stats.standardize(x, ids, eps=0.0) == pytest.approx(
        np.array([-2, 0, -1, 3]) / np.r_[7**0.5, 1, 7**0.5, 7**0.5]
    )
    # 1 - (2 + 6) / 2, then 2 - (1 + 6) / 2 and 6 - (1 + 2) / 2
    assert stats.leave_one_out(x, ids) == pytest.approx([-3, 0, -1.5, 4.5])
    assert stats.count(ids).tolist() == [3, 1, 3, 3]
    assert stats.rank_position(ids).tolist() == [0, 0, 1, 2]


def test_eps_is_added_to_the_deviation():  # 0 and 2: deviation sqrt(2), 1 / (sqrt(2) + eps)
    assert stats.standardize([0.0, 2.0], [0, 0], eps=1.0)[1] == pytest.approx(1 / (2**0.5 + 1))
    plain = stats.standardize([0.0, 2.0], [0, 0])[1]
    assert plain == pytest.approx(1 / (2**0.5 + 1e-6), rel=1e-9)
    # around the population's deviation, of variance 2 / 2 = 1
    assert stats.standardize([0.0, 2.0], [0, 0], ddof=0, eps=0.0) == pytest.approx([-1, 1])


def test_discounted_returns():  # gamma 0.5; segment 7: 2 + 3 / 2, 1 + 4 / 2, 4; segment 3: 8
    x, ids = [2.0, 8.0, 1.0, 4.0], [7, 3, 7, 7]
    assert stats.discounted_returns(x, ids, 0.5) == pytest.approx([3.5, 8, 3, 4])


def test_values_that_differ_by_rounding_are_equal():
    x, ids = [0.3, 0.1 + 0.2, 1.0, 1.0 + 1e-9, 0.0, 0.0, 5.0], [0, 0, 1, 1, 2, 2, 3]
    assert stats.is_varied(x, ids).tolist() == [False, False, True, True, False, False, False]
    standard = stats.standardize(x, ids, eps=0)
    assert standard == pytest.approx([0, 0, -(0.5**0.5), 0.5**0.5, 0, 0, 0])


@pytest.mark.parametrize("function", CENTRED)
def test_equal_values_give_exactly_zero(function):
    x = np.full(7, 0.1)  # a mean of several 0.1 may round to another number
    assert (function(x, [0, 0, 0, 1, 1, 1, 1]) == 0).all()


@given(VALUES, IDS)
def test_sums_to_zero_within_segments(x, ids):
    for function in CENTRED:
        result = function(x, ids)
        for one in np.unique(ids):
            assert result[ids == one].sum() == pytest.approx(0, abs=1e-6)


def test_ids_of_pairs():
    assert stats.make_ids([0, 0, 1, 1], ["a", "b", "a", "b"]).tolist() == [0, 1, 2, 3]
    assert stats.make_ids([2, 2, 2], ["b", "a", "b"]).tolist() == [0, 1, 0]
