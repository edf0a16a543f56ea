"""The signal critic: its steps worked by hand, its limits, and what it falls back on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credit
from credit import stats
from credit.methods import signal
from tests.credit.batches import batch, batches, rows

few = settings(max_examples=20)
PLAIN = {"c": 0.0, "rho": 0.0, "kappa": 0.0}


def test_cut_returns_are_pooled_by_hand():
    # (s, A) (d, C) succeeds; (s, A) (d, D) and (s, B) fail. No prior: V(s) = 1/3, V(d) = 1/2.
    # δ: 1/6 1/2, 1/6 -1/2, -1/3. d is met twice, λ = 2 / 4: 5/12 1/2, -1/12 -1/2, -1/3.
    # plus 0.2 (R - V): .55 .6, -.15 -.6, -.4. (s, A) has the mean .2: .4 * .55 + .6 * .2 = .34 and
    # -.06 + .12 = .06. In s the sum is 0, in d, too, and no error is in common.
    turns = batch([2, 2, 1], [1.0, 0.0, 0.0], [0] * 3, anchor=[*"sdsds"], action=[*"ACADB"])
    found = credit.make("signal", prior=0.0)(turns)
    assert found == pytest.approx([0.34, 0.6, 0.06, -0.6, -0.4])
    # V(d) and so λ = 0 are trusted without k: 1/6 + .2 * 2/3 = .3, 1/6 - 1/15 = .1, both (s, A)
    # .2 on average; with ρ = 1 they have it
    found = credit.make("signal", prior=0.0, k=0.0, rho=1.0)(turns)
    assert found == pytest.approx([0.2, 0.6, 0.2, -0.6, -0.4])


def test_a_trajectory_counts_once_in_a_state_that_it_enters_twice():
    # V(s) = 1/2, not 2/3
    turns = batch([2, 1], [1.0, 0.0], [0, 0], anchor=["s"] * 3)
    found = credit.make("signal", k=0.0, prior=0.0, **PLAIN)(turns)
    assert found == pytest.approx([0.0, 0.5, -0.5])


def test_the_common_error_of_a_state_is_subtracted_by_hand():
    # One turn each: f is the mean of the other three, 1/3 1/3 2/3 2/3. V(s) = (2 + f) / 4, V(d) =
    # f / 2: 7/12 7/12 2/3 and 1/3; 1.2 (R - V) is .5 .5 -.8 and -.4; pooled it stays, as (s, A)
    # gave .5 twice. s: the sum .2 / (3 + 2/3) = .0545; d: -.4 / (1 + 2/3) = -.24
    turns = batch([1] * 4, [1.0, 1.0, 0.0, 0.0], [0] * 4, anchor=[*"sssd"], action=[*"AABA"])
    found = credit.make("signal", prior=1.0)(turns)
    assert found == pytest.approx([0.4455, 0.4455, -0.8545, -0.16], abs=1e-4)


def test_rows_are_added_up_to_the_end_of_their_trajectory():
    # 3; 2 + 3 / 2 = 3.5; 1 + 3.5 / 2 = 2.75; the next trajectory is not added to the first
    assert signal.accumulate([1, 2, 3, 10], [0.5, 0.5, 0, 0]).tolist() == [2.75, 3.5, 3, 10]


@given(turns=batches(), share=st.floats(0, 1))
@few
def test_one_share_is_a_discount(turns, share):
    found = signal.accumulate(turns.reward, np.where(turns.last, 0.0, share))
    expected = stats.discounted_returns(turns.reward, turns.trajectory, share)
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_prior_is_chosen_by_leaving_a_trajectory_out():
    states, first, fit = np.array([0, 0, 1, 1]), np.ones(4), np.full(4, 0.5)
    # states differ: the other outcome foretells it, so the least weight, (2 + 1/8) / (2 + 1/4)
    value = signal.pool_outcomes(np.array([1.0, 1.0, 0.0, 0.0]), fit, states, first)
    assert value == pytest.approx([0.9444, 0.9444, 0.0556, 0.0556], abs=1e-4)
    # all states are alike: the fit foretells more than the other outcome; 32 and a sum of 1
    value = signal.pool_outcomes(np.array([1.0, 0.0, 1.0, 0.0]), np.full(4, 0.4), states, first)
    assert value == pytest.approx(np.full(4, (1 + 12.8) / 34))
    # no state is met twice: nothing chooses, so the fit
    value = signal.pool_outcomes(np.array([1.0, 0.0]), np.full(2, 0.5), np.arange(2), np.ones(2))
    assert value == pytest.approx([17 / 33, 16 / 33])
    # a second visit of a trajectory counts neither for the value nor for the choice
    value = signal.pool_outcomes(
        np.array([1.0, 1.0, 0.0]), np.full(3, 0.5), np.zeros(3, int), np.array([1.0, 0.0, 1.0]), 0.0
    )
    assert value == pytest.approx(np.full(3, 0.5))


def test_a_trajectory_is_fitted_by_the_others_by_hand():
    # of 0, 1, 1 at 0, .2, 1: without the first the line is 1, without the second it has the slope
    # .5 / (.5 + .003) about 1/2, 1/2; without the third it leaves the range
    features, outcome = np.array([[1, 0], [1, 0.2], [1, 1]]), np.array([0.0, 1.0, 1.0])
    found = signal.fit_outcome(features, outcome, np.arange(3))
    assert found == pytest.approx([1.0, 0.2018, 1.0], abs=1e-4)
    # of two trajectories each gets the mean of the other, drawn to it: slope .02 / (.02 + .004)
    features = np.array([[1, 0], [1, 0.2], [1, 0], [1, 0.2]])
    found = signal.fit_outcome(features, np.array([0.5, 0.5, 0.0, 1.0]), np.array([0, 2]))
    assert found == pytest.approx([0.0833, 0.9167, 0.5, 0.5], abs=1e-4)


@given(turns=batches(), data=st.data())
@few
def test_a_fit_does_not_know_the_own_outcome(turns, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    features = np.column_stack([np.ones(len(turns)), rng.random((len(turns), 3))])
    one = data.draw(st.integers(0, len(turns.group) - 1))
    starts, own = np.flatnonzero(turns.position == 0), turns.trajectory == one
    outcomes = rng.random((2, len(turns.group)))
    outcomes[1] = np.where(np.arange(len(turns.group)) == one, 1 - outcomes[0], outcomes[0])
    first, second = (signal.fit_outcome(features, r[turns.trajectory], starts) for r in outcomes)
    assert first[own] == pytest.approx(second[own], abs=1e-6)
    if len(turns.group) > 2:
        assert first[~own] != pytest.approx(second[~own], abs=1e-6)


def test_trajectories_are_left_out_a_part_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    features, outcome = np.column_stack([np.ones(12), rng.random((12, 2))]), rng.random(12)
    starts = np.array([0, 3, 4, 6, 11])
    expected = signal.fit_outcome(features, outcome, starts)
    monkeypatch.setattr(signal, "_AT_ONCE", 2)
    assert signal.fit_outcome(features, outcome, starts) == pytest.approx(expected, abs=1e-12)


def test_the_mean_of_the_others_by_hand():
    outcome = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.5])
    # group 0: (1 + 0) / 2 twice and 1; group 1: 0; group 2 is alone, the mean of 1/2 1/2 1 0 0
    found = signal.mean_of_others(outcome, [0, 0, 0, 1, 1, 2])
    assert found == pytest.approx([0.5, 0.5, 1.0, 0, 0, 0.4])
    assert signal.mean_of_others(outcome, [*range(6)]).tolist() == [0] * 6


def test_one_group_does_not_see_its_own_outcomes_in_the_fit():
    # states of their own, and nothing to fit: f is the mean of the other seven, 3/7 or 4/7
    turns = batch([1] * 8, [1.0, 0.0] * 4, [0] * 8)
    found = credit.make("signal", prior=100.0, **PLAIN)(turns)
    assert found == pytest.approx([400 / 707, -400 / 707] * 4)  # R - (R + 100 f) / 101


def test_the_mean_of_the_others_is_left_out_where_progress_says_more_of_the_task():
    # 3 of 8 and 6 of 8, and progress tells the two tasks apart: with it, the fit falls with m
    outcome = [1.0] * 3 + [0.0] * 5 + [1.0] * 6 + [0.0] * 2
    known = {"progress": [0.25] * 8 + [0.5] * 8, "progress_before": [0.25] * 8 + [0.5] * 8}
    given = {"outcome": outcome, "trajectory": [*range(16)]}
    groups = credit.make("signal")(credit.Turns(group=[0] * 8 + [1] * 8, **given, **known))
    alone = credit.make("signal")(credit.Turns(group=[*range(16)], **given, **known))
    assert groups == pytest.approx(alone)
    # without progress m is what tells them apart
    groups = credit.make("signal")(credit.Turns(group=[0] * 8 + [1] * 8, **given))
    assert groups != pytest.approx(credit.make("signal")(credit.Turns(group=[*range(16)], **given)))


@given(turns=batches())
@few
def test_equal_outcomes_give_zero(turns):
    equal = rows(turns, range(len(turns.group)), outcome=np.full(len(turns.group), 0.3))
    assert not credit.make("signal")(equal).any()


@given(
    turns=batches(), by=st.sampled_from([1e-3, 0.5, 7.0, 1e6]), plus=st.sampled_from([0.0, -4.0])
)
@few
def test_the_unit_of_the_outcome_is_that_of_the_advantage(turns, by, plus):
    scaled = rows(turns, range(len(turns.group)), outcome=by * turns.outcome + plus)
    expected = by * credit.make("signal")(turns)
    assert credit.make("signal")(scaled) == pytest.approx(expected, abs=1e-6 * by)


@given(turns=batches())
@few
def test_with_the_whole_return_turns_of_a_state_differ_by_their_outcomes(turns):
    found = credit.make("signal", k=1e99, prior=0.0, **PLAIN)(turns)
    outcome, states = turns.outcome[turns.trajectory], turns.segment_ids("anchor")
    assert stats.center(found, states) == pytest.approx(stats.center(outcome, states), abs=1e-9)


@given(turns=batches())
@few
def test_all_of_the_common_error_is_the_mean_of_the_state(turns):
    found = credit.make("signal", kappa=1.0)(turns)
    assert np.bincount(turns.segment_ids("anchor"), found) == pytest.approx(0, abs=1e-9)


NEUTRAL = {
    "anchor": lambda turns: [f"state {row}" for row in range(len(turns))],
    "action": lambda turns: [f"action {row}" for row in range(len(turns))],
    "progress": lambda turns: np.zeros(len(turns)),
    "valid": lambda turns: np.ones(len(turns), dtype=bool),
}


@pytest.mark.parametrize("missing", NEUTRAL)
@given(turns=batches())
@few
def test_without_a_column_it_is_as_if_it_said_nothing(missing, turns):
    known = replace(turns, progress_before=None, **{missing: NEUTRAL[missing](turns)})
    given = {name: getattr(known, name) for name in ("group", "outcome", "trajectory", *NEUTRAL)}
    del given[missing]
    found = credit.make("signal")(credit.Turns(**given))
    assert found == pytest.approx(credit.make("signal")(known), abs=1e-5)


def test_outcomes_and_groups_are_enough():
    # the better group has the better fit; its failure is worse than that of the other one
    outcome = [1.0] * 5 + [0.0] * 6 + [1.0]
    turns = credit.Turns(group=[0] * 6 + [1] * 6, outcome=outcome, trajectory=[*range(12)])
    found = credit.make("signal")(turns)
    assert (np.sign(found) == np.where(turns.outcome > 0, 1, -1)).all()
    assert found[5] < found[6] < 0 < found[0] < found[11]


def test_one_trajectory_alone_gives_zero():
    assert not credit.make("signal")(batch([5], [1.0], [0])).any()


def test_episodes_of_twenty_thousand_turns_get_finite_credit():
    rng = np.random.default_rng(0)
    total = 4 * 20_000
    turns = batch(
        [20_000] * 4,
        [1.0, 0.0, 0.5, 0.0],
        [0, 0, 1, 1],
        anchor=[str(one) for one in rng.integers(0, 5000, total)],
        progress=rng.random(total),
    )
    found = credit.make("signal")(turns)
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 2


def test_progress_before_an_episode_begins_is_read():
    lengths, groups = [2] * 8, [0, 0, 1, 1, 2, 2, 3, 3]
    turns = batch(lengths, [1.0, 0.0] * 4, groups, progress=[0.9, 1.0, 0.1, 0.2] * 4)
    before = replace(turns, progress_before=np.repeat([0.9, 0.1] * 4, 2))
    # who begins near the goal is expected to succeed, so the first turn gets less credit for it
    assert credit.make("signal")(before)[0] < credit.make("signal")(turns)[0]
