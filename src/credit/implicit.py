"""Implicit rewards and the losses that train them (torch): iStar, DPO, PRIME.

The implicit reward of a token is β (log π_φ - log π_ref), from a trained model π_φ and a reference.
The reference of iStar is the previous policy. Only tokens that the agent wrote are passed; tokens
of prompts and of the environment are left out of the arrays.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from credit.tokens import segment_sum, upcast
from credit.turns import Turns
from credit.validation import check_positive


def token_rewards(logprobs: Tensor, reference: Tensor, *, beta: float = 0.05) -> Tensor:
    """Implicit reward of each token: [P], [P] -> [P].

    r = β (log π_φ - log π_ref)

    Source: PRIME Eq. 3.

    Args:
        logprobs: [P] log-probabilities of the tokens under the model, in nats.
        reference: [P] those under the reference.
        beta: Scale β > 0.

    Returns:
        [P] rewards; at least float32.

    Raises:
        ValueError: `beta` is not positive.
    """
    check_positive("beta", beta, "it scales rewards")
    return beta * (upcast(logprobs) - upcast(reference))


def rewards(
    logprobs: Tensor, reference: Tensor, turn: Tensor, count: int, *, beta: float = 0.05
) -> Tensor:
    """Implicit reward of each turn: [P], [P], [P] -> [N].

    r_φ(a_t) = Σ β (log π_φ - log π_ref), summed over the tokens of the turn

    Source: iStar Eq. 1.

    Args:
        logprobs: [P] log-probabilities of the tokens under the model, in nats.
        reference: [P] those under the reference.
        turn: [P] int, turn of each token.
        count: Number of turns N.
        beta: Scale β > 0.

    Returns:
        [N] rewards, 0 for a turn without tokens; at least float32.

    Raises:
        ValueError: `beta` is not positive.
    """
    return segment_sum(token_rewards(logprobs, reference, beta=beta), turn, count)


def preference_pairs(turns: Turns, *, threshold: float = 0.0) -> NDArray[np.intp]:
    """All pairs of a better and a worse trajectory of one group: -> [K, 2].

    (τ+, τ-) with R(τ+) > threshold ≥ R(τ-)

    Source: iStar Eq. 2.

    Args:
        turns: The batch, with outcomes R.
        threshold: Outcome that separates better from worse trajectories.

    Returns:
        [K, 2] int, the better trajectory first.
    """
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


def dpo_loss(returns: Tensor, pairs: NDArray[np.intp]) -> Tensor:
    """Multi-turn DPO loss, the mean over pairs: [M], [K, 2] -> scalar.

    -log σ(Σ_t r(τ+) - Σ_t r(τ-))

    With the implicit rewards of the policy itself this is multi-turn DPO of the policy.

    Source: iStar Eq. 2.

    Args:
        returns: [M] sum of the implicit rewards of each trajectory.
        pairs: [K, 2] trajectories, from `preference_pairs`.

    Returns:
        The loss; 0 without pairs.
    """
    if not len(pairs):
        return returns.sum() * 0.0
    return -functional.logsigmoid(returns[pairs[:, 0]] - returns[pairs[:, 1]]).mean()


def prime_loss(returns: Tensor, outcome: Tensor) -> Tensor:
    """Cross-entropy of σ(Σ r) against success, the mean over trajectories: [M], [M] -> scalar.

    -R log σ(Σ_t r_t) - (1 - R) log(1 - σ(Σ_t r_t))

    Source: PRIME Eq. 4.

    Args:
        returns: [M] sum of the implicit rewards of each trajectory.
        outcome: [M] outcome R, 0 or 1.

    Returns:
        The loss.

    Raises:
        ValueError: An outcome is neither 0 nor 1.
    """
    wrong = (outcome != 0) & (outcome != 1)
    if wrong.any():
        raise ValueError(
            f"outcome must be 0 or 1 in PRIME's cross-entropy, got {outcome[wrong][0].item()}"
        )
    return functional.binary_cross_entropy_with_logits(returns, outcome.to(returns))
