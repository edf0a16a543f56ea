"""Generalized advantage estimation (torch), for padded and for ragged batches.

A_t = Σ_k (γλ)^k δ_{t+k}, with δ_t = r_t + γ V_{t+1} - V_t, and V = 0 after the end of the
trajectory. The returns that a critic is trained on are A + V.

Source: Schulman et al., 2016.
"""

import torch
from torch import Tensor

from credit.losses import upcast
from credit.stats import Array


def place_rewards(rewards: Tensor, turn: Tensor) -> Tensor:
    """Rewards of turns, at the last token of each: [N], [P] -> [P], 0 at other tokens.

    Args:
        rewards: [N] rewards of turns.
        turn: [P] int, turn of each token; the tokens of a turn are contiguous.
    """
    final = torch.ones_like(turn, dtype=torch.bool)
    final[:-1] = turn[1:] != turn[:-1]
    return torch.where(final, rewards[turn], 0.0)


def explain_variance(returns: Array, values: Array) -> float:
    """Share of the variance of returns that values explain: [P], [P]; 0 if returns are constant."""
    total = returns.var()
    return float(1 - (returns - values).var() / total) if total > 0 else 0.0


def compute_padded(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> Tensor:
    """GAE of padded trajectories: three times [B, T] -> [B, T].

    Positions outside the mask are skipped wherever they are: tokens of the environment between two
    replies neither discount nor end a trajectory. Rewards and values are not read there.

    Args:
        rewards: [B, T] rewards.
        values: [B, T] values V.
        mask: [B, T], nonzero at the positions of the trajectory.
        gamma: Discount γ in [0, 1].
        lam: λ in [0, 1].

    Returns:
        [B, T] advantages, 0 outside the mask; at least float32.
    """
    inside = mask.bool()
    reward = upcast(rewards).masked_fill(~inside, 0.0)
    value = upcast(values).masked_fill(~inside, 0.0)
    advantage = following = reward.new_zeros(len(reward))
    columns = []
    for step in range(reward.shape[1] - 1, -1, -1):
        here = inside[:, step]
        error = reward[:, step] + gamma * following - value[:, step]
        advantage = torch.where(here, error + gamma * lam * advantage, advantage)
        following = torch.where(here, value[:, step], following)
        columns.append(torch.where(here, advantage, 0.0))
    return torch.stack(columns[::-1], dim=1) if columns else reward


def compute_ragged(
    rewards: Tensor, values: Tensor, segment: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> Tensor:
    """GAE of concatenated trajectories: three times [P] -> [P].

    Args:
        rewards: [P] rewards of turns or tokens.
        values: [P] values V.
        segment: [P] int, trajectory of each row; rows of a trajectory are contiguous and in order.
        gamma: Discount γ in [0, 1].
        lam: λ in [0, 1].

    Returns:
        [P] advantages; at least float32.

    Raises:
        ValueError: Lengths that differ, or a trajectory in two pieces.
    """
    ids, length = torch.unique_consecutive(segment, return_counts=True)
    if not rewards.shape == values.shape == segment.shape or len(ids) != len(torch.unique(segment)):
        shown = f"lengths {len(rewards)}, {len(values)}, {len(segment)} in {len(ids)} pieces"
        raise ValueError(
            f"rewards, values and segment must be [P], each segment whole, got {shown}"
        )
    if not len(rewards):
        return upcast(rewards)
    mask = torch.arange(int(length.max()), device=segment.device) < length[:, None]
    reward, value = (x.new_zeros(mask.shape).masked_scatter(mask, x) for x in (rewards, values))
    return compute_padded(reward, value, mask, gamma=gamma, lam=lam)[mask]
