"""Implicit rewards and the losses that teach them (torch): iStar's model, DPO, PRIME.

A reward is β (log π_φ - log π_ref) of tokens that the agent wrote; prompts and the environment's
tokens are left out by leaving them out of the arrays. For iStar the reference is the last policy.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from credit.choices import positive
from credit.tokens import sums, wide
from credit.turns import Turns


def token_rewards(logprobs: Tensor, reference: Tensor, *, beta: float = 0.05) -> Tensor:
    """β (log π_φ - log π_ref) of each token: [P], [P] -> [P]. PRIME Eq. 3."""
    positive("beta", beta, "it scales rewards")
    return beta * (wide(logprobs) - wide(reference))


def rewards(
    logprobs: Tensor, reference: Tensor, turn: Tensor, count: int, *, beta: float = 0.05
) -> Tensor:
    """r_φ(a_t), the sum over the turn's tokens: [P], [P], [P] int -> [count]. iStar Eq. 1."""
    return sums(token_rewards(logprobs, reference, beta=beta), turn, count)


def pairs(turns: Turns, *, threshold: float = 0.0) -> NDArray[np.intp]:
    """Trajectories (better, worse) of one group, R(τ+) > threshold ≥ R(τ-): [K, 2]. iStar Eq. 2."""
    good = turns.outcome > threshold
    found = [
        np.stack(np.meshgrid(members[good[members]], members[~good[members]]), -1).reshape(-1, 2)
        for members in _members(turns.group)
    ]
    return np.concatenate(found) if found else np.zeros((0, 2), dtype=np.intp)


def _members(group: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """The trajectories of each group."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []


def dpo_loss(returns: Tensor, chosen: NDArray[np.intp]) -> Tensor:
    """-log σ(Σ_t r(τ+) - Σ_t r(τ-)), mean over pairs: [M], [K, 2] -> scalar. iStar Eq. 2.

    `returns` are sums of implicit rewards over trajectories. With the policy's own rewards this is
    multi-turn DPO of the policy. No pair: 0.
    """
    if not len(chosen):
        return returns.sum() * 0.0
    return -functional.logsigmoid(returns[chosen[:, 0]] - returns[chosen[:, 1]]).mean()


def prime_loss(returns: Tensor, outcome: Tensor) -> Tensor:
    """Cross-entropy of σ(Σ r) against success, mean over trajectories: [M], [M] -> scalar.

    PRIME Eq. 4.

    Raises:
        ValueError: an outcome that is not 0 or 1.
    """
    wrong = (outcome != 0) & (outcome != 1)
    if wrong.any():
        raise ValueError(
            f"PRIME's cross-entropy needs outcomes of 0 or 1, got {outcome[wrong][0].item()}"
        )
    return functional.binary_cross_entropy_with_logits(returns, outcome.to(returns))
