"""GiGPO: numbers worked by hand, and what it reduces to."""

import numpy as np
import pytest
from hypothesis import given

import credit
from credit.methods.gigpo import GiGPO, returns_to_go
from tests.credit.batches import batch, batches


def test_returns_to_go():  # gamma 0.5: last turns 2 + 1 and 0 + 0, the first turn 1 + 0.5 * 3
    turns = batch([2, 1], [1.0, 0.0], [0, 0], reward=[1.0, 2.0, 0.0])
    assert returns_to_go(turns, 0.5) == pytest.approx([2.5, 3.0, 0.0])


def test_a_shorter_way_from_a_shared_state_is_better():
    # both trajectories succeed from "s", in 1 and in 3 turns: returns 1 and 0.95^2 = 0.9025, with
    # deviation 0.0975 / sqrt(2): 0.04875 / 0.06894 = 1/sqrt(2). Equal outcomes give A^E = 0
    turns = batch([1, 3], [1.0, 1.0], [0, 0], anchor=["s", "s", "x", "y"])
    half = 0.5**0.5
    assert GiGPO()(turns) == pytest.approx([half, -half, 0, 0], abs=1e-4)
    # omega weights the step advantage
    turns = batch([1, 3], [1.0, 0.0], [0, 0], anchor=["s", "s", "x", "y"])
    plain, doubled = GiGPO(omega=1.0)(turns), GiGPO(omega=2.0)(turns)
    assert doubled - plain == pytest.approx(GiGPO().step_advantage(turns))


def test_step_baseline_counts_turns():
    # outcome 1 counts for 3 turns, outcome 0 for 1: mean 3/4, variance (3/16 + 9/16) / 3 = 1/4
    turns = batch([3, 1], [1.0, 0.0], [0, 0])
    assert GiGPO(baseline="step").episode_advantage(turns) == pytest.approx(
        [0.5, 0.5, 0.5, -1.5], abs=1e-5
    )


def test_means_only():
    # returns 1 and 0.9025 differ by 0.04875 from their mean 0.95125; outcomes 1 and 0 by 0.5
    turns = batch([1, 3], [1.0, 1.0], [0, 0], anchor=["s", "s", "x", "y"])
    assert GiGPO(mode="mean_norm")(turns) == pytest.approx([0.04875, -0.04875, 0, 0])
    turns = batch([1, 1], [1.0, 0.0], [0, 0], anchor=["x", "y"])
    assert GiGPO(mode="mean_norm")(turns) == pytest.approx([0.5, -0.5])


@given(batches())
def test_distinct_anchors_reduce_to_grpo_and_means_only_to_dr_grpo(turns):
    alone = batch(
        np.bincount(turns.trajectory).tolist(), turns.outcome.tolist(), turns.group.tolist()
    )
    assert GiGPO()(alone).tolist() == credit.make("grpo")(alone).tolist()
    assert GiGPO(mode="mean_norm")(alone).tolist() == credit.make("dr_grpo")(alone).tolist()
