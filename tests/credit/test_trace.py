"""TRACE: gains on a logarithmic scale, worked by hand."""

import numpy as np
import pytest

import credit
from tests.credit.batches import batch

KNOWN = [-2.4, -1.15, -1.15, -0.15]  # with b = .1: distances 2.5, 1.25, 1.25, .25


def two(outcomes=(1.0, 0.0), known=KNOWN):
    """The same log-probabilities in a success (A^O = 1) and a failure (-1)."""
    return batch([len(known)] * 2, outcomes, [0, 0], gold_logprob=[*known, *known])


def test_a_trajectory_by_hand():  # gains log 2, 0, log 5, and none at the answer
    assert credit.TRACE().gains(two())[:4] == pytest.approx([np.log(2), 0, np.log(5), 0])
    # means (.693 + 0 + .64 * 1.609) / 2.44 = .706, (0 + .8 * 1.609) / 1.8 = .715, 1.609; all of
    # them reach the end: 2 * .8^3 = 1.024, 1.28, 1.6; 1 + .2 (.706 + 1.024) = 1.346
    found = credit.TRACE()(two())
    assert found[:4] == pytest.approx([1.346, 1.399, 1.642, 1], abs=1e-3)
    # and with A^O = -1: -1 + .2 (.706 - 1.024) = -1.064
    assert found[4:] == pytest.approx([-1.064, -1.113, -0.998, -1], abs=1e-3)


def test_only_windows_that_reach_the_end_are_filled():
    # five turns before the answer, horizon 2: the last two, with 2 * .8^2 = 1.28 and 1.6
    found = credit.TRACE(horizon=2)(two(known=[-1.0] * 6))
    assert found[:6] == pytest.approx([1, 1, 1, 1.256, 1.32, 1], abs=1e-5)
    # without a horizon only the last transition: 1 + .2 * 1.6
    assert credit.TRACE(horizon=0)(two())[:4] == pytest.approx([1, 1, 1.32, 1], abs=1e-5)


def test_without_weight_it_is_the_outcome_and_without_outcome_the_gains():
    assert credit.TRACE(omega=0.0)(two()) == pytest.approx([1] * 4 + [-1] * 4, abs=1e-5)
    # equal outcomes keep the gains: .2 * .706, .2 * .715, .2 * 1.609
    found = credit.TRACE()(two((1.0, 1.0)))
    assert found == pytest.approx([0.141, 0.143, 0.322, 0] * 2, abs=1e-3)
    # the offset and the decay: distances 3.4, 2.15, 2.15: log(3.4 / 2.15), alone
    found = credit.TRACE(offset=1.0, decay=0.0)(two((1.0, 1.0)))
    assert found[0] == pytest.approx(0.2 * np.log(3.4 / 2.15))
