"""Generalized advantage estimation (Schulman et al., 2016), for padded and for ragged batches.

A_t = Σ_k (γλ)^k δ_{t+k} with δ_t = r_t + γ V_{t+1} - V_t, and V = 0 after the end. Returns for the
critic are A + V.
"""

import torch
from torch import Tensor

from credit.choices import within
from credit.tokens import wide


def padded(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> Tensor:
    """Advantages of the places where the mask is set: three times [B, T] -> [B, T], else 0.

    Places without mask are skipped wherever they are, so that tokens of the environment between
    two replies neither discount nor end anything; what rewards and values hold there is not read.

    Raises:
        ValueError: shapes that differ, or γ or λ outside [0, 1].
    """
    if not rewards.shape == values.shape == mask.shape or len(rewards.shape[1:]) != 1:
        raise ValueError(
            f"rewards, values and mask are of one shape [B, T], got {tuple(rewards.shape)}, "
            f"{tuple(values.shape)} and {tuple(mask.shape)}"
        )
    within("gamma", gamma, 0, 1, "it discounts later rewards")
    within("lam", lam, 0, 1, "it discounts later errors")
    alive = mask.bool()
    paid = wide(rewards).masked_fill(~alive, 0.0)
    value = wide(values).masked_fill(~alive, 0.0)
    carried = following = paid.new_zeros(len(paid))
    columns = []
    for step in range(paid.shape[1] - 1, -1, -1):
        here = alive[:, step]
        error = paid[:, step] + gamma * following - value[:, step]
        carried = torch.where(here, error + gamma * lam * carried, carried)
        following = torch.where(here, value[:, step], following)
        columns.append(torch.where(here, carried, 0.0))
    return torch.stack(columns[::-1], dim=1) if columns else paid


def ragged(
    rewards: Tensor, values: Tensor, segment: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> Tensor:
    """Advantages of rows whose segments stand together, in order: three times [P] -> [P].

    `segment` is the trajectory of each turn or token.

    Raises:
        ValueError: lengths that differ, a segment in two pieces, or γ or λ outside [0, 1].
    """
    ids, length = torch.unique_consecutive(segment, return_counts=True)
    if len(ids) != len(torch.unique(segment)):
        raise ValueError(f"segment has {len(ids)} pieces of {len(torch.unique(segment))} segments")
    if not len(rewards) == len(values) == len(segment):
        raise ValueError(
            f"rewards, values and segment are of one length, got {len(rewards)}, {len(values)} "
            f"and {len(segment)}"
        )
    if not len(rewards):
        return wide(rewards)
    place = torch.arange(int(length.max()), device=segment.device)
    mask = place < length[:, None]
    paid, value = (x.new_zeros(mask.shape).masked_scatter(mask, x) for x in (rewards, values))
    return padded(paid, value, mask, gamma=gamma, lam=lam)[mask]
