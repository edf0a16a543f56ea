"""STAPO's selective terms, from log-probabilities."""

import math

import numpy as np
import pytest
import torch

from credit.methods import stapo
from credit.methods.stapo import STAPO
from tests.credit.batches import batch

torch.set_num_threads(1)
P, Q = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log()
EXACT = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)  # KL(P || Q)


def test_mean_over_the_tokens_of_a_turn():  # turn 0 has EXACT and 0, turn 1 EXACT, turn 2 no token
    logits, blind = torch.stack([P, P, P]), torch.stack([Q, P, Q])
    term = stapo.kl_from_logits(logits, blind, torch.tensor([0, 0, 1]), 3)
    assert term.tolist() == pytest.approx([EXACT / 2, EXACT, 0])


def test_from_samples():  # p/q = 2: 1/2 - 1 + log 2; p/q = 1: 0
    logprobs, blind = torch.tensor([0.0, 0.0]), torch.tensor([-math.log(2), 0.0])
    term = stapo.kl_from_samples(logprobs, blind, torch.tensor([0, 0]), 1)
    assert term.item() == pytest.approx((math.log(2) - 0.5) / 2)


def test_samples_agree_with_logits_on_average():
    torch.manual_seed(0)
    p, q = torch.randn(2, 8).log_softmax(1)
    drawn = torch.distributions.Categorical(logits=p).sample((20000,))
    turn = torch.zeros(20000, dtype=torch.long)
    sampled = stapo.kl_from_samples(p[drawn], q[drawn], turn, 1)
    exact = stapo.kl_from_logits(p[None], q[None], turn[:1], 1)
    assert sampled.item() == pytest.approx(exact.item(), rel=0.05)


def test_objective_is_on_outliers_only():  # the last turn: 0.02 * 3 - 0.01 * 2
    entropy = [1.0, 1.1, 0.9, 1.0, 9.0]
    turns = batch([5], [1.0], [0], anchor=["s"] * 5, entropy=entropy)
    method = STAPO(alpha=0.02, penalty_weight=0.01)
    weights = tuple(torch.as_tensor(w) for w in method.weights(turns))
    value = stapo.selective_objective(torch.full((5,), 3.0), torch.full((5,), 2.0), weights)
    assert value.tolist() == pytest.approx([0, 0, 0, 0, 0.02 * 3 - 0.01 * 2])
    wide = STAPO(lam=np.inf).weights(turns)
    none = stapo.selective_objective(
        torch.ones(5), torch.ones(5), tuple(map(torch.as_tensor, wide))
    )
    assert none.tolist() == [0] * 5


def test_gradients_flow_through_both_terms():
    torch.manual_seed(0)
    full, blind, reference = (torch.randn(3, 4, dtype=torch.float64) for _ in range(3))
    turn = torch.tensor([0, 0, 1])
    weights = torch.tensor([0.5, 1.0]), torch.tensor([0.25, 0.0])

    def objective(full, blind):
        reward = stapo.kl_from_logits(full, blind, turn, 2)
        penalty = stapo.kl_from_logits(blind, reference, turn, 2)
        return stapo.selective_objective(reward, penalty, weights)

    inputs = (full.requires_grad_(), blind.requires_grad_())
    assert torch.autograd.gradcheck(objective, inputs)


def test_half_precision_is_summed_in_float32():  # 4,096 tokens of one turn, each k3(log 2)
    ratio = torch.full((4096,), math.log(2)).bfloat16()
    term = stapo.kl_from_samples(ratio, torch.zeros_like(ratio), torch.zeros(4096).long(), 1)
    log2 = ratio[0].item()  # as bfloat16 rounds it
    assert term.dtype == torch.float32
    assert term.item() == pytest.approx(math.exp(-log2) - 1 + log2, rel=1e-5)
