"""One advantage for each trajectory, the same for all of its turns: REINFORCE, GRPO, RLOO."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Epsilon, Options, Penalty

Relation: TypeAlias = Callable[[Array, stats.Ids], Array]
"""Values relative to those of their segment: [N], [N] -> [N]."""


@dataclass(frozen=True, kw_only=True)
class OfOutcomes(Options):
    """Base of methods that compare outcomes: those of trajectories, or of rows with a penalty.

    A row is one turn of a trajectory. Its score is the outcome, less the penalty if the turn is
    invalid; then the rows of a group are compared, and long trajectories count more.

    Source: verl-agent (STAPO App. E, iStar App. C), which takes the penalty off a row's score.

    Args:
        row_penalty: Penalty of an invalid turn, at least 0; 0 compares trajectories.
    """

    row_penalty: Penalty = 0.0

    def compare(self, turns: Turns, relate: Relation, outcome: Array) -> Array:
        """Outcomes relative to those of their group, by `relate(values, ids)`: [M] -> [N]."""
        if not self.row_penalty:
            return relate(outcome, turns.group)[turns.trajectory]
        return relate(self.penalize(turns, outcome[turns.trajectory]), turns.group_of_turn)

    def penalize(self, turns: Turns, score: Array) -> Array:
        """Scores of turns, less the penalty of those that are invalid: [N] -> [N]."""
        return score - self.row_penalty * ~turns.valid if self.row_penalty else score


def standardize_batch(x: Array, ids: stats.Ids, eps: float = 1e-6) -> Array:
    """`stats.standardize` over all values, whatever their ids: [N], [N] -> [N]."""
    return stats.standardize(x, np.zeros_like(ids), eps=eps)


@dataclass(frozen=True)
class Reinforce(OfOutcomes):
    """REINFORCE: the outcome itself.

    A(τ) = R(τ)

    Unbiased, but with the noise of the outcome's level, since there is no baseline.

    Source: Williams, 1992.
    """

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.compare(turns, lambda score, _: score, turns.outcome)


@dataclass(frozen=True)
class ReinforcePP(OfOutcomes):
    """REINFORCE++: the outcome, standardized over the batch.

    A(τ) = (R(τ) - mean) / (std + eps), with mean and std over the trajectories of the batch

    Bias: one scale for the whole batch, 1 / std; mean and std include the trajectory itself.

    Source: REINFORCE++ (Hu, 2025).

    Args:
        eps: Added to the standard deviation.

    Raises:
        ValueError: `eps` or `row_penalty` is negative.
    """

    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.compare(turns, partial(standardize_batch, eps=self.eps), turns.outcome)


@dataclass(frozen=True)
class GRPO(OfOutcomes):
    """GRPO: the outcome, standardized over the group.

    A(τ) = (R(τ) - mean) / (std + eps), with mean and std over the trajectories of the group

    Bias: the division weights tasks. In large groups with outcomes 0 and 1, a task that succeeds
    with probability p counts 1 / sqrt(p (1 - p)) times; rare and near-certain successes gain.

    Source: HAS Eq. 1, iStar Eq. 3, MT-GRPO Eq. 3.

    Args:
        eps: Added to the standard deviation.

    Raises:
        ValueError: `eps` or `row_penalty` is negative.
    """

    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.compare(turns, partial(stats.standardize, eps=self.eps), turns.outcome)


@dataclass(frozen=True)
class DrGRPO(OfOutcomes):
    """Dr. GRPO: the outcome minus the mean of the group; not divided by the deviation.

    A(τ) = R(τ) - mean

    Bias: (K - 1) / K times the true gradient, as the mean of K includes the trajectory itself.

    Source: Dr. GRPO (Liu et al., 2025).
    """

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.compare(turns, stats.center, turns.outcome)


@dataclass(frozen=True)
class RLOO(OfOutcomes):
    """RLOO: the outcome minus the mean outcome of the other trajectories of the group.

    A(τ_i) = R(τ_i) - mean over j ≠ i of R(τ_j)

    Unbiased for K ≥ 2.

    Source: MT-GRPO Eq. 5, MGR Eq. 6.
    """

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.compare(turns, stats.leave_one_out, turns.outcome)


@dataclass(frozen=True)
class MergedGRPO(OfOutcomes):
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
        return self.compare(turns, partial(stats.standardize, eps=self.eps), turns.outcome + paid)
