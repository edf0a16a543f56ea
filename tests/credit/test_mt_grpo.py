"""MT-GRPO and MT-RLOO: Eq. 9-13 worked by hand, the authors' variant, both normalizations."""

import numpy as np
import pytest
from hypothesis import given

import credit
from credit.methods.mt_grpo import MTGRPO, MTRLOO
from tests.credit.batches import batch, batches

# two turns each; R^T = 0.7, 0.2 on the first turns; R^O = 1.9, 0.5. Two values standardize to
# +-1/sqrt(2): (0.7 - 0.45) / (0.5 / sqrt(2))
HALF = 0.5**0.5


def two(**columns):
    return batch(
        [2, 2],
        [1.9, 0.5],
        [0, 0],
        turn_reward=[[0.2, 0.5], [0, 0], [0.2, 0.0], [0, 0]],
        turn_reward_names=("tool_execution", "result_has_answer"),
        **columns,
    )


def test_two_turns():  # first turn 1/sqrt(2) + lam / sqrt(2), last turn 1/sqrt(2)
    assert MTGRPO()(two()) == pytest.approx([2 * HALF, HALF, -2 * HALF, -HALF], abs=1e-5)
    assert MTGRPO(lam=0.5)(two()) == pytest.approx([1.5 * HALF, HALF, -1.5 * HALF, -HALF], abs=1e-5)


def test_leave_one_out():  # A^T = 0.7 - 0.2 = 0.5, A^O = 1.9 - 0.5 = 1.4
    assert MTRLOO()(two()) == pytest.approx([1.9, 1.4, -1.9, -1.4])
    assert MTRLOO(lam=2.0)(two()) == pytest.approx([3.3, 1.4, -3.3, -1.4])


def test_code_weights_the_turn_and_has_a_larger_eps():
    # A^O + lam A^T = 1.4 + 2 * 0.5; 0.25 / (0.35355 + 1e-4) + 0.7 / (0.98995 + 1e-4)
    assert MTRLOO(lam=2.0, variant="code")(two()) == pytest.approx([2.4, 1.4, -2.4, -1.4])
    first = MTGRPO(variant="code")(two())[0]
    assert first == pytest.approx(0.25 / 0.3536534 + 0.7 / 0.9900495, abs=1e-6)


def test_no_tool_called_gets_the_merged_advantage_in_code():
    # merged rewards 1.0 + 0.1 = 1.1 of the trajectory of one turn and 0.5 + 0.4 = 0.9: 1.1 - 0.9
    # for the first; A^T = 0.4 - 0.1 = 0.3 and A^O = 0.5 - 1 for the other
    turns = batch(
        [1, 2], [1.0, 0.5], [0, 0], turn_reward=[[0.1], [0.4], [0.0]], turn_reward_names=("t",)
    )
    assert MTRLOO(variant="code")(turns) == pytest.approx([0.2, -0.5 + 0.3, -0.5])
    assert MTRLOO()(turns) == pytest.approx([0.5, 0.3 - 0.5, -0.5])


def test_more_turns_compare_positions():
    # position 0 has rewards 0, 0, 6: 0 - 3, 0 - 3, 6 - 0
    turns = batch(
        [3, 3, 2],
        [1.0, 1.0, 1.0],
        [0, 0, 0],
        turn_reward=np.array([[0, 3, 9, 0, 1, 9, 6, 5]]).T,
        turn_reward_names=("t",),
    )
    # position 1 has 3, 1, 5: 3 - 3 and 1 - 4; the 5 is of a last turn. Last turns get A^O = 0
    assert MTRLOO()(turns) == pytest.approx([-3, 0, 0, -3, -3, 0, 6, 0])


def test_anchors():  # state a: 1 - 3 and 3 - 1, state b: 2 - 5 and 5 - 2; outcomes +1 and -1
    columns = {"turn_reward_names": ("t",), "anchor": ["a", "b", "x", "a", "b", "y"]}
    both = batch([3, 3], [1.0, 0.0], [0, 0], turn_reward=[[1], [2], [0], [3], [5], [0]], **columns)
    assert MTRLOO(normalize="anchor")(both) == pytest.approx([-1, -2, 1, 1, 2, -1])


def test_merged_grpo():  # 1.9 + 0.7 = 2.6 and 0.5 + 0.2 = 0.7
    assert credit.make("grpo_mr")(two()) == pytest.approx([HALF, HALF, -HALF, -HALF], abs=1e-5)
    assert credit.make("grpo_or")(two()).tolist() == credit.make("grpo")(two()).tolist()
    # merging can reverse the order: 1 + 0 and 0 + 3
    turns = batch([1, 1], [1.0, 0.0], [0, 0], turn_reward=[[0], [3]], turn_reward_names=("t",))
    assert credit.make("grpo_mr")(turns) == pytest.approx([-HALF, HALF], abs=1e-5)


@pytest.mark.slow
@given(batches())
def test_equal_turn_rewards_leave_the_outcome_alone(turns):
    same = batch(
        np.bincount(turns.trajectory).tolist(),
        turns.outcome.tolist(),
        turns.group.tolist(),
        turn_reward=np.full((len(turns), 1), 0.1),
        turn_reward_names=("t",),
    )
    assert MTGRPO()(same) == pytest.approx(credit.make("grpo")(same))
    assert MTRLOO()(same) == pytest.approx(credit.make("rloo")(same))
