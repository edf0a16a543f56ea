"""Trajectory-level methods: numbers worked by hand, and relations."""

import numpy as np
import pytest

import credit
from credit.filters import has_signal
from credit.turns import MissingColumn
from tests.credit.batches import batch


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # group 3 has outcomes 1, 0, 0 (mean 1/3), group 8 has 1, 1
        ("reinforce", [1, 1, 0, 0, 1, 1]),
        ("dr_grpo", [2 / 3, 2 / 3, -1 / 3, -1 / 3, 0, 0]),
        # variance (4/9 + 1/9 + 1/9) / 2 = 1/3: deviations times sqrt(3)
        ("grpo", [1.1547005, 1.1547005, -0.5773503, -0.5773503, 0, 0]),
        # 1 - 0, and 0 - 1/2 for both failures
        ("rloo", [1, 1, -0.5, -0.5, 0, 0]),
        ("loop", [1, 1, -0.5, -0.5, 0, 0]),
        # whole batch 1, 0, 0, 1, 1: mean 3/5, variance (3 * 4/25 + 2 * 9/25) / 4 = 3/10
        ("reinforce_pp", [0.7302967, 0.7302967, -1.0954451, -1.0954451, 0.7302967, 0.7302967]),
    ],
)
def test_worked_numbers(name, expected):
    turns = batch([2, 1, 1, 1, 1], [1.0, 0.0, 0.0, 1.0, 1.0], [3, 3, 3, 8, 8])
    assert credit.make(name)(turns) == pytest.approx(expected, abs=2e-6)


def make_rows(valid, outcome=(1.0, 1.0), **columns):
    """Two trajectories of two turns."""
    return batch([2, 2], list(outcome), [0, 0], valid=valid, **columns)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # rows 1, 0.9, 1, 1: mean 0.975, variance (3 * 0.025² + 0.075²) / 3 = 0.05²
        ("grpo", [0.5, -1.5, 0.5, 0.5]),
        ("grpo_or", [0.5, -1.5, 0.5, 0.5]),
        ("reinforce_pp", [0.5, -1.5, 0.5, 0.5]),
        ("dr_grpo", [0.025, -0.075, 0.025, 0.025]),
        ("reinforce", [1, 0.9, 1, 1]),
        ("rloo", [0.1 / 3, -0.1, 0.1 / 3, 0.1 / 3]),  # 1 - 2.9 / 3, and 0.9 - 1
        ("gigpo", [0.5, -1.5, 0.5, 0.5]),  # every state once: A^E alone
    ],
)
def test_a_penalty_of_rows(name, expected):
    turns = make_rows([True, False, True, True], anchor=list("abcd"))
    assert credit.make(name, row_penalty=0.1)(turns) == pytest.approx(expected, abs=1e-4)
    # without one the two successes are equal
    assert np.ptp(credit.make(name)(turns)) == 0


def test_the_penalty_of_gigpo_does_not_reach_the_turn_before():
    # all turns in one state, outcomes of A^E equal in both rows but for the penalty; γ = 1
    turns = make_rows([True, False, True, True], anchor=list("abab"))
    method = credit.make("gigpo", row_penalty=0.1, gamma=1.0, mode="mean_norm")
    assert method.step_advantage(turns) == pytest.approx([0, -0.05, 0, 0.05])
    hgpo = credit.make("hgpo", row_penalty=0.1, gamma=1.0, mode="mean_norm", levels=0)
    assert hgpo(turns) == pytest.approx([0, -0.05, 0, 0.05], abs=1e-6)


def test_a_group_whose_rows_differ_has_a_signal():
    turns = batch([1, 1], [1.0, 1.0], [0, 0], valid=[True, False])
    advantage = credit.make("grpo", row_penalty=0.1)(turns)
    assert has_signal(turns, advantage).tolist() == [True, True]


PAID = {"turn_reward": [[0.1], [0.4], [0.2], [0.3]], "turn_reward_names": ("implicit",)}
PAID |= {"entropy": [0.1, 0.5, 0.2, 0.3], "gold_logprob": [-1.0, -2.0, -3.0, -0.5]}


@pytest.mark.parametrize("name", credit.names())
def test_a_method_that_reads_rewards_says_so(name):
    """It cannot do without the column, and the others give the same whatever is in it."""

    def compute(**reward):
        columns = {name: column for name, column in turns.items() if name != "reward"} | reward
        return credit.estimate(credit.make(name), credit.Turns(**columns), np.random.default_rng(0))

    made = make_rows([True] * 4, (1.0, 0.0), anchor=list("abab"), **PAID)
    turns = {one: getattr(made, one) for one in vars(made)}
    if getattr(credit.make(name), "reads_reward", False):
        with pytest.raises(MissingColumn, match="reward"):
            compute()
        assert compute(reward=[0, 0, 0, 0]).tolist() != compute(reward=[1, 0, 0, 3]).tolist()
    else:
        with pytest.warns(UserWarning, match="turns were paid beside them"):
            found = compute(reward=[1, 0, 0, 3])
        assert compute().tolist() == found.tolist()
