"""Losses of TurnRD (torch). HAS Eq. 7 and the regularisers of §3.3."""

from dataclasses import dataclass

import torch
from torch import Tensor

from credit.choices import nonnegative
from credit.tokens import masked_mean
from credit.turnrd import Reading


def prediction(predicted: Tensor, returns: Tensor) -> Tensor:
    """(Σ w V - R)², mean over trajectories: [B], [B] -> scalar. Eq. 7."""
    return (predicted - returns).square().mean()


def ranking(predicted: Tensor, returns: Tensor, *, margin: float = 0.1) -> Tensor:
    """Hinge max(0, margin - (R̂_i - R̂_j)), mean over pairs R_i > R_j: [B], [B] -> scalar."""
    better = returns[:, None] > returns[None, :]
    lead = predicted[:, None] - predicted[None, :]
    return masked_mean((margin - lead).clamp(min=0.0), better)


def progress_prior(weights: Tensor, progress: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of |Δprogress|, normalised, and w: three times [B, T] -> scalar.

    Mean over the trajectories whose progress moved; `progress` is that after each turn, 0 before.
    """
    alive = mask.bool()
    after = progress.masked_fill(~alive, 0.0)
    moved = (after - torch.nn.functional.pad(after, (1, 0))[:, :-1]).abs().masked_fill(~alive, 0.0)
    total = moved.sum(-1, keepdim=True)
    target = moved / total.masked_fill(total == 0, 1.0)
    tiny = torch.finfo(weights.dtype).tiny
    return masked_mean(-(target * weights.clamp(min=tiny).log()).sum(-1), total[:, 0] > 0)


def dense_values(values: Tensor, dense: Tensor, mask: Tensor) -> Tensor:
    """(V - the turn's dense signal)², mean over turns: three times [B, T] -> scalar."""
    kept = dense.masked_fill(~mask.bool(), 0.0)
    return masked_mean((values - kept).square(), mask)


@dataclass(frozen=True)
class TurnRDLoss:
    """prediction + λ_rank ranking + λ_prog progress_prior + λ_V dense_values. HAS App. B.

    Args:
        rank, progress, value: λ_rank, λ_prog and λ_V ≥ 0 (λ_V: 0.5 WebShop, 1.0 AlfWorld).
        margin: by which a better trajectory is to be predicted above a worse one.
    """

    rank: float = 0.1
    progress: float = 0.01
    value: float = 0.5
    margin: float = 0.1

    def __post_init__(self) -> None:
        for name in ("rank", "progress", "value", "margin"):
            nonnegative(name, getattr(self, name), "it weighs a loss")

    def __call__(
        self,
        reading: Reading,
        returns: Tensor,
        mask: Tensor,
        *,
        progress: Tensor | None = None,
        dense: Tensor | None = None,
    ) -> Tensor:
        """Loss of a batch: `progress` and `dense` are [B, T], where there are such signals."""
        loss = prediction(reading.predicted, returns)
        loss = loss + self.rank * ranking(reading.predicted, returns, margin=self.margin)
        if progress is not None:
            loss = loss + self.progress * progress_prior(reading.weights, progress, mask)
        if dense is not None:
            loss = loss + self.value * dense_values(reading.values, dense, mask)
        return loss
