"""KL divergence: exact, estimators, adaptive coefficient."""

from __future__ import annotations

import math

import pytest
import torch

from credit import losses

torch.set_num_threads(1)
P, Q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
EXACT = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)  # 0.5 log(0.5 / 0.25) + 0.5 log(0.5 / 0.75)


def test_categorical():
    assert losses.categorical_kl(P.log(), Q.log()).item() == pytest.approx(EXACT)
    assert losses.categorical_kl(P.log() + 7, Q.log() - 3).item() == pytest.approx(
        EXACT
    )  # unnormalised
    assert losses.categorical_kl(Q.log(), Q.log()).item() == pytest.approx(0)


def test_tokens_that_both_forbid_add_nothing():
    p = torch.cat([P.log(), torch.tensor([-torch.inf])])
    q = torch.cat([Q.log(), torch.tensor([-torch.inf])])
    assert losses.categorical_kl(p, q).item() == pytest.approx(EXACT)


def test_estimators_of_one_token():  # p/q = 2: log 2, (log 2)^2 / 2, 1/2 - 1 + log 2
    p, q, log2 = P.log()[:1], Q.log()[:1], math.log(2)
    assert losses.k1(p, q).item() == pytest.approx(log2)
    assert losses.k2(p, q).item() == pytest.approx(log2**2 / 2)
    assert losses.k3(p, q).item() == pytest.approx(log2 - 0.5)


def test_k1_and_k3_are_unbiased():  # the mean over both tokens, weighted by p, is the divergence
    for name in ("k1", "k3"):
        tokens = losses.KL_ESTIMATORS[name](P.log(), Q.log())
        assert (P * tokens).sum().item() == pytest.approx(EXACT, abs=1e-6)


def test_k3_is_never_negative():
    gap = torch.linspace(-5, 5, 101)
    assert (losses.k3(gap, torch.zeros(101)) >= 0).all()
    small = losses.k3(torch.tensor([1e-4]), torch.zeros(1)).item()
    assert small == pytest.approx(5e-9, rel=1e-2)  # (1e-4)^2 / 2, in spite of cancellation


def test_gradients():
    # by log p at log p - log q = log 2: k1 has 1, k2 has log 2, k3 has 1 - q/p = 1/2
    for name, slope in (("k1", 1.0), ("k2", math.log(2)), ("k3", 0.5)):
        logprobs = P.log()[:1].requires_grad_()
        losses.KL_ESTIMATORS[name](logprobs, Q.log()[:1]).sum().backward()
        assert logprobs.grad.item() == pytest.approx(slope)
    torch.manual_seed(0)
    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(losses.categorical_kl, (a, b))
    for estimator in losses.KL_ESTIMATORS.values():
        assert torch.autograd.gradcheck(estimator, (a, b))


def test_half_precision():
    logits = torch.randn(4, 50)
    half = losses.categorical_kl(logits.bfloat16(), logits.flip(-1).bfloat16())
    assert half.dtype == torch.float32
    assert half.tolist() == pytest.approx(
        losses.categorical_kl(
            logits.bfloat16().float(), logits.flip(-1).bfloat16().float()
        ).tolist()
    )


@pytest.mark.parametrize(
    ("divergence", "expected"), [(0.07, 0.2), (0.05, 0.1), (0.03, 0.1), (0.02, 0.05)]
)
def test_adaptive_coefficient(divergence, expected):
    # target 0.04: doubled above 0.04 * 1.5 = 0.06, halved below 0.04 / 1.5 = 0.0267
    assert losses.adapt_kl_coefficient(0.1, divergence, target=0.04) == pytest.approx(expected)
