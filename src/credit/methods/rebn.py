"""ReBN: the discounted return from each turn on, standardized over all turns of the batch."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credit import stats
from credit.methods.gigpo import returns_to_go
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Options


@dataclass(frozen=True)
class ReBN(Options):
    """Return batch normalization: the discounted return over the batch.

    A_t = (R_t - mean) / (std + eps), with mean and std over all turns of the batch, tasks together,
    and std² the sum of squared deviations by their number. R_t = Σ_{k ≥ t} γ^{k-t} r_k, with the
    outcome added to the last reward. With γ = 1, unpaid turns and trajectories of one length this
    is `ReinforcePP`, but for its std.

    Bias: one scale for the whole batch, whose mean and std include the turn itself. An easy task
    raises the baseline of a hard one; long trajectories weigh more in mean and std.

    Source: REINFORCE with ReBN of GEM (Liu et al., 2025, arXiv 2510.01051), from the authors'
    program: `compute_monte_carlo_advantages` of examples/train_oat/train_oat.py in axon-rl/gem at
    4069f2f. The number of its equation in the paper could not be read.

    Args:
        gamma: Discount γ in [0, 1]; GEM has 1, and 0.9 for its games.
        eps: Added to the standard deviation.

    Raises:
        ValueError: An option out of range.
    """

    reads_reward: ClassVar[bool] = True

    gamma: Discount = 1.0
    eps: Epsilon = 1e-9

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        batch = np.zeros(len(turns), dtype=np.intp)
        return stats.standardize(returns_to_go(turns, self.gamma), batch, ddof=0, eps=self.eps)
