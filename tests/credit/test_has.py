"""HAS: the blend, the decomposer Progressive, the projection, case 1 of the appendix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credit
from credit.methods.has import HAS, Progressive, measure_drift, project
from tests.credit.batches import batch, batches

HALF = 0.5**0.5
# HAS appendix A, case 1, goal-aware rollout: credits of turns 1-11, R = 1
CASE_1 = [0.075, 0.084, 0.001, -0.026, -0.129, -0.004, -0.087, 0.006, -0.231, 0.758, 0.507]


def test_progressive():  # 0.25 - 0, 0.25 - 0.25, 1 - 0.25 | 0.5 - 0
    turns = batch([3, 1], [1.0, 0.0], [0, 0], progress=[0.25, 0.25, 1.0, 0.5])
    assert Progressive()(turns) == pytest.approx([0.25, 0.0, 0.75, 0.5])


def test_blend():
    # outcomes 1 and 0: +-1/sqrt(2). First turns gain 0.4 and 0.2: +-1/sqrt(2) too. Second turns
    # gain 0.1 and 0.5: -+1/sqrt(2), which cancels the outcome at alpha 0.5
    turns = batch([2, 2], [1.0, 0.0], [0, 0], progress=[0.4, 0.5, 0.2, 0.7])
    assert HAS()(turns) == pytest.approx([HALF, 0, -HALF, 0], abs=1e-5)
    assert HAS(alpha=0.0)(turns) == pytest.approx([HALF, -HALF, -HALF, HALF], abs=1e-4)
    assert HAS(alpha=0.75)(turns) == pytest.approx([HALF, HALF / 2, -HALF, -HALF / 2], abs=1e-4)


def test_a_turn_is_compared_with_turns_of_its_position_of_the_group_or_of_its_anchor():
    # first turns gain 0.2 and 0.6; only the first trajectory has a second turn: 0
    turns = batch([2, 1], [1.0, 1.0], [0, 0], progress=[0.2, 1.0, 0.6])
    assert HAS(alpha=0.0)(turns) == pytest.approx([-HALF, 0, HALF], abs=1e-4)
    # normalized over the group: gains 0.1, 0.2, 0.3: mean 0.2, deviation 0.1
    turns = batch([2, 1], [1.0, 1.0], [0, 0], progress=[0.1, 0.3, 0.3])
    assert HAS(alpha=0.0, normalize="group")(turns) == pytest.approx([-1, 0, 1], abs=1e-4)
    # over anchors: in state "t" gains 0.2 and 0.4, state "s" occurs once
    turns = batch([2, 1], [1.0, 1.0], [0, 0], progress=[0.1, 0.3, 0.4], anchor=["s", "t", "t"])
    assert HAS(alpha=0.0, normalize="anchor")(turns) == pytest.approx([0, -HALF, HALF], abs=1e-4)


@given(batches())
def test_alpha_one_is_grpo_bit_for_bit(turns):
    def broken(turns):
        raise AssertionError

    assert HAS(alpha=1.0)(turns).tobytes() == credit.make("grpo")(turns).tobytes()
    assert HAS(alpha=1, decomposer=broken)(turns).tobytes() == credit.GRPO()(turns).tobytes()


@pytest.mark.slow
@given(batches(), st.floats(0.1, 5))
def test_projected_credits_sum_to_the_outcome(turns, clip):
    values = turns.reward * 3
    projected = project(values, turns, clip=clip)
    sums = np.bincount(turns.trajectory, projected, len(turns.group))
    assert sums == pytest.approx(turns.outcome, abs=1e-9)
    again = project(projected, turns, clip=1e9)
    assert again == pytest.approx(projected, abs=1e-9)


def test_projection_by_hand():
    # 3 is clipped to 2; the sum 2 + 0.5 - 1 = 1.5 is 0.5 above R = 1, a sixth for each turn
    turns = batch([3], [1.0], [0])
    assert project([3.0, 0.5, -1.0], turns) == pytest.approx([11 / 6, 1 / 3, -7 / 6])


def test_the_drift_is_that_of_the_worst_trajectory():
    # sums 0.75, 0.25 and 0 of outcomes 1, 0 and 0: 0.25 too few, 0.25 and 0 too much; then 0.5
    turns = batch([2, 1, 1], [1.0, 0.0, 0.0], [0, 0, 0])
    assert measure_drift([1.0, -0.25, 0.25, 0.0], turns) == 0.25
    assert measure_drift([1.0, -0.25, 0.25, -0.5], turns) == 0.5
    assert measure_drift([], batch([], [], [])) == 0.0


def test_case_1_sums_to_the_return():
    # the eleven printed credits sum to 0.954; the first action, "look", has the rest, 0.046
    turns = batch([12], [1.0], [0])
    assert sum(CASE_1) == pytest.approx(0.954)
    values = [1 - sum(CASE_1), *CASE_1]
    assert project(values, turns) == pytest.approx(values)
    assert int(np.argmax(np.abs(values))) == 10  # "use desklamp 1" is decisive
