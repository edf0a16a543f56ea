"""MGR: the paper's equations worked by hand, relations, the gate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

import credit
from credit.methods.mgr import MGR, combine
from tests.credit.batches import batch, batches


def test_local_signal():
    # valid 1, invalid -1 - 0.1, valid 1 + 0.1; the last turn is the third valid "go", N = 3 and
    # q = 2, so that it has 1 - 0.5 * (3 - 2)
    turns = batch([4], [1.0], [0], valid=[True, False, True, True], action=["go"] * 4)
    assert MGR().local_reward(turns) == pytest.approx([1, -1.1, 1.1, 0.5])
    assert MGR(beta=0, alpha=0).local_reward(turns) == pytest.approx([1, -1, 1, 1])


def test_repetitions_cost_more_each_time():  # 1 - 0.5 max(N - 2, 0) for N = 1 to 5
    turns = batch([5], [0.0], [0], action=["look"] * 5)
    assert MGR().local_reward(turns) == pytest.approx([1, 1, 0.5, 0, -0.5])
    # each trajectory counts its own: "a" again in the second one only, 1 - 0.5
    turns = batch([2, 2], [1.0, 0.0], [0, 0], valid=[True, False, True, True], action=["a"] * 4)
    assert MGR(q=1).local_reward(turns) == pytest.approx([1, -1.1, 1, 0.5])


@pytest.mark.parametrize(
    ("local", "global_reward", "gate", "expected"),
    [
        (1.1, 0.5, 1, 0.55),  # both good: 1.1 * 0.5
        (-1.1, -0.5, 1, -0.55),  # both bad: -1.1 * |-0.5|
        (-1.0, 0.8, 1, -0.4),  # invalid in a success: 0.5 * -1 * 0.8
        (-1.0, 0.8, -1, -0.4),  # the gate does not apply
        (1.0, -0.8, 1, 0.4),  # valid in a failure, kept: 0.5 * 1 * 0.8
        (1.0, -0.8, -1, -0.4),  # flipped
        (0.0, 0.8, 1, 0.0),
        (1.0, 0.0, -1, 0.0),
    ],
)
def test_combine(local, global_reward, gate, expected):
    assert combine([local], [global_reward], [gate], conflict_scale=0.5)[0] == pytest.approx(
        expected
    )


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
    # C = 0.5: 1 - 3 * 0.5 = -0.5, so 0; C = 0.6 = theta_c2: p_min, not 1 - 1.5 * 0.6 = 0.1
    half = batch([1] * 10, [1.0] * 5 + [0.0] * 5, [0] * 10)
    more = batch([1] * 10, [1.0] * 6 + [0.0] * 4, [0] * 10)
    assert MGR(delta=3.0).p_retain(half) == pytest.approx(0)
    assert MGR(p_min=0.3).p_retain(more) == pytest.approx(0.3)


def test_gate_keeps_signs_with_the_scheduled_probability():  # C = 0.6: 0.1 of 400 failures
    turns = batch([1] * 1000, [1.0] * 600 + [0.0] * 400, [0] * 1000)
    rewards = MGR().rewards(turns, np.random.default_rng(0))
    assert (rewards[600:] > 0).mean() == pytest.approx(0.1, abs=0.04)


def test_gate_flips_whole_trajectories():
    # C = 0.5: p_retain 0.25. A failure has R_global = 0 - 20/39, a valid turn R_local = 1
    turns = batch([3] * 40, [1.0] * 20 + [0.0] * 20, [0] * 40)
    rewards = MGR().rewards(turns, np.random.default_rng(3))
    failed = rewards[60:].reshape(20, 3)
    assert (failed == failed[:, :1]).all()
    assert np.abs(failed) == pytest.approx(np.full((20, 3), 20 / 39))
    assert 0 < (failed[:, 0] > 0).mean() < 1
    by_turn = MGR(gate="turn").rewards(turns, np.random.default_rng(3))[60:].reshape(20, 3)
    assert (by_turn != by_turn[:, :1]).any()


@given(batches(), st.integers(0, 1000), st.sampled_from(["trajectory", "turn", "none"]))
def test_an_invalid_turn_is_never_rewarded(turns, seed, gate):
    rewards = MGR(gate=gate).rewards(turns, np.random.default_rng(seed))
    assert (rewards[~turns.valid] <= 0).all()


@given(batches())
def test_global_reward_is_rloo(turns):
    assert MGR().global_reward(turns).tolist() == credit.make("rloo")(turns).tolist()


def test_a_generator_draws_new_signs_at_each_call():
    turns = batch([1] * 40, [1.0] * 20 + [0.0] * 20, [0] * 40)
    rng = default_rng(0)
    assert MGR()(turns, rng).tolist() != MGR()(turns, rng).tolist()
    assert MGR()(turns, default_rng(0)).tolist() == MGR()(turns, default_rng(0)).tolist()
