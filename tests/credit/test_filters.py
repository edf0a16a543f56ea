"""DAPO's filters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import credit
from credit.filters import informative, overlong_penalty
from tests.credit.batches import batch, batches


def test_groups_of_equal_outcomes_are_dropped():
    turns = batch([1] * 6, [1.0, 0.0, 0.1, 0.1, 0.1, 1.0], [4, 4, 2, 2, 2, 9])
    assert informative(turns).tolist() == [True, True, False, False, False, False]
    assert informative(batch([], [], [])).shape == (0,)


def test_informative_groups_are_kept_whole():  # also the trajectory at the mean, 0.5
    turns = batch([1] * 3, [0.0, 0.5, 1.0], [0, 0, 0])
    assert informative(turns).tolist() == [True] * 3


@given(batches())
def test_dropped_trajectories_have_no_advantage(turns):
    dropped = ~informative(turns)[turns.trajectory]
    assert np.array_equal(credit.make("grpo")(turns)[dropped], np.zeros(dropped.sum()))


def test_overlong_penalty():  # maximum 10, buffer 4: 0 up to 6, then -1/4 for each token
    lengths = [0, 6, 7, 8, 10, 12]
    expected = [0, 0, -0.25, -0.5, -1, -1]
    assert overlong_penalty(lengths, maximum=10, buffer=4) == pytest.approx(expected)
    assert not np.signbit(overlong_penalty([3], maximum=10, buffer=4)[0])


@pytest.mark.parametrize("buffer", [0, 11])
def test_buffer_is_a_part_of_the_maximum(buffer):
    with pytest.raises(ValueError, match=r"buffer must lie in \[1, 10\]"):
        overlong_penalty([1], maximum=10, buffer=buffer)
