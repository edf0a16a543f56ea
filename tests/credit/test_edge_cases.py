"""Methods by hand in dead groups. Two different values are ±`HALF` deviations from their mean."""

import pytest

import credit
from tests.credit.batches import batch

HALF = 0.5**0.5
CLOSE = 1e-4  # eps = 1e-6 is added to deviations


def made(name, turns, **options):
    return credit.make(name, **options)(turns)


def dead(**columns):
    """Two trajectories of two and one turns, both successful."""
    return batch([2, 1], [1.0, 1.0], [0, 0], **columns)


def unequal(**columns):
    """A success of three turns and a failure of one."""
    return batch([3, 1], [1.0, 0.0], [0, 0], **columns)


def test_other_groups_give_a_dead_group_signal_in_reinforce_pp():
    # outcomes 1, 1 | 0, 0: mean 1/2, variance 4 (1/4) / 3 = 1/3, 0.5 / sqrt(1/3) = sqrt(3) / 2
    turns = batch([1, 1, 1, 1], [1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1])
    root = 3**0.5 / 2
    assert made("reinforce_pp", turns) == pytest.approx([root, root, -root, -root], abs=CLOSE)


def test_loop_has_the_advantage_of_rloo():  # 1 - 0 and 0 - 1
    assert made("loop", unequal()) == pytest.approx([1.0, 1.0, 1.0, -1.0])


def test_a_dead_group_has_the_bonus_of_empg():
    # the entropy after the first turn is the largest, 1: 0.05 / e = 0.018394; mean 0.006131
    found = made("empg", dead(entropy=[0.0, 2.0, 2.0]))
    assert found == pytest.approx([0.012263, -0.006131, -0.006131], abs=CLOSE)
