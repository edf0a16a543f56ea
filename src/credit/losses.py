"""Losses on log-probabilities (torch): the clipped surrogate, KL divergences, sums over turns.

`value_loss` is minimized, the other objectives are maximized. Tokens are concatenated, [P], with
the segment id of each, or padded, [B, L], with a mask. bfloat16 and float16 are summed in float32.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def upcast(x: Tensor) -> Tensor:
    """Convert half precision to float32 and leave other dtypes as they are: [...] -> [...]."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def segment_sum(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sum of the tokens of each segment: [P], [P] -> [S].

    Args:
        x: [P] values.
        segment: [P] int, segment of each token, 0..S-1.
        count: Number of segments S.

    Returns:
        [S] sums, 0 for a segment without tokens; at least float32.
    """
    values = upcast(x)
    total: Tensor = values.new_zeros(count).index_add(0, segment, values)
    return total


def segment_mean(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """Mean of the tokens of each segment: [P], [P] -> [S].

    Args:
        x: [P] values.
        segment: [P] int, segment of each token, 0..S-1.
        count: Number of segments S.

    Returns:
        [S] means, 0 for a segment without tokens; at least float32.
    """
    return segment_sum(x, segment, count) / torch.bincount(segment, minlength=count).clamp(min=1)


def masked_mean(x: Tensor, mask: Tensor | None = None, *, dim: int | None = None) -> Tensor:
    """Mean of the values inside a mask: [...] -> [...] without `dim`.

    Args:
        x: [...] values; they are not read outside the mask.
        mask: [...], nonzero where a value counts; None counts all.
        dim: Dimension to reduce; None reduces all.

    Returns:
        The mean, 0 where the mask is empty; at least float32.
    """
    chosen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.bool()
    kept = upcast(x).masked_fill(~chosen, 0.0)
    if dim is None:
        return kept.sum() / chosen.sum().clamp(min=1)
    return kept.sum(dim) / chosen.sum(dim).clamp(min=1)


def importance_ratio(logprobs: Tensor, old: Tensor, segment: Tensor | None = None) -> Tensor:
    """Importance ratio of each token, or of its turn or sequence: [P], [P] -> [P].

    ρ = π(a) / π_old(a); with `segment` the geometric mean of ρ over the tokens of the segment

    Source: PPO (Schulman et al., 2017); with `segment` GSPO Eq. 7, iStar Eq. 6.

    Args:
        logprobs: [P] log-probabilities under the policy, in nats.
        old: [P] those under the policy that sampled the tokens.
        segment: [P] int, turn or sequence of each token, from 0; None for ratios of tokens.

    Returns:
        [P] ratios; at least float32. The gradient reaches every token of the segment.
    """
    gap = upcast(logprobs) - upcast(old)
    if segment is None or not len(segment):
        return gap.exp()
    return segment_mean(gap, segment, int(segment.max()) + 1)[segment].exp()


def truncate_ratios(
    gap: Tensor, segment: Tensor | None = None, *, cap: float = 2.0, drop: bool = False
) -> tuple[Tensor, Tensor]:
    """Truncated importance weights between what sampled and the policy: [P], [P] -> [P], [P].

    w = min(π(a) / π_sampled(a), cap); with `segment` of the product of ρ over the segment

    Source: truncated importance sampling (Espeholt et al., 2018; Yao et al., 2025).

    Args:
        gap: [P] log π - log π_sampled of each token, in nats.
        segment: [P] int, sequence of each token, from 0; None for weights of tokens.
        cap: Largest weight.
        drop: A weight above the cap becomes 0 instead.

    Returns:
        [P] weights, and [P] whether each was above the cap.
    """
    if segment is not None and len(segment):
        gap = segment_sum(gap, segment, int(segment.max()) + 1)[segment]
    weight = upcast(gap).clamp(max=60.0).exp()  # of a larger one there may be no number
    above = weight > cap
    return torch.where(above, 0.0 if drop else cap, weight), above


def clipped_surrogate(
    ratios: Tensor, advantage: Tensor, *, low: float = 0.2, high: float = 0.2
) -> Tensor:
    """Clipped surrogate of each token: [...], [...] -> [...].

    min(ρ A, clip(ρ, 1 - low, 1 + high) A)

    Source: PPO Eq. 7 (Schulman et al., 2017); DAPO uses high = 0.28.

    Args:
        ratios: [...] ratios ρ.
        advantage: [...] advantages A.
        low: Clip range below 1, in [0, 1].
        high: Clip range above 1, at least 0.

    Returns:
        [...] objective.
    """
    return torch.minimum(ratios * advantage, ratios.clamp(1 - low, 1 + high) * advantage)


def sequence_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over sequences of the mean over their tokens: [B, L] -> scalar. GRPO."""
    rows = masked_mean(x, mask, dim=-1)
    return masked_mean(rows, None if mask is None else mask.bool().any(-1))


def entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax(logits) at each token, in nats: [..., V] -> [...].

    H = -Σ_v p_v log p_v

    Source: STAPO Eq. 1.

    Args:
        logits: [..., V] logits; -inf where a token is forbidden.

    Returns:
        [...] entropy; at least float32.
    """
    logprobs = upcast(logits).log_softmax(-1)
    return -(logprobs.exp() * logprobs.masked_fill(logprobs.isneginf(), 0.0)).sum(-1)


def value_loss(
    values: Tensor, returns: Tensor, old: Tensor | None = None, *, clip: float = 0.2
) -> Tensor:
    """Half the squared error of a critic, clipped if `old` is given: [...], [...] -> [...].

    (V - R)² / 2, or max((V - R)², (V_old + clip(V - V_old, -c, c) - R)²) / 2

    Source: PPO (Schulman et al., 2017), with value clipping as in its public implementation.

    Args:
        values: [...] values V.
        returns: [...] returns R.
        old: [...] values V_old before the update, or None for no clipping.
        clip: c, the distance that a value may move from `old`.

    Returns:
        [...] loss; at least float32.
    """
    error = (upcast(values) - upcast(returns)) ** 2
    if old is None:
        return error / 2
    near = upcast(old) + (upcast(values) - upcast(old)).clamp(-clip, clip)
    return torch.maximum(error, (near - upcast(returns)) ** 2) / 2


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimator log p - log q of each token: [...], [...] -> [...].

    A measure, and no loss: over samples of p the mean of its gradient is 0.
    """
    return upcast(logprobs) - upcast(reference)


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimator (log p - log q)² / 2 of each token: [...], [...] -> [...].

    Over samples of p the mean of its gradient is that of KL(p‖q).
    """
    return k1(logprobs, reference) ** 2 / 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimator q/p - 1 - log(q/p) of each token, at least 0: [...], [...] -> [...].

    Over samples of p the mean of its gradient is that of KL(q‖p).
    """
    gap = -k1(logprobs, reference)
    return gap.expm1() - gap


_WIDEST = 1000.0  # factor by which an adapted coefficient may differ from the initial one

KL_ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def categorical_kl(logits: Tensor, reference: Tensor) -> Tensor:
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


def adapt_kl_coefficient(
    coefficient: float, divergence: float, *, initial: float, target: float = 0.04
) -> float:
    """Next coefficient of a KL penalty that keeps the divergence near a target.

    2 c if divergence > 1.5 target, c / 2 if divergence < target / 1.5, else c; at most 1000 times
    and at least a thousandth of the initial c

    Source: PPO §4 (Schulman et al., 2017), where the divergence is that from the policy before the
    update, KL(π_old‖π), and the coefficient has no bounds. The trainer holds the divergence from
    its reference by it, which one update changes little.

    Args:
        coefficient: Current coefficient c.
        divergence: Divergence measured after the update, in nats.
        initial: Coefficient of the first update.
        target: Divergence to keep, in nats.

    Returns:
        The coefficient of the next update.
    """
    if divergence > 1.5 * target:
        coefficient *= 2
    elif divergence < target / 1.5:
        coefficient /= 2
    return min(max(coefficient, initial / _WIDEST), initial * _WIDEST)
