"""Clipped surrogate, ratios, aggregation, value loss, KL: numbers, gradients, dtypes."""

import math

import pytest
import torch

from credit import losses

torch.set_num_threads(1)
LOG2 = math.log(2)


def test_ratio_of_tokens_turns_and_sequences():
    # ratios 2, 8 | 1: geometric means sqrt(2 * 8) = 4 | 1 of the turns
    new, old = torch.tensor([LOG2, 3 * LOG2, 0.0]), torch.zeros(3)
    assert losses.importance_ratio(new, old).tolist() == pytest.approx([2, 8, 1])
    turn = torch.tensor([0, 0, 1])
    assert losses.importance_ratio(new, old, turn).tolist() == pytest.approx([4, 4, 1])
    whole = losses.importance_ratio(new, old, torch.zeros(3, dtype=torch.long))
    assert whole.tolist() == pytest.approx([2 ** (4 / 3)] * 3)  # (2 * 8 * 1)^(1/3)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.5, 1.0, 1.28),  # clipped above: min(1.5, 1.28)
        (1.5, -1.0, -1.5),  # min(-1.5, -1.28)
        (0.5, 1.0, 0.5),  # min(0.5, 0.8)
        (0.5, -1.0, -0.8),  # clipped below: min(-0.5, -0.8)
        (1.1, 2.0, 2.2),  # inside the range: 1.1 * 2
    ],
)
def test_clipped(ratio, advantage, expected):
    gain = losses.clipped_surrogate(
        torch.tensor(ratio), torch.tensor(advantage), low=0.2, high=0.28
    )
    assert gain.item() == pytest.approx(expected)


def test_gradients():
    new = torch.randn(5, dtype=torch.float64, requires_grad=True)
    old, segment = torch.randn(5, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 1])
    advantage = torch.randn(5, dtype=torch.float64)
    torch.manual_seed(0)
    for ids in (None, segment):
        assert torch.autograd.gradcheck(
            lambda x, ids=ids: losses.clipped_surrogate(
                losses.importance_ratio(x, old, ids), advantage
            ),
            new,
        )
    logits = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(losses.entropy, logits)
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 0, 0]])
    for mean in (losses.masked_mean, losses.sequence_mean):
        assert torch.autograd.gradcheck(lambda x, mean=mean: mean(x, mask), logits)
    target, before = (torch.randn(2, 4, dtype=torch.float64) for _ in range(2))
    assert torch.autograd.gradcheck(lambda v: losses.value_loss(v, target, before), logits)


def test_aggregation():  # rows of 3 and 1 tokens: (1 + 2 + 3 + 8) / 4, and (2 + 8) / 2
    x = torch.tensor([[1.0, 2.0, 3.0], [8.0, torch.nan, torch.nan], [torch.nan] * 3])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 0, 0]])
    assert losses.masked_mean(x, mask).item() == pytest.approx(3.5)
    assert losses.sequence_mean(x, mask).item() == pytest.approx(5.0)
    assert losses.sequence_mean(x[:1]).item() == pytest.approx(2.0)


def test_entropy():  # uniform over 4 tokens: log 4; over 2 of 4: log 2
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0, 0, -torch.inf, -torch.inf]])
    assert losses.entropy(logits).tolist() == pytest.approx([2 * LOG2, LOG2])


def test_value_loss():  # errors 1 and, clipped to 0.5 + 0.2, 0.7: half the larger square
    value, target, old = torch.tensor(1.0), torch.tensor(0.0), torch.tensor(0.5)
    assert losses.value_loss(value, target).item() == pytest.approx(0.5)
    assert losses.value_loss(value, target, old).item() == pytest.approx(0.5)
    # 0.1 is 0.4 away from the old value 0.5: clipped to 0.3, which has the larger error
    far = losses.value_loss(torch.tensor(0.1), target, old)
    assert far.item() == pytest.approx(0.3**2 / 2)


def test_half_precision_is_summed_in_float32():
    x = torch.full((4096,), 1.001, dtype=torch.bfloat16)  # a sum in bfloat16 stays at 256
    segment = torch.zeros(4096, dtype=torch.long)
    assert losses.segment_sum(x, segment, 1).item() == pytest.approx(4096 * x[0].item(), rel=1e-5)
    assert losses.masked_mean(x).dtype == torch.float32
    ratio = losses.importance_ratio(x[:8], torch.zeros(8, dtype=torch.bfloat16), segment[:8])
    assert ratio.dtype == torch.float32


def test_segments():  # segment 0 has 1 and 2, segment 1 no token, segment 2 has 4
    x, segment = torch.tensor([1.0, 4.0, 2.0]), torch.tensor([0, 2, 0])
    assert losses.segment_sum(x, segment, 3).tolist() == pytest.approx([3, 0, 4])
    assert losses.segment_mean(x, segment, 3).tolist() == pytest.approx([1.5, 0, 4])


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


def test_gradients_of_kl():
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


def test_kl_in_half_precision():
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
    found = losses.adapt_kl_coefficient(0.1, divergence, target=0.04, initial=0.1)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("divergence", "bound"), [(9.0, 100.0), (0.0, 1e-4)])
def test_the_coefficient_stays_within_a_thousand_of_the_first(divergence, bound):
    coefficient = 0.1
    for _ in range(40):
        coefficient = losses.adapt_kl_coefficient(coefficient, divergence, initial=0.1)
    assert coefficient == pytest.approx(bound)


def test_what_a_penalty_descends_on_average():
    """Over all tokens: k1 nothing, k2 the KL from the policy, k3 the KL from the reference."""
    logits, reference = torch.tensor([0.5, -1.0, 0.2, 2.0], dtype=torch.float64), torch.zeros(4)
    logits.requires_grad_()
    logprobs, fixed = logits.log_softmax(-1), reference.double().log_softmax(-1)

    def slope(value):
        return torch.autograd.grad(value, logits, retain_graph=True)[0].tolist()

    weight = logprobs.exp().detach()
    found = {n: slope((weight * f(logprobs, fixed)).sum()) for n, f in losses.KL_ESTIMATORS.items()}
    forward = (logprobs.exp() * (logprobs - fixed)).sum()
    backward = (fixed.exp() * (fixed - logprobs)).sum()
    assert found["k1"] == pytest.approx([0.0] * 4, abs=1e-12)
    assert found["k2"] == pytest.approx(slope(forward))
    assert found["k3"] == pytest.approx(slope(backward))
