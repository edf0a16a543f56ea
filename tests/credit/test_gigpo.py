"""GiGPO: numbers by hand, and what it reduces to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import credit
from credit import anchors
from credit.gigpo import GiGPO, returns_to_go
from tests.credit.batches import batch, batches


def test_returns_to_go():  # gamma 0.5: last turns 2 + 1 and 0 + 0; first 1 + 0.5 * 3
    turns = batch([2, 1], [1.0, 0.0], [0, 0], reward=[1.0, 2.0, 0.0])
    assert returns_to_go(turns, 0.5).tolist() == [2.5, 3.0, 0.0]


def test_shared_state_tells_a_short_way_from_a_long_one():
    # one task, both succeed from "s", in 1 and in 3 turns: returns 1 and 0.95^2 = 0.9025,
    # whose deviation is 0.0975 / sqrt(2), so that they are +-1/sqrt(2); outcomes are equal
    turns = batch([1, 3], [1.0, 1.0], [0, 0], anchor=["s", "s", "x", "y"])
    half = 0.5**0.5
    assert GiGPO()(turns) == pytest.approx([half, -half, 0, 0], abs=1e-4)


def test_omega_weighs_the_turns_part():
    turns = batch([1, 3], [1.0, 0.0], [0, 0], anchor=["s", "s", "x", "y"])
    plain, doubled = GiGPO(omega=1.0)(turns), GiGPO(omega=2.0)(turns)
    assert doubled - plain == pytest.approx(GiGPO().step(turns))


def test_step_baseline_counts_turns():
    # outcomes 1 (3 turns) and 0 (1 turn) by turns: mean 3/4, variance (3/16 + 9/16) / 3 = 1/4
    turns = batch([3, 1], [1.0, 0.0], [0, 0])
    assert GiGPO(baseline="step").episode(turns) == pytest.approx([0.5, 0.5, 0.5, -1.5], abs=1e-5)


def test_means_only():
    # as above, without the deviation: returns 1 and 0.9025 are 0.04875 from their mean 0.95125;
    # outcomes 1 and 0 are half from theirs
    turns = batch([1, 3], [1.0, 1.0], [0, 0], anchor=["s", "s", "x", "y"])
    assert GiGPO(mode="mean_norm")(turns) == pytest.approx([0.04875, -0.04875, 0, 0])
    turns = batch([1, 1], [1.0, 0.0], [0, 0], anchor=["x", "y"])
    assert GiGPO(mode="mean_norm")(turns) == pytest.approx([0.5, -0.5])


@given(batches())
def test_means_only_and_distinct_anchors_is_dr_grpo(turns):
    alone = batch(
        np.bincount(turns.trajectory).tolist(), turns.outcome.tolist(), turns.group.tolist()
    )
    expected = credit.make("dr_grpo")(alone)
    assert GiGPO(mode="mean_norm")(alone).tolist() == expected.tolist()


@given(batches())
def test_distinct_anchors_reduce_to_grpo(turns):
    alone = batch(
        np.bincount(turns.trajectory).tolist(), turns.outcome.tolist(), turns.group.tolist()
    )
    assert GiGPO()(alone).tolist() == credit.make("grpo")(alone).tolist()


@given(batches())
def test_states_of_different_tasks_are_different(turns):
    ids = anchors.exact(turns.anchor, turns.group_of_turn)
    pairs = list(zip(turns.group_of_turn.tolist(), turns.anchor, strict=True))
    together = set(zip(ids.tolist(), pairs, strict=True))
    assert len(together) == len(set(pairs)) == len(set(ids.tolist()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, r"gamma must lie in \[0, 1\].*got 1.5"),
        ({"baseline": "turn"}, "baseline is one of trajectory, step, got 'turn'"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        GiGPO(**options)
