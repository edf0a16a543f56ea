"""Implicit rewards, preference pairs, the DPO and PRIME losses."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given

from credit.methods import istar
from tests.credit.batches import batch, batches

torch.set_num_threads(1)


def test_rewards():  # turn 0: 0.5 * (1 + 2); turn 1 has no token; turn 2: 0.5 * -1
    new, old = torch.tensor([0.0, 0.0, -3.0]), torch.tensor([-1.0, -2.0, -2.0])
    turn = torch.tensor([0, 0, 2])
    assert istar.turn_rewards(new, old, turn, 3, beta=0.5).tolist() == pytest.approx([1.5, 0, -0.5])
    assert istar.turn_rewards(new, old, turn, 3).tolist() == pytest.approx([0.15, 0, -0.05])


def test_tokens_sum_to_the_trajectory():
    torch.manual_seed(0)
    new, old = torch.randn(12), torch.randn(12)
    tokens = istar.token_rewards(new, old, beta=0.1)
    whole = 0.1 * (new.sum() - old.sum())
    assert tokens.sum().item() == pytest.approx(whole.item(), abs=1e-6)
    turns = istar.turn_rewards(new, old, torch.arange(12) // 3, 4, beta=0.1)
    assert turns.sum().item() == pytest.approx(whole.item(), abs=1e-6)


def test_pairs():  # in group 7, trajectories 0 and 3 succeed and 2 fails; group 4 has only 1
    turns = batch([1] * 4, [1.0, 1.0, 0.0, 0.5], [7, 4, 7, 7])
    assert sorted(istar.preference_pairs(turns).tolist()) == [[0, 2], [3, 2]]
    assert istar.preference_pairs(turns, threshold=0.5).tolist() == [[0, 2], [0, 3]]


@given(batches())
def test_pairs_are_all_those_of_a_group(turns):
    pairs = istar.preference_pairs(turns)
    better, worse = pairs[:, 0], pairs[:, 1]
    assert (turns.outcome[better] > 0).all()
    assert (turns.outcome[worse] <= 0).all()
    assert (turns.group[better] == turns.group[worse]).all()
    good = turns.outcome > 0
    expected = sum(
        good[turns.group == g].sum() * (~good)[turns.group == g].sum() for g in set(turns.group)
    )
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs) == expected


def test_losses_of_dpo_and_prime():
    # differences log 3 and 0: -log σ(log 3) = -log 3/4, and -log 1/2
    expected = pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    returns = torch.tensor([math.log(3), 0.0, 0.0])
    assert istar.dpo_loss(returns, np.array([[0, 1], [1, 2]])).item() == expected
    # σ(log 3) = 3/4 for a success: -log 3/4; σ(0) = 1/2 for a failure: -log 1/2
    assert istar.prime_loss(returns[:2], torch.tensor([1.0, 0.0])).item() == expected


def test_dpo_without_pairs_has_no_gradient():
    returns = torch.ones(2, requires_grad=True)
    loss = istar.dpo_loss(returns, np.zeros((0, 2), dtype=int))
    loss.backward()
    assert (loss.item(), returns.grad.tolist()) == (0, [0, 0])


def test_gradients():
    torch.manual_seed(0)
    new = torch.randn(6, dtype=torch.float64, requires_grad=True)
    old, owner = torch.randn(6, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 2, 2])

    def losses(x):
        returns = istar.turn_rewards(x, old, owner, 3)
        return istar.dpo_loss(returns, np.array([[0, 1], [2, 1]])) + istar.prime_loss(
            returns, torch.tensor([1, 0, 1])
        )

    assert torch.autograd.gradcheck(losses, new)


def test_half_precision():
    new = torch.full((3000,), -1.0, dtype=torch.bfloat16)
    owner = torch.zeros(3000, dtype=torch.long)
    total = istar.turn_rewards(new, torch.zeros_like(new), owner, 1, beta=1.0)
    assert total.item() == pytest.approx(-3000)
