"""KL divergence between a policy and a reference (torch), exact from logits or from samples.

The estimators k1, k2 and k3 read the log-probabilities of tokens that were drawn from the first
distribution. k1 and k3 are unbiased, k2 is biased a little. k3 is never negative.

Source: Schulman, "Approximating KL divergence", 2020.
"""

from collections.abc import Callable

from torch import Tensor

from credit.tokens import upcast
from credit.validation import check_positive


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimator log p - log q of each token: [...], [...] -> [...]."""
    return upcast(logprobs) - upcast(reference)


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimator (log p - log q)² / 2 of each token: [...], [...] -> [...]."""
    return k1(logprobs, reference) ** 2 / 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimator q/p - 1 - log(q/p) of each token, at least 0: [...], [...] -> [...]."""
    gap = -k1(logprobs, reference)
    return gap.expm1() - gap


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def categorical(logits: Tensor, reference: Tensor) -> Tensor:
    """Exact KL divergence at each token: [..., V], [..., V] -> [...].

    Σ_v p_v (log p_v - log q_v), with p = softmax(logits) and q = softmax(reference)

    Args:
        logits: [..., V] logits of the policy; -inf where a token is forbidden.
        reference: [..., V] logits of the reference.

    Returns:
        [...] divergence in nats; a token that both forbid adds 0.
    """
    p, q = upcast(logits).log_softmax(-1), upcast(reference).log_softmax(-1)
    forbidden = p.isneginf()
    gap = p.masked_fill(forbidden, 0.0) - q.masked_fill(forbidden, 0.0)
    return (p.exp() * gap).sum(-1)


def adaptive_coefficient(coefficient: float, divergence: float, *, target: float = 0.04) -> float:
    """Next coefficient of a KL penalty that keeps the divergence near a target.

    2 c if divergence > 1.5 target, c / 2 if divergence < target / 1.5, else c

    Source: PPO §4 (Schulman et al., 2017).

    Args:
        coefficient: Current coefficient c.
        divergence: Divergence measured after the update, in nats.
        target: Divergence to keep, in nats.

    Returns:
        The coefficient of the next update.

    Raises:
        ValueError: `target` is not positive.
    """
    check_positive("target", target, "it is a divergence to keep")
    if divergence > 1.5 * target:
        return 2 * coefficient
    return coefficient / 2 if divergence < target / 1.5 else coefficient
