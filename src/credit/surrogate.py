"""The clipped surrogate objective (torch): ratio, clipping, aggregation, entropy and value loss.

`value_loss` is minimized, everything else is maximized. Tokens are concatenated, [P], or padded,
[B, L], with a mask.
"""

import torch
from torch import Tensor

from credit.tokens import masked_mean, segment_mean, upcast
from credit.validation import check_range


def ratio(logprobs: Tensor, old: Tensor, segment: Tensor | None = None) -> Tensor:
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


def clipped(ratios: Tensor, advantage: Tensor, *, low: float = 0.2, high: float = 0.2) -> Tensor:
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

    Raises:
        ValueError: `low` outside [0, 1], or `high` negative.
    """
    check_range("low", low, 0, 1, "a ratio is not negative")
    check_range("high", high, 0, float("inf"), "a ratio is clipped above 1 by it")
    return torch.minimum(ratios * advantage, ratios.clamp(1 - low, 1 + high) * advantage)


def token_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over all tokens, so that long sequences weigh more: [B, L] -> scalar. DAPO Eq. 12."""
    return masked_mean(x, mask)


def sequence_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over sequences of the mean over their tokens: [B, L] -> scalar. GRPO."""
    rows = masked_mean(x, mask, dim=-1)
    nonempty = None if mask is None else mask.bool().any(-1)
    return masked_mean(rows, nonempty)


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
