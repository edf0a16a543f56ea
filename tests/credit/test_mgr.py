"""MGR: the paper's equations by hand, its relations, its gate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

import credit
from credit.mgr import MGR, fuse
from tests.credit.batches import batch, batches


def test_local_signal():
    # valid, invalid (-1 - 0.1), valid (+1 + 0.1), valid: the third "go" counts N = 3 > q = 2,
    # since the invalid one does not: 1 - 0.5 * (3 - 2)
    turns = batch([4], [1.0], [0], valid=[True, False, True, True], action=["go"] * 4)
    assert MGR().local(turns) == pytest.approx([1, -1.1, 1.1, 0.5])
    assert MGR(beta=0, alpha=0).local(turns) == pytest.approx([1, -1, 1, 1])


def test_repetitions_cost_more_each_time():  # N - q = 0, 0, 1, 2, 3
    turns = batch([5], [0.0], [0], action=["look"] * 5)
    assert MGR().local(turns) == pytest.approx([1, 1, 0.5, 0, -0.5])


def test_each_trajectory_counts_for_itself():
    turns = batch([2, 2], [1.0, 0.0], [0, 0], valid=[True, False, True, True], action=["a"] * 4)
    assert MGR(q=1).local(turns) == pytest.approx([1, -1.1, 1, 0.5])


@pytest.mark.parametrize(
    ("local", "standing", "gate", "expected"),
    [
        (1.1, 0.5, 1, 0.55),  # both good: 1.1 * 0.5
        (-1.1, -0.5, 1, -0.55),  # both bad: -1.1 * |-0.5|
        (-1.0, 0.8, 1, -0.4),  # invalid in a success: 0.5 * -1 * 0.8
        (-1.0, 0.8, -1, -0.4),  # where the gate has no say
        (1.0, -0.8, 1, 0.4),  # valid in a failure, kept: 0.5 * 1 * 0.8
        (1.0, -0.8, -1, -0.4),  # flipped
        (0.0, 0.8, 1, 0.0),
        (1.0, 0.0, -1, 0.0),
    ],
)
def test_fusion(local, standing, gate, expected):
    assert fuse([local], [standing], [gate], conflict_scale=0.5)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("successes", "valid_share", "expected"),
    [
        (0, 1.0, 1.0),  # C = 0 < 0.1
        (2, 1.0, 0.7),  # C = 0.2: 1 - 1.5 * 0.2
        (2, 0.3, 1.0),  # V = 0.3 < 0.4
        (6, 1.0, 0.1),  # C = 0.6: the floor
        (10, 1.0, 0.1),
    ],
)
def test_schedule_of_the_gate(successes, valid_share, expected):
    outcomes = [1.0] * successes + [0.0] * (10 - successes)
    turns = batch([10] * 10, outcomes, [0] * 10, valid=np.arange(100) % 10 < 10 * valid_share)
    assert MGR().p_retain(turns) == pytest.approx(expected)


def test_schedule_stays_a_probability():
    # C = 0.5: 1 - 3 * 0.5 is below 0; C = 0.6 is the end of the slope, where 1 - 1.5 * 0.6 = 0.1
    half = batch([1] * 10, [1.0] * 5 + [0.0] * 5, [0] * 10)
    more = batch([1] * 10, [1.0] * 6 + [0.0] * 4, [0] * 10)
    assert MGR(delta=3.0).p_retain(half) == 0
    assert MGR(p_min=0.3).p_retain(more) == 0.3


def test_gate_keeps_as_many_as_the_schedule_says():  # C = 0.6: a tenth of 400 failures
    turns = batch([1] * 1000, [1.0] * 600 + [0.0] * 400, [0] * 1000)
    rewards = MGR().rewards(turns, np.random.default_rng(0))
    assert (rewards[600:] > 0).mean() == pytest.approx(0.1, abs=0.04)


def test_gate_flips_whole_trajectories():
    turns = batch([3] * 40, [1.0] * 20 + [0.0] * 20, [0] * 40)
    rewards = MGR().rewards(turns, np.random.default_rng(3))
    failed = rewards[60:].reshape(20, 3)
    assert (failed == failed[:, :1]).all()
    assert 0 < (failed[:, 0] > 0).mean() < 1
    by_turn = MGR(gate="turn").rewards(turns, np.random.default_rng(3))[60:].reshape(20, 3)
    assert (by_turn != by_turn[:, :1]).any()


def test_diagnostics_describe_the_rewards():
    turns = batch([3] * 40, [1.0] * 20 + [0.0] * 20, [0] * 40)
    told = MGR().diagnostics(turns, np.random.default_rng(3))
    rewards = MGR().rewards(turns, np.random.default_rng(3))
    assert (told.completion, told.validity, told.p_retain) == (0.5, 1.0, 0.25)
    assert told.flipped == pytest.approx((rewards[60:] < 0).mean())
    assert (told.positive, told.negative) == ((rewards > 0).sum(), (rewards < 0).sum())


@given(batches(), st.integers(0, 1000), st.sampled_from(["trajectory", "turn", "none"]))
def test_an_invalid_turn_is_never_rewarded(turns, seed, gate):
    rewards = MGR(gate=gate).rewards(turns, np.random.default_rng(seed))
    assert (rewards[~turns.valid] <= 0).all()


@given(batches())
def test_an_open_gate_never_punishes_a_fresh_valid_turn(turns):
    rewards = MGR(gate="none", alpha=0.0).rewards(turns)
    assert (rewards[turns.valid] >= 0).all()


@given(batches())
def test_standing_is_rloo(turns):
    assert MGR().standing(turns).tolist() == credit.make("rloo")(turns).tolist()


def test_the_gate_wants_a_generator():
    turns = batch([1] * 20, [1.0] * 10 + [0.0] * 10, [0] * 20)
    for call in (MGR(), MGR().rewards, MGR().diagnostics, MGR(gate="turn")):
        with pytest.raises(ValueError, match=r"make rng = np\.random\.default_rng"):
            call(turns)
    kept = MGR(delta=0.0, p_min=1.0)(turns, default_rng(0))
    assert MGR(gate="none")(turns).tolist() == kept.tolist()


def test_a_generator_goes_on_from_step_to_step():
    turns = batch([1] * 40, [1.0] * 20 + [0.0] * 20, [0] * 40)
    rng = default_rng(0)
    assert MGR()(turns, rng).tolist() != MGR()(turns, rng).tolist()
    assert MGR()(turns, default_rng(0)).tolist() == MGR()(turns, default_rng(0)).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": "step"}, "gate is one of trajectory, turn, none, got 'step'"),
        ({"conflict_scale": 0.0}, "conflict_scale must be positive and finite .* got 0.0"),
        ({"p_min": 1.2}, r"p_min must lie in \[0, 1\]"),
        ({"alpha": -0.5}, "alpha must lie in"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        MGR(**options)


def test_outcome_must_be_success():
    with pytest.raises(ValueError, match=r"0 or 1.*success.*got 0.5 in row 1"):
        MGR()(batch([1, 1], [1.0, 0.5], [0, 0]))


def test_the_gate_closes_from_one_threshold_to_the_next():
    with pytest.raises(ValueError, match=r"theta_c1=0.7 must be at most theta_c2=0.6"):
        MGR(theta_c1=0.7)


def test_numbers_of_numpy_are_numbers():
    with warnings.catch_warnings(action="error"):
        assert MGR(beta=np.float32(0.25), q=np.int64(2)) == MGR(beta=0.25)
