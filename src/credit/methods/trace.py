"""TRACE: how much nearer each turn brings the right answer, on a logarithmic scale."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Epsilon, Options, Weight, counting, positive, within


@dataclass(frozen=True)
class TRACE(Options):
    """TRACE: the outcome's advantage plus the gain of the next turns in finding the answer.

    A_t = A^O + ω c_t, and A^O on the last turn. A^O is the outcome, standardized over the group
    (ddof 0). With ℓ = `gold_logprob`, the gain of a turn is δ_t = log((b - ℓ_t) / (b - ℓ_{t+1})),
    where b keeps it finite, and c_t is the mean of the gains of the next H turns, weighted by 1, λ,
    λ², ... Where these reach the last but one turn, c_t also has κ λ^D A^O, for D turns up to and
    without the last one.

    Bias: the dense part is not centered, so that every group has signal, also one of equal
    outcomes, and turns that only repeat what is known get the reward of those after them. It pays
    the answer's probability and not the outcome.

    Source: TRACE (Tao et al., 2026, arXiv 2607.13988) Algorithm 1, from two independent
    reimplementations; the paper itself was not read, and a small reproduction had mixed results.
    The paper takes ℓ from the frozen reference and not from the policy. A group of one trajectory
    gets 0; the reimplementations keep the dense part.

    Args:
        omega: ω ≥ 0, weight of c.
        horizon: H, number of gains in the mean; 0 for none.
        decay: λ in [0, 1].
        fill: κ ≥ 0, weight of A^O at the end of a trajectory.
        offset: b > 0, in nats.
        eps: Added to the standard deviation.

    Raises:
        ValueError: An option out of range, or at the call `turns` has no `gold_logprob`.
    """

    needs: ClassVar[tuple[str, ...]] = ("gold_logprob",)
    reads_reference: ClassVar[bool] = True

    unread: ClassVar[dict[str, str]] = {
        "omega=0": "horizon decay fill offset", "horizon=0": "offset", "decay=0": "fill",
    }  # fmt: skip
    omega: Weight = 0.2
    horizon: Annotated[int, counting("it counts turns")] = 3
    decay: Annotated[float, within(0, 1, "it lowers the weight of later gains")] = 0.8
    fill: Weight = 2.0
    offset: Annotated[float, positive("it keeps a logarithm finite")] = 0.1
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        outcome = stats.standardize(turns.outcome, turns.group, ddof=0, eps=self.eps)
        whole = outcome[turns.trajectory]
        left = np.bincount(turns.trajectory)[turns.trajectory] - 1 - turns.position  # D
        ending = (left > 0) & (left <= max(self.horizon, 1))
        local = self._local(turns, left) + ending * self.fill * self.decay**left * whole
        alone = (stats.count(turns.group) == 1)[turns.trajectory]
        return np.where(alone, 0.0, whole + self.omega * np.where(turns.last, 0.0, local))

    def gains(self, turns: Turns) -> Array:
        """δ of each turn, 0 on the last one: [N]."""
        distance = np.log(self.offset - turns.read_measured("gold_logprob"))
        return np.where(turns.last, 0.0, distance - np.roll(distance, -1))

    def _local(self, turns: Turns, left: stats.Ids) -> Array:
        """Weighted mean of the gains of the next turns: [N], [N] -> [N]."""
        gains = self.gains(turns)
        total, weight = np.zeros(len(turns)), np.zeros(len(turns))
        for ahead in range(min(self.horizon, int(left.max(initial=0)))):
            rows = np.flatnonzero(left > ahead)
            total[rows] += self.decay**ahead * gains[rows + ahead]
            weight[rows] += self.decay**ahead
        return total / np.where(weight > 0, weight, 1.0)
