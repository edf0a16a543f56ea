"""Every method by hand where batches are unlike the usual one.

Groups of equal outcomes ("dead"), single trajectories, unequal lengths, two places with one anchor,
and outcomes of another size. `HALF` is 1/√2: two different values are ±1/√2 standard deviations
(ddof 1) from their mean, whatever their distance, and ±1 with ddof 0.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import credit
from credit import stats
from credit.methods import has, stapo
from credit.rows import TurnRecord, token_advantages
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


def implicit(*rewards):
    return {"turn_reward": [[one] for one in rewards], "turn_reward_names": ("implicit",)}


# one number for each trajectory


def test_the_outcome_is_not_compared_by_reinforce():  # 1 for each turn, in a dead group too
    assert made("reinforce", dead()) == pytest.approx([1.0, 1.0, 1.0])


def test_other_groups_give_a_dead_group_signal_in_reinforce_pp():
    # outcomes 1, 1 | 0, 0: mean 1/2, variance 4 (1/4) / 3 = 1/3, 0.5 / sqrt(1/3) = sqrt(3) / 2
    turns = batch([1, 1, 1, 1], [1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1])
    root = 3**0.5 / 2
    assert made("reinforce_pp", turns) == pytest.approx([root, root, -root, -root], abs=CLOSE)


def test_lengths_do_not_weigh_in_reinforce_pp():  # 1 and 0: one value for each trajectory
    assert made("reinforce_pp", unequal()) == pytest.approx([HALF, HALF, HALF, -HALF], abs=CLOSE)


def test_every_turn_of_a_long_trajectory_has_the_same_grpo():
    assert made("grpo", unequal()) == pytest.approx([HALF, HALF, HALF, -HALF], abs=CLOSE)


def test_grpo_ignores_the_size_of_outcomes():
    # 100, 100, 400: mean 200, deviations -100, -100, 200, variance 60000 / 2, std 173.205
    turns = batch([1, 1, 1], [100.0, 100.0, 400.0], [0, 0, 0])
    assert made("grpo", turns) == pytest.approx([-0.57735, -0.57735, 1.154701], abs=CLOSE)


def test_dr_grpo_keeps_the_size_of_outcomes():  # mean 200
    turns = batch([1, 1, 1], [100.0, 100.0, 400.0], [0, 0, 0])
    assert made("dr_grpo", turns) == pytest.approx([-100.0, -100.0, 200.0])


def test_rloo_keeps_the_size_of_outcomes():
    # the others of the first have the mean (100 + 400) / 2 = 250, those of the last 100
    turns = batch([1, 1, 1], [100.0, 100.0, 400.0], [0, 0, 0])
    assert made("rloo", turns) == pytest.approx([-150.0, -150.0, 300.0])


def test_loop_has_the_advantage_of_rloo():  # 1 - 0 and 0 - 1
    assert made("loop", unequal()) == pytest.approx([1.0, 1.0, 1.0, -1.0])


def test_a_negative_outcome_in_rloo():  # -1 - 3 and 3 - (-1)
    assert made("rloo", batch([1, 1], [-1.0, 3.0], [0, 0])) == pytest.approx([-4.0, 4.0])


def test_turn_rewards_revive_a_dead_group_in_grpo_mr():
    # 1 + (0.5 + 0.5) = 2 and 1 + 0 = 1
    assert made("grpo_mr", dead(**implicit(0.5, 0.5, 0.0))) == pytest.approx(
        [HALF, HALF, -HALF], abs=CLOSE
    )


# the return from a turn on


def test_turn_rloo_counts_ended_trajectories_as_zero():
    # all return 1. First turns: 1 - (1 + 1) / 2 = 0. Only the last has a second turn: 1 - 0 = 1
    turns = batch([1, 1, 2], [1.0, 1.0, 1.0], [0, 0, 0])
    assert made("turn_rloo", turns) == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_turn_rloo_of_paid_turns():
    # returns 2 + 1 = 3, 1 | 1. First turns: 3 - 1 = 2, 1 - 3 = -2. Second turn: 1 - 0
    turns = batch([2, 1], [0.0, 0.0], [0, 0], reward=[2.0, 1.0, 1.0])
    assert made("turn_rloo", turns) == pytest.approx([2.0, 1.0, -2.0])


def test_a_single_trajectory_has_no_turn_rloo():
    assert made("turn_rloo", batch([2], [5.0], [0], reward=[1.0, 2.0])) == pytest.approx([0, 0])


def test_a_discount_favours_the_short_trajectory_of_a_dead_group_in_kevin():
    # returns 0.5, 1 | 1: mean 5/6, deviations -1/3, 1/6, 1/6, variance (1/9 + 2/36) / 2 = 1/12
    found = made("kevin", dead(), gamma=0.5)
    assert found == pytest.approx([-(12**0.5) / 3, 12**0.5 / 6, 12**0.5 / 6], abs=CLOSE)


def test_kevin_of_unequal_lengths():  # returns 0.25, 0.5, 1 | 0: mean 0.4375
    # deviations -0.1875, 0.0625, 0.5625, -0.4375: squares sum to 0.546875, / 3 = 0.182292
    std = (0.546875 / 3) ** 0.5
    expected = [-0.1875 / std, 0.0625 / std, 0.5625 / std, -0.4375 / std]
    assert made("kevin", unequal(), gamma=0.5) == pytest.approx(expected, abs=CLOSE)


def test_the_largest_score_in_kevin():
    # scores 2, 1 | 0, discount 0.5: max(2, 0.5) = 2, 1 | 0: mean 1, deviation 1
    turns = batch([2, 1], [1.0, 0.0], [0, 0], reward=[2.0, 0.0, 0.0])
    assert made("kevin", turns, gamma=0.5, returns="max") == pytest.approx(
        [1.0, 0.0, -1.0], abs=CLOSE
    )


# states


def test_a_discount_favours_the_short_way_of_a_dead_group_in_gigpo():
    # returns 0.5, 1 | 1; in state s 0.5 and 1, state t once; outcomes are equal
    found = made("gigpo", dead(anchor=["s", "t", "s"]), gamma=0.5)
    assert found == pytest.approx([-HALF, 0.0, HALF], abs=CLOSE)


def test_a_single_trajectory_that_returns_to_a_state_in_gigpo():
    # returns 0.25, 0.5, 1; state s has 0.25 and 0.5; a group of one outcome gives 0
    turns = batch([3], [1.0], [0], anchor=["s", "s", "t"])
    assert made("gigpo", turns, gamma=0.5) == pytest.approx([-HALF, HALF, 0.0], abs=CLOSE)


def test_long_trajectories_weigh_more_with_the_baseline_of_steps_in_gigpo():
    # outcomes of turns 1, 1, 1, 0: mean 0.75, variance (3/16 + 9/16) / 3 = 0.25, std 0.5
    found = made("gigpo", unequal(), baseline="step")
    assert found == pytest.approx([0.5, 0.5, 0.5, -1.5], abs=CLOSE)


def test_two_places_with_one_anchor_are_compared_in_gigpo():
    # returns 1, 1 | 0, 0; "a": 1, 1, 0 with mean 2/3; "b" once. Outcomes 1 and 0: +-1/2
    turns = batch([2, 2], [1.0, 0.0], [0, 0], anchor=["a", "a", "a", "b"])
    found = made("gigpo", turns, gamma=1.0, mode="mean_norm")
    assert found == pytest.approx([1 / 2 + 1 / 3, 1 / 2 + 1 / 3, -1 / 2 - 2 / 3, -1 / 2])


def test_similar_texts_are_one_state_in_gigpo():
    # "a red lamp" and "a red lamb" share 9 of 10 letters: 0.9; returns 1 and 0. 2 (+-1/sqrt(2))
    turns = batch([1, 1], [1.0, 0.0], [0, 0], anchor=["a red lamp", "a red lamb"])
    assert made("gigpo", turns, anchors="similar") == pytest.approx(
        [2 * HALF, -2 * HALF], abs=CLOSE
    )
    assert made("gigpo", turns) == pytest.approx([HALF, -HALF], abs=CLOSE)


def test_stapo_has_the_advantage_of_a_weighted_gigpo():
    # returns in state s 0.5 and 1: -+1/sqrt(2), half of it; outcomes are equal
    turns = dead(anchor=["s", "t", "s"])
    assert made("stapo", turns, gamma=0.5, omega=0.5) == pytest.approx(
        [-HALF / 2, 0.0, HALF / 2], abs=CLOSE
    )


def test_rewards_revive_a_dead_group_in_hgpo():  # returns 1.5 and 1 in one state: +-1, ddof 0
    turns = batch([1, 1], [1.0, 1.0], [0, 0], anchor=["s", "s"], reward=[0.5, 0.0])
    assert made("hgpo", turns) == pytest.approx([1.0, -1.0], abs=CLOSE)


def test_hgpo_of_unequal_lengths():  # state s: returns 0.5 and 0; t occurs once: 0
    turns = batch([2, 1], [1.0, 0.0], [0, 0], anchor=["s", "t", "s"])
    assert made("hgpo", turns, gamma=0.5) == pytest.approx([1.0, 0.0, -1.0], abs=CLOSE)


def test_a_history_of_equal_returns_counts_nothing_in_hgpo():
    # in c after a 1 and 1, in c after b 0 and 0: level 1 is left out. Level 0: 1, 1, 0, 0: +-1
    turns = batch([2] * 4, [1.0, 1.0, 0.0, 0.0], [0] * 4, anchor=["a", "c"] * 2 + ["b", "c"] * 2)
    found = made("hgpo", turns, gamma=1.0, levels=1)
    assert found == pytest.approx([0.0, 1.0, 0.0, 1.0, 0.0, -1.0, 0.0, -1.0], abs=CLOSE)


def test_rtmc_of_actions_in_one_state():
    # Q(a) = (1 + 0) / 2, Q(b) = 0, V = (1 + 0 + 0) / 3
    turns = batch([1, 1, 1], [1.0, 0.0, 0.0], [0] * 3, anchor=["s"] * 3, action=["a", "a", "b"])
    assert made("rtmc", turns, prior=0.0) == pytest.approx([1 / 6, 1 / 6, -1 / 3])


def test_the_prior_draws_a_state_to_the_mean_outcome_in_rtmc():
    # v_0 = 1/3; V = (1 + 0 + 0 + 3/3) / (3 + 3) = 1/3: as without a prior, as all start there
    turns = batch([1, 1, 1], [1.0, 0.0, 0.0], [0] * 3, anchor=["s"] * 3, action=["a", "a", "b"])
    assert made("rtmc", turns, prior=3.0) == pytest.approx([1 / 6, 1 / 6, -1 / 3])


def test_the_prior_in_a_rare_state_in_rtmc():
    # outcomes 1, 0: v_0 = 1/2. Each state once, Q = 1 and 0; V = (1 + 1/2) / 2 = 3/4 and 1/4
    turns = batch([1, 1], [1.0, 0.0], [0, 0])
    assert made("rtmc", turns, prior=1.0) == pytest.approx([1 / 4, -1 / 4])


def test_only_the_first_visit_counts_in_rtmc():
    # returns 0.5, 1 | 0. Q(a) = 0.5, of the first visit; Q(b) = 0; V = 0.25
    turns = batch([2, 1], [1.0, 0.0], [0, 0], anchor=["s"] * 3, action=["a", "a", "b"])
    assert made("rtmc", turns, prior=0.0, gamma=0.5) == pytest.approx([0.25, 0.25, -0.25])


def test_a_discount_favours_the_short_way_of_a_dead_group_in_rtmc():
    # returns 0.5, 1 | 1; in s Q(x) = 0.5, Q(y) = 1, V = 0.75; t has one action
    turns = dead(anchor=["s", "t", "s"], action=["x", "x", "y"])
    assert made("rtmc", turns, prior=0.0, gamma=0.5) == pytest.approx([-0.25, 0.0, 0.25])


# the rewards of turns


def test_turn_rewards_revive_a_dead_group_in_mt_grpo():
    # first turns 3 and 0: +-1/sqrt(2); last turns have the outcome's advantage, 0
    turns = batch([2, 2], [1.0, 1.0], [0, 0], **implicit(3.0, 9.0, 0.0, 9.0))
    assert made("mt_grpo", turns) == pytest.approx([HALF, 0.0, -HALF, 0.0], abs=CLOSE)


def test_mt_grpo_of_unequal_lengths():
    # A^O +-1/sqrt(2). First turns 0 and 1: -1/sqrt(2) + A^O = 0; the second is alone: A^O
    found = made("mt_grpo", unequal(**implicit(0.0, 1.0, 0.0, 1.0)))
    assert found == pytest.approx([0.0, HALF, HALF, -HALF], abs=CLOSE)


def test_mt_rloo_of_unequal_lengths():
    # A^O = 1, -1. First turns 0 and 4: -4 + 1; the second turn is alone: 0 + 1
    found = made("mt_rloo", unequal(**implicit(0.0, 1.0, 0.0, 4.0)))
    assert found == pytest.approx([-3.0, 1.0, 1.0, -1.0])


def test_a_trajectory_without_a_call_in_the_code_of_mt_rloo():
    # A^O = 1, -1. First turns 1 and 3: -2, so 1 + (-2). The second trajectory has one turn and
    # merges: totals 1 + 1 = 2 and 0 + 3 = 3, so 3 - 2
    turns = batch([2, 1], [1.0, 0.0], [0, 0], **implicit(1.0, 0.0, 3.0))
    assert made("mt_rloo", turns, variant="code") == pytest.approx([-1.0, 1.0, 1.0])


def test_turns_in_one_state_are_compared_by_mt_rloo():
    # state s: 2 and 0 at positions 0 and 1: 2 - 0 and 0 - 2; t: 5 and 7 are last turns. A^O = 0
    turns = batch([2, 2], [1.0, 1.0], [0, 0], anchor=list("stus"), **implicit(2.0, 5.0, 1.0, 0.0))
    assert made("mt_rloo", turns, normalize="anchor") == pytest.approx([2.0, 0.0, 0.0, 0.0])


def test_implicit_rewards_revive_a_dead_group_in_istar():  # 2 and 0: +-1/sqrt(2)
    turns = batch([1, 1], [1.0, 1.0], [0, 0], **implicit(2.0, 0.0))
    assert made("istar", turns) == pytest.approx([HALF, -HALF], abs=CLOSE)


def test_the_largest_reward_of_the_batch_scales_istar():
    # group 0: 2, 0, centered +-1, over 4: +-1/4; group 1: 4, 0, centered +-2: +-1/2
    turns = batch([1] * 4, [1.0] * 4, [0, 0, 1, 1], **implicit(2.0, 0.0, 4.0, 0.0))
    assert made("istar", turns, scale="max") == pytest.approx([0.25, -0.25, 0.5, -0.5])


def test_istar_of_unequal_lengths():  # rewards 1, 2 | 3: -1, 0, 1; outcomes 1, -1
    turns = batch([2, 1], [1.0, 0.0], [0, 0], **implicit(1.0, 2.0, 3.0))
    assert made("istar", turns, base="rloo") == pytest.approx([0.0, 1.0, 0.0], abs=CLOSE)


def test_merged_rewards_in_istar():  # 1 + 1 + 2 = 4 and 0 + 3: 4 - 3, 3 - 4
    turns = batch([2, 1], [1.0, 0.0], [0, 0], **implicit(1.0, 2.0, 3.0))
    assert made("istar", turns, base="rloo", variant="merged") == pytest.approx([1.0, 1.0, -1.0])


def test_prime_of_unequal_lengths():
    # means of rewards 2 and 5. 1 - 5, 3 - 5 | 5 - 2: to the end -6, -2 | 3; outcomes 1, -1
    turns = batch([2, 1], [1.0, 0.0], [0, 0], **implicit(1.0, 3.0, 5.0))
    assert made("prime", turns) == pytest.approx([-5.0, -1.0, 2.0])


def test_a_discount_in_prime():  # -4 + 0.5 (-2), -2 | 3; outcomes 1, -1
    turns = batch([2, 1], [1.0, 0.0], [0, 0], **implicit(1.0, 3.0, 5.0))
    assert made("prime", turns, gamma=0.5) == pytest.approx([-4.0, -1.0, 2.0])


# validity, progress, entropy, and what is known of the answer


def test_mgr_of_unequal_lengths():
    # local 1, -1 - 0.1, 1 + 0.1 | 1; global 1, -1; without a gate conflicts keep the local sign
    turns = unequal(valid=[True, False, True, True])
    assert made("mgr", turns, gate="none") == pytest.approx([1.0, -1.1, 1.1, 1.0])


def test_repeated_actions_in_mgr():  # of the third 1 - 0.5, of the fourth 1 - 2 (0.5) = 0
    turns = batch([4, 1], [1.0, 0.0], [0, 0], action=["a", "a", "a", "a", "b"])
    assert made("mgr", turns, gate="none") == pytest.approx([1.0, 1.0, 0.5, 0.0, 1.0])


def test_a_dead_group_in_mgr():  # the global reward is 0
    turns = dead(valid=[True, False, True])
    assert made("mgr", turns, gate="none") == pytest.approx([0.0, 0.0, 0.0])


def test_progress_revives_a_dead_group_in_has():
    # gains 0.2 and 0.4 of the first turns: -+1/sqrt(2), half of it; the second turn is alone
    assert made("has", dead(progress=[0.2, 1.0, 0.4])) == pytest.approx(
        [-HALF / 2, 0.0, HALF / 2], abs=CLOSE
    )


def test_lost_progress_in_has():  # gains 0.5 and -0.5 over the group: +-1/sqrt(2)
    turns = batch([2], [0.0], [0], progress=[0.5, 0.0])
    assert made("has", turns, alpha=0.0, normalize="group") == pytest.approx(
        [HALF, -HALF], abs=CLOSE
    )


def test_a_projection_spreads_the_excess_over_the_turns():
    # 1 + 1 = 2 is 1 above R = 1: 1/2 less each; 0.5 is 0.5 above R = 0
    turns = batch([2, 1], [1.0, 0.0], [0, 0])
    assert has.project([1.0, 1.0, 0.5], turns) == pytest.approx([0.5, 0.5, 0.0])


def test_long_trajectories_weigh_more_in_the_mean_of_empg():
    # without weights and bonus: 3 (1/sqrt(2)) - 1/sqrt(2) = sqrt(2), / 4 = 0.353553
    turns = unequal(entropy=[0.5, 0.1, 0.2, 0.9])
    found = made("empg", turns, k=0.0, zeta=0.0)
    assert found == pytest.approx([HALF - 0.353553] * 3 + [-HALF - 0.353553], abs=CLOSE)


def test_a_dead_group_has_the_bonus_of_empg():
    # the entropy after the first turn is the largest, 1: 0.05 / e = 0.018394; mean 0.006131
    found = made("empg", dead(entropy=[0.0, 2.0, 2.0]))
    assert found == pytest.approx([0.012263, -0.006131, -0.006131], abs=CLOSE)


def test_gains_revive_a_dead_group_in_igpo():
    # gain 0.5 - 0.2 = 0.3, outcomes 1 | 1: mean 2.3/3, deviations -1.4/3, 0.7/3, 0.7/3, ddof 0:
    # std sqrt(2.94/27) = 0.329983: -sqrt(2), 1/sqrt(2), 1/sqrt(2); the first adds the second
    found = made("igpo", dead(gold_logprob=np.log([0.2, 0.5, 0.5])))
    assert found == pytest.approx([HALF - 2**0.5, HALF, HALF], abs=CLOSE)


def test_igpo_of_unequal_lengths():
    # gains 0.1, 0.3: -1, 1; outcomes 1 | 0: 1, -1. To the end: -1 + 1 + 1, 1 + 1, 1 | -1
    turns = unequal(gold_logprob=np.log([0.2, 0.3, 0.6, 0.5]))
    assert made("igpo", turns, mode="separate") == pytest.approx([1.0, 2.0, 1.0, -1.0], abs=CLOSE)


def test_gains_of_log_probabilities_in_igpo():
    # gains -1 - (-2) = 1 and 0 - (-1) = 1 are equal: 0; outcomes 1, -1
    turns = unequal(gold_logprob=[-2.0, -1.0, 0.0, -3.0])
    found = made("igpo", turns, mode="separate", gain="log_prob_diff")
    assert found == pytest.approx([1.0, 1.0, 1.0, -1.0], abs=CLOSE)


def test_trace_of_unequal_lengths():
    # b - l = e^2, e, 1 | 1: gains 1, 1. Means (1 + 0.5) / 1.5 and 1. A^O = 1, -1; the end adds
    # 2 (0.5^2) to the first turn and 2 (0.5) to the second
    turns = unequal(gold_logprob=[1 - math.e**2, 1 - math.e, 0.0, 0.0])
    found = made("trace", turns, omega=1.0, horizon=2, decay=0.5, offset=1.0)
    assert found == pytest.approx([1 + 1 + 0.5, 1 + 1 + 1, 1.0, -1.0], abs=CLOSE)


def test_gains_revive_a_dead_group_in_trace():  # the gain log(e / 1) = 1, weight 0.2; A^O = 0
    turns = dead(gold_logprob=[1 - math.e, 0.0, 0.0])
    assert made("trace", turns, offset=1.0) == pytest.approx([0.2, 0.0, 0.0], abs=CLOSE)


@pytest.mark.parametrize("name", ["hgpo", "igpo", "kevin", "rtmc", "trace"])
def test_a_group_of_one_trajectory_gets_zero(name):
    turns = batch([2], [1.0], [0], anchor=["s", "s"], gold_logprob=[-2.0, -1.0])
    assert made(name, turns) == pytest.approx([0.0, 0.0])


# terms, statistics and scores


def test_entropies_of_states():  # 1 and 3 in one state: -+1/sqrt(2); a state that occurs once
    entropy, states = [1.0, 3.0, 5.0], [0, 0, 1]
    assert stapo.normalized_entropy(entropy, states) == pytest.approx([-HALF, HALF, 0.0], abs=CLOSE)
    raw = stapo.normalized_entropy(entropy, states, singleton="raw")
    assert raw == pytest.approx([-HALF, HALF, 5.0], abs=CLOSE)


def test_fences_of_five_values():  # quartiles 1 and 3: 1 - 1.5 (2) and 3 + 1.5 (2)
    assert stapo.fences([0.0, 1.0, 2.0, 3.0, 100.0]) == pytest.approx((-2.0, 6.0))


def test_returns_of_rows_that_are_not_sorted():  # 1 + 0.5 (4), 2, 4
    found = stats.discounted_returns([1.0, 2.0, 4.0], [0, 1, 0], 0.5)
    assert found == pytest.approx([3.0, 2.0, 4.0])


def test_segments_of_unequal_sizes():
    # 1, 3, 5: mean 3, others 4, 3, 2; 10, 20: others 20, 10; 7 alone
    found = stats.leave_one_out([1.0, 10.0, 3.0, 7.0, 5.0, 20.0], [0, 1, 0, 2, 0, 1])
    assert found == pytest.approx([-3.0, -10.0, 0.0, 0.0, 3.0, 10.0])


def test_advantages_at_the_tokens_of_records():
    # outcomes 1 and 0: 1 - 0 at tokens 1 and 2 of the first row, 0 - 1 at token 0 of the second
    def episode(outcome, span):
        facts = {"task_id": "t", "goal": "g", "step": 0, "action": "a", "anchor": "s"}
        return [TurnRecord(**facts, valid=True, outcome=outcome, span=span)]

    episodes = [episode(1.0, (1, 3)), episode(0.0, (0, 1))]
    mask = np.array([[0, 1, 1], [1, 0, 0]])
    found = token_advantages(credit.RLOO(), episodes, ["u", "u"], mask)
    assert found == pytest.approx(np.array([[0.0, 1.0, 1.0], [-1.0, 0.0, 0.0]]))


def test_equal_rows_count_once_in_a_group():
    # two copies of a row of the success: outcomes 1 and 0, not 1, 1 and 0
    rows = credit.rows(
        uid=["u"] * 3, trajectory=["x", "x", "y"], step=[0, 0, 0], outcome=[1.0, 1.0, 0.0]
    )
    found = rows.advantage(credit.estimate(credit.DrGRPO(), rows.turns))
    assert found == pytest.approx([0.5, 0.5, -0.5])


# what is not finite
