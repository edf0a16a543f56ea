"""HGPO: returns compared among turns with equal histories, of several lengths."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from credit import stats
from credit.methods.gigpo import Mode, returns_to_go
from credit.methods.trajectory import OfOutcomes
from credit.stats import Array, Ids
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Weight, counting, nonnegative


@dataclass(frozen=True)
class HGPO(OfOutcomes):
    """HGPO: hierarchy of groups of turns with the same state and the same states before it.

    A = ω A^E + Σ_k w_k A_k / (Σ_k w_k + 1e-6). On level k, 0 ≤ k ≤ K, turns of the group are
    compared whose last k + 1 states are equal; a turn at position t has the levels k ≤ t. A_k is
    the discounted return from the turn on (`gigpo.returns_to_go`), standardized among them (ddof
    0). w_k grows with the length of the history: (k + 2)^α in the authors' code, (k + 1)^α in the
    paper. A level without another turn, or with equal returns, is left out of both sums. A^E is
    the outcome, standardized over the turns of the group.

    Bias: that of `GiGPO`'s A^S. Without A^E, states that occur once learn nothing.

    Source: HGPO (He et al., 2026, arXiv 2602.22817); the code was read (verl-agent, pull request
    230), of the paper only secondary text. A group of one trajectory gets 0; in the code its own
    revisits are compared. The code leaves a level out where A_k is 0; here it must be 0 for all.

    Args:
        levels: K ≥ 0, number of earlier states in the longest history.
        alpha: α ≥ 0, exponent of the weights.
        gamma: Discount γ of the return, in [0, 1].
        weights: As in the authors' "code", or in the "paper".
        omega: ω ≥ 0, weight of A^E; 1 is the code's option base_group.
        mode: "mean_std_norm" divides by the standard deviation, "mean_norm" only subtracts the
            mean.
        eps: Added to standard deviations.
        row_penalty: Taken off the outcome and the return of an invalid turn, and of no other.

    Raises:
        ValueError: An option out of range.
    """

    reads_anchors: ClassVar[bool] = True
    reads_reward: ClassVar[bool] = True

    unread: ClassVar[dict[str, str]] = {"levels=0": "alpha weights", "alpha=0": "weights"}
    levels: Annotated[int, counting("it counts earlier states")] = 2
    alpha: Annotated[float, nonnegative("it is an exponent of weights")] = 1.0
    gamma: Discount = 0.95
    weights: Literal["code", "paper"] = "code"
    omega: Weight = 0.0
    mode: Mode = "mean_std_norm"
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        returns = self.penalize(turns, returns_to_go(turns, self.gamma))
        total, weight = np.zeros(len(turns)), np.zeros(len(turns))
        for level, ids in enumerate(self.histories(turns)):
            share = (level + (2 if self.weights == "code" else 1)) ** self.alpha
            share = share * stats.is_varied(returns, ids)
            total += share * self._relative(returns, ids)
            weight += share
        alone = (stats.count(turns.group) == 1)[turns.trajectory]
        step = np.where(alone, 0.0, total / (weight + 1e-6))
        score = self.penalize(turns, turns.outcome[turns.trajectory])
        whole = stats.standardize(score, turns.group_of_turn, eps=self.eps)
        return np.where(alone, 0.0, self.omega * whole) + step

    def histories(self, turns: Turns) -> list[Ids]:
        """Ids of equal histories on each level, a turn without the level by itself: [N] each."""
        states = turns.segment_ids("anchor")
        position, rows = turns.position, np.arange(len(turns))
        found = [states]
        for level in range(1, min(self.levels, int(position.max(initial=0))) + 1):
            before = np.r_[-1, found[-1][:-1]][: len(turns)]
            alone = np.where(position < level, rows, -1)
            found.append(stats.make_ids(states, before, alone))
        return found

    def _relative(self, returns: Array, ids: Ids) -> Array:
        """Returns relative to those of their segment: [N], [N] -> [N]."""
        if self.mode == "mean_norm":
            return stats.center(returns, ids)
        return stats.standardize(returns, ids, ddof=0, eps=self.eps)
