"""Kevin: the discounted return from each turn on, standardized over all turns of the group."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credit import stats
from credit.methods.gigpo import returns_to_go
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Options


@dataclass(frozen=True)
class Kevin(Options):
    """Kevin: the discounted return over the group.

    A_t = (R_t - mean) / (std + eps), with mean and std over all turns of all trajectories of the
    group. R_t = Σ_{k ≥ t} γ^{k-t} r_k, or the largest of these terms, and r_k is the score of the
    turn's own product, with the outcome added on the last turn. With one turn each this is `GRPO`.

    Bias: the baseline ignores the position, so that late turns of sparse successes gain and early
    ones lose, and long trajectories weigh more in mean and std; γ < 1 favours short ways.

    Source: Kevin (Baronio et al., 2025, arXiv 2507.11948). A group of one trajectory gets 0; in the
    paper its turns are compared with each other.

    Args:
        gamma: Discount γ in [0, 1].
        returns: R_t is the "sum" of the discounted scores, or their "max".
        eps: Added to the standard deviation.

    Raises:
        ValueError: An option out of range.
    """

    reads_reward: ClassVar[bool] = True

    gamma: Discount = 0.4
    returns: Literal["sum", "max"] = "sum"
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        found = returns_to_go(turns, self.gamma) if self.returns == "sum" else self._best(turns)
        standard = stats.standardize(found, turns.group_of_turn, eps=self.eps)
        alone = stats.count(turns.group) == 1
        return np.where(alone[turns.trajectory], 0.0, standard)

    def _best(self, turns: Turns) -> Array:
        """Largest discounted score from each turn on: [N]."""
        best = returns_to_go(turns, 0.0)  # the scores
        position = turns.position
        for step in range(int(position.max(initial=0)), 0, -1):
            rows = np.flatnonzero(position == step)
            best[rows - 1] = np.maximum(best[rows - 1], self.gamma * best[rows])
        return best
