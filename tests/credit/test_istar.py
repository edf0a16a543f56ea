"""iStar and PRIME: numbers worked by hand, reductions, refusals."""

import numpy as np
import pytest
from hypothesis import given

import credit
from credit.methods.istar import IStar, Prime
from tests.credit.batches import batch, batches

HALF = 0.5**0.5


def with_rewards(rewards, lengths=(2, 1), outcomes=(1.0, 0.0), **columns):
    return batch(
        list(lengths),
        list(outcomes),
        [0] * len(lengths),
        turn_reward=np.reshape(rewards, (-1, 1)),
        turn_reward_names=("implicit",),
        **columns,
    )


def test_istar_by_hand():  # rewards 1, 2, 3: -1, 0, 1 standard deviations in the group
    turns = with_rewards([1, 2, 3])
    expected = [HALF - 1, HALF, -HALF + 1]
    assert IStar()(turns) == pytest.approx(expected, abs=1e-5)
    assert IStar(alpha=0.5)(turns) == pytest.approx([HALF - 0.5, HALF, -HALF + 0.5], abs=1e-5)
    assert IStar(base="rloo")(turns) == pytest.approx([0, 1, 0], abs=1e-5)


def test_variants():  # merged, 1 + 0.25 + 0.25 = 1.5 and 0 + 3.5: leave-one-out -2 and 2
    turns = with_rewards([0.25, 0.25, 3.5])
    assert IStar(variant="merged", base="rloo")(turns) == pytest.approx([-2, -2, 2])
    assert IStar(variant="merged")(turns) == pytest.approx([-HALF, -HALF, HALF], abs=1e-5)
    # the environment pays 3 and 2 (of outcome 5), and 1: 1, 0, -1 deviations, leave-one-out 4, -4
    turns = with_rewards([0, 0, 0], outcomes=(5.0, 1.0), reward=[3.0, -3.0, 0.0])
    assert IStar(variant="environment", base="rloo")(turns) == pytest.approx([5, 4, -5], abs=1e-5)


def test_tokens():  # two tokens on turn 0, one on turn 2; rewards 0, 1, 2: -1, 0, 1 deviations
    turns = with_rewards([0, 0, 0])
    for alpha, expected in ((1, [0, 1, 0]), (0.5, [0.5, 1, -0.5])):
        method = IStar(alpha=alpha, base="rloo")
        advantage = method.token_advantage(turns, [0.0, 1.0, 2.0], [0, 0, 2])
        assert advantage == pytest.approx(expected, abs=1e-5)


def test_the_largest_reward_of_the_batch_as_scale():
    # means 2 and 4.5 in the two groups, divided by 5; outcomes 1, 1, -1 and 0, 0
    turns = batch(
        [2, 1, 1, 1],
        [1.0, 0.0, 1.0, 1.0],
        [0, 0, 1, 1],
        turn_reward=[[1], [2], [3], [-4], [-5]],
        turn_reward_names=("implicit",),
    )
    found = IStar(base="rloo", scale="max")(turns)
    assert found == pytest.approx([1 - 0.2, 1, -1 + 0.2, 0.1, -0.1])
    tokens = IStar(base="rloo", scale="max").token_advantage(turns, [1.0, 2, 3, -4, -5], range(5))
    assert tokens == pytest.approx(found)
    assert IStar(base="rloo", scale="max").advantage(turns, np.zeros(5)).tolist() == [
        1,
        1,
        -1,
        0,
        0,
    ]


@given(batches())
def test_equal_models_give_the_base_method(turns):
    none = np.zeros(len(turns))
    for base in ("grpo", "rloo", "reinforce_pp"):
        plain = credit.make(base)(turns).tolist()
        assert IStar(base=base).advantage(turns, none).tolist() == plain
        assert IStar(base=base, variant="merged").advantage(turns, none).tolist() == plain


def test_prime_by_hand():
    # mean rewards 1.5 and 3, so that the baselines are 3 and 1.5. Relative rewards 1 - 3, 2 - 3 and
    # 3 - 1.5; returns-to-go -3, -1 and 1.5 (gamma 0.5: -2.5). Outcomes: leave-one-out +1 and -1
    assert Prime()(with_rewards([1, 2, 3])) == pytest.approx([-2, 0, 0.5])
    assert Prime(gamma=0.5)(with_rewards([1, 2, 3])) == pytest.approx([-1.5, 0, 0.5])
    # alone in its group
    assert Prime()(with_rewards([1, 2], lengths=[2], outcomes=[1.0])) == pytest.approx([0, 0])
    # the second turn is invalid: rows of 1, 0.9 and 0 are 0.55, 0.4 and -0.95 above the others
    turns = with_rewards([1, 2, 3], valid=[True, False, True])
    assert Prime(row_penalty=0.1)(turns) == pytest.approx([-2.45, -0.6, 0.55])
