"""Methods by hand in dead groups. Two different values are ±`HALF` deviations from their mean."""

import math

import numpy as np
import pytest

import credit
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


def test_other_groups_give_a_dead_group_signal_in_reinforce_pp():
    # outcomes 1, 1 | 0, 0: mean 1/2, variance 4 (1/4) / 3 = 1/3, 0.5 / sqrt(1/3) = sqrt(3) / 2
    turns = batch([1, 1, 1, 1], [1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1])
    root = 3**0.5 / 2
    assert made("reinforce_pp", turns) == pytest.approx([root, root, -root, -root], abs=CLOSE)


def test_loop_has_the_advantage_of_rloo():  # 1 - 0 and 0 - 1
    assert made("loop", unequal()) == pytest.approx([1.0, 1.0, 1.0, -1.0])


def test_turn_rewards_revive_a_dead_group_in_grpo_mr():
    # 1 + (0.5 + 0.5) = 2 and 1 + 0 = 1
    assert made("grpo_mr", dead(**implicit(0.5, 0.5, 0.0))) == pytest.approx(
        [HALF, HALF, -HALF], abs=CLOSE
    )


def test_stapo_has_the_advantage_of_a_weighted_gigpo():
    # returns in state s 0.5 and 1: -+1/sqrt(2), half of it; outcomes are equal
    turns = dead(anchor=["s", "t", "s"])
    assert made("stapo", turns, gamma=0.5, omega=0.5) == pytest.approx(
        [-HALF / 2, 0.0, HALF / 2], abs=CLOSE
    )


def test_rewards_revive_a_dead_group_in_hgpo():  # returns 1.5 and 1 in one state: +-1, ddof 0
    turns = batch([1, 1], [1.0, 1.0], [0, 0], anchor=["s", "s"], reward=[0.5, 0.0])
    assert made("hgpo", turns) == pytest.approx([1.0, -1.0], abs=CLOSE)


# the rewards of turns


def test_turn_rewards_revive_a_dead_group_in_mt_grpo():
    # first turns 3 and 0: +-1/sqrt(2); last turns have the outcome's advantage, 0
    turns = batch([2, 2], [1.0, 1.0], [0, 0], **implicit(3.0, 9.0, 0.0, 9.0))
    assert made("mt_grpo", turns) == pytest.approx([HALF, 0.0, -HALF, 0.0], abs=CLOSE)


def test_implicit_rewards_revive_a_dead_group_in_istar():  # 2 and 0: +-1/sqrt(2)
    turns = batch([1, 1], [1.0, 1.0], [0, 0], **implicit(2.0, 0.0))
    assert made("istar", turns) == pytest.approx([HALF, -HALF], abs=CLOSE)


def test_a_dead_group_in_mgr():  # the global reward is 0
    turns = dead(valid=[True, False, True])
    assert made("mgr", turns, gate="none") == pytest.approx([0.0, 0.0, 0.0])


def test_progress_revives_a_dead_group_in_has():
    # gains 0.2 and 0.4 of the first turns: -+1/sqrt(2), half of it; the second turn is alone
    assert made("has", dead(progress=[0.2, 1.0, 0.4])) == pytest.approx(
        [-HALF / 2, 0.0, HALF / 2], abs=CLOSE
    )


def test_a_dead_group_has_the_bonus_of_empg():
    # the entropy after the first turn is the largest, 1: 0.05 / e = 0.018394; mean 0.006131
    found = made("empg", dead(entropy=[0.0, 2.0, 2.0]))
    assert found == pytest.approx([0.012263, -0.006131, -0.006131], abs=CLOSE)


def test_gains_revive_a_dead_group_in_igpo():
    # gain 0.5 - 0.2 = 0.3, outcomes 1 | 1: mean 2.3/3, deviations -1.4/3, 0.7/3, 0.7/3, ddof 0:
    # std sqrt(2.94/27) = 0.329983: -sqrt(2), 1/sqrt(2), 1/sqrt(2); the first adds the second
    found = made("igpo", dead(gold_logprob=np.log([0.2, 0.5, 0.5])))
    assert found == pytest.approx([HALF - 2**0.5, HALF, HALF], abs=CLOSE)


def test_gains_revive_a_dead_group_in_trace():  # the gain log(e / 1) = 1, weight 0.2; A^O = 0
    turns = dead(gold_logprob=[1 - math.e, 0.0, 0.0])
    assert made("trace", turns, offset=1.0) == pytest.approx([0.2, 0.0, 0.0], abs=CLOSE)


def test_advantages_at_the_tokens_of_records():
    # outcomes 1 and 0: 1 - 0 at tokens 1 and 2 of the first row, 0 - 1 at token 0 of the second
    def episode(outcome, span):
        facts = {"task_id": "t", "goal": "g", "step": 0, "action": "a", "anchor": "s"}
        return [TurnRecord(**facts, valid=True, outcome=outcome, span=span)]

    episodes = [episode(1.0, (1, 3)), episode(0.0, (0, 1))]
    mask = np.array([[0, 1, 1], [1, 0, 0]])
    found = token_advantages(credit.RLOO(), episodes, ["u", "u"], mask)
    assert found == pytest.approx(np.array([[0.0, 1.0, 1.0], [-1.0, 0.0, 0.0]]))
