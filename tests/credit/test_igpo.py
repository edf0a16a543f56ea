"""IGPO: gains in the answer's probability, worked by hand."""

import numpy as np
import pytest
from hypothesis import given

import credit
from tests.credit.batches import batch, batches


def two(outcomes=(1.0, 0.0)):
    """Probabilities .1 .3 .4 and .4 .3 .4 before the turns: gains .2, .1 and -.1, .1."""
    return batch([3, 3], outcomes, [0, 0], gold_logprob=np.log([0.1, 0.3, 0.4, 0.4, 0.3, 0.4]))


def test_rewards():  # the last turn has the outcome
    assert credit.IGPO().rewards(two()) == pytest.approx([0.2, 0.1, 1, -0.1, 0.1, 0])
    logs = credit.IGPO(gain="log_prob_diff").rewards(two())
    assert logs[:2] == pytest.approx([np.log(3), np.log(4 / 3)])


def test_joint_separate_and_discounted():
    # mean .2167, deviation .3625: -.046, -.322, 2.161 / -.874, -.322, -.598, summed
    expected = [1.793, 1.839, 2.161, -1.793, -0.920, -0.598]
    assert credit.IGPO()(two()) == pytest.approx(expected, abs=1e-3)
    # gains: mean .075, deviation .109; outcomes 1 and -1
    expected = [2.376, 1.229, 1, -2.376, -0.771, -1]
    assert credit.IGPO(mode="separate")(two()) == pytest.approx(expected, abs=1e-3)
    # -.322 + .5 * 2.161 = .758, -.046 + .5 * .758 = .333
    assert credit.IGPO(gamma=0.5)(two())[:3] == pytest.approx([0.333, 0.758, 2.161], abs=1e-3)


def test_equal_outcomes_still_have_signal_and_equal_gains_leave_the_outcome():
    found = credit.IGPO()(two((1.0, 1.0)))
    assert found[0] > found[3]
    # equal gains leave the outcome
    turns = batch([2, 2], [1.0, 0.0], [0, 0], gold_logprob=np.log([0.25, 0.5, 0.125, 0.375]))
    assert credit.IGPO(mode="separate")(turns) == pytest.approx([1, 1, -1, -1], abs=1e-5)


@given(batches())
@pytest.mark.slow
def test_gains_of_a_trajectory_sum_to_the_last_probability_less_the_first(turns):
    gains = np.where(turns.last, 0, credit.IGPO().rewards(turns))
    chance = np.exp(turns.gold_logprob)
    summed = np.bincount(turns.trajectory, gains)
    assert summed == pytest.approx(chance[turns.last] - chance[turns.position == 0])
