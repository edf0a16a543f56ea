"""One advantage for each trajectory, the same for all of its turns: REINFORCE, GRPO, RLOO."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Epsilon, Options


@dataclass(frozen=True)
class Reinforce:
    """REINFORCE: the outcome itself.

    A(τ) = R(τ)

    Unbiased, but with the noise of the outcome's level, since there is no baseline.

    Source: Williams, 1992.
    """

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return turns.outcome[turns.trajectory]


@dataclass(frozen=True)
class ReinforcePP(Options):
    """REINFORCE++: the outcome, standardized over the batch.

    A(τ) = (R(τ) - mean) / (std + eps), with mean and std over the trajectories of the batch

    Bias: one scale for the whole batch, 1 / std; mean and std include the trajectory itself.

    Source: REINFORCE++ (Hu, 2025).

    Args:
        eps: Added to the standard deviation.

    Raises:
        ValueError: `eps` is negative.
    """

    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        batch = np.zeros(len(turns.outcome), dtype=np.intp)
        return stats.standardize(turns.outcome, batch, eps=self.eps)[turns.trajectory]


@dataclass(frozen=True)
class GRPO(Options):
    """GRPO: the outcome, standardized over the group.

    A(τ) = (R(τ) - mean) / (std + eps), with mean and std over the trajectories of the group

    Bias: the division weights tasks. In large groups with outcomes 0 and 1, a task that succeeds
    with probability p counts 1 / sqrt(p (1 - p)) times; rare and near-certain successes gain.

    Source: HAS Eq. 1, iStar Eq. 3, MT-GRPO Eq. 3.

    Args:
        eps: Added to the standard deviation.

    Raises:
        ValueError: `eps` is negative.
    """

    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return stats.standardize(turns.outcome, turns.group, eps=self.eps)[turns.trajectory]


@dataclass(frozen=True)
class DrGRPO:
    """Dr. GRPO: the outcome minus the mean of the group; not divided by the deviation.

    A(τ) = R(τ) - mean

    Bias: (K - 1) / K times the true gradient, as the mean of K includes the trajectory itself.

    Source: Dr. GRPO (Liu et al., 2025).
    """

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return stats.center(turns.outcome, turns.group)[turns.trajectory]


@dataclass(frozen=True)
class RLOO:
    """RLOO: the outcome minus the mean outcome of the other trajectories of the group.

    A(τ_i) = R(τ_i) - mean over j ≠ i of R(τ_j)

    Unbiased for K ≥ 2.

    Source: MT-GRPO Eq. 5, MGR Eq. 6.
    """

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return stats.leave_one_out(turns.outcome, turns.group)[turns.trajectory]


@dataclass(frozen=True)
class MergedGRPO(Options):
    """GRPO-MR: GRPO on the outcome plus all turn rewards of the trajectory.

    A(τ) = (R(τ) - mean) / (std + eps), with R(τ) = R^O + Σ_t R^T_t

    Bias: that of `GRPO`, on the merged return.

    Source: MT-GRPO §5.1.

    Args:
        eps: Added to the standard deviation.

    Raises:
        ValueError: `eps` is negative, or at the call `turns` has no `turn_reward`.
    """

    needs: ClassVar[tuple[str, ...]] = ("turn_reward",)

    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        paid = np.bincount(turns.trajectory, turns.summed_verifier_reward(), len(turns.group))
        merged = turns.outcome + paid
        return stats.standardize(merged, turns.group, eps=self.eps)[turns.trajectory]
