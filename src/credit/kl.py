"""KL divergence between a policy and a reference (torch): exact from logits, or from samples.

The estimators k1, k2, k3 (Schulman, 2020) read the log-probabilities of tokens drawn from the first
distribution. Their mean is the divergence (k2: about so); k3 is never negative.
"""

from collections.abc import Callable

from torch import Tensor

from credit.choices import positive
from credit.tokens import wide


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Log p - log q of each token: [...], [...] -> [...]."""
    return wide(logprobs) - wide(reference)


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """(log p - log q)² / 2 of each token: [...], [...] -> [...]."""
    return k1(logprobs, reference) ** 2 / 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """q/p - 1 - log(q/p) of each token, at least 0: [...], [...] -> [...]."""
    gap = -k1(logprobs, reference)
    return gap.expm1() - gap


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def categorical(logits: Tensor, reference: Tensor) -> Tensor:
    """KL(softmax(logits) || softmax(reference)) at each token: [..., V], [..., V] -> [...].

    A token that both forbid (logits of -inf) counts nothing.
    """
    p, q = wide(logits).log_softmax(-1), wide(reference).log_softmax(-1)
    both = p.isneginf()
    gap = p.masked_fill(both, 0.0) - q.masked_fill(both, 0.0)
    return (p.exp() * gap).sum(-1)


def adapted(coefficient: float, divergence: float, *, target: float = 0.04) -> float:
    """The next coefficient of a KL penalty that is to hold a target. PPO §4 (Schulman, 2017).

    Doubled if the divergence is above 1.5 targets, halved if below two thirds of one.
    """
    positive("target", target, "it is a divergence to hold")
    if divergence > 1.5 * target:
        return 2 * coefficient
    return coefficient / 2 if divergence < target / 1.5 else coefficient
