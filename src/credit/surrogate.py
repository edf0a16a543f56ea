"""The clipped surrogate objective and what goes with it (torch): ratio, aggregation, value loss.

All are to be maximised but `value_loss`. Tokens are flat, [P], or padded, [B, L], with a mask.
"""

import torch
from torch import Tensor

from credit.choices import within
from credit.tokens import masked_mean, means, wide


def ratio(logprobs: Tensor, old: Tensor, segment: Tensor | None = None) -> Tensor:
    """π(a) / π_old(a) of each token: [P], [P] -> [P].

    With `segment`, ids of turns or of sequences from 0, each token has the geometric mean of its
    segment's ratios (GSPO Eq. 7, iStar Eq. 6), gradient included.
    """
    gap = wide(logprobs) - wide(old)
    if segment is None or not len(segment):
        return gap.exp()
    return means(gap, segment, int(segment.max()) + 1)[segment].exp()


def clipped(ratios: Tensor, advantage: Tensor, *, low: float = 0.2, high: float = 0.2) -> Tensor:
    """min(ρ A, clip(ρ, 1 - low, 1 + high) A): [...], [...] -> [...]. PPO Eq. 7; DAPO: high 0.28.

    Raises:
        ValueError: low outside [0, 1], or a negative high.
    """
    within("low", low, 0, 1, "a ratio is not below 0")
    within("high", high, 0, float("inf"), "it is how far a ratio may rise above 1")
    return torch.minimum(ratios * advantage, ratios.clamp(1 - low, 1 + high) * advantage)


def token_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over all tokens, so that long sequences weigh more: [B, L] -> scalar. DAPO Eq. 12."""
    return masked_mean(x, mask)


def sequence_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over sequences of the mean over their tokens: [B, L] -> scalar. GRPO."""
    rows = masked_mean(x, mask, dim=-1)
    alive = None if mask is None else mask.bool().any(-1)
    return masked_mean(rows, alive)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax(logits) at each token in nats: [..., V] -> [...]. STAPO Eq. 1."""
    logprobs = wide(logits).log_softmax(-1)
    return -(logprobs.exp() * logprobs.masked_fill(logprobs.isneginf(), 0.0)).sum(-1)


def value_loss(
    values: Tensor, returns: Tensor, old: Tensor | None = None, *, clip: float = 0.2
) -> Tensor:
    """Half the squared error of a critic at each token: [...], [...] -> [...].

    With the `old` values, the larger of the errors of the value and of the value kept within `clip`
    of the old one.
    """
    error = (wide(values) - wide(returns)) ** 2
    if old is None:
        return error / 2
    near = wide(old) + (wide(values) - wide(old)).clamp(-clip, clip)
    return torch.maximum(error, (near - wide(returns)) ** 2) / 2
