"""GiGPO: the trajectory's advantage plus an advantage among turns that start in the same state."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credit import anchors, stats
from credit.methods.trajectory import OfOutcomes
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Similarity, Weight

Mode: TypeAlias = Literal["mean_std_norm", "mean_norm"]
Anchors: TypeAlias = Literal["exact", "similar"]


def returns_to_go(turns: Turns, gamma: float) -> Array:
    """Discounted return from each turn on: [N].

    R_t = Σ_k γ^k r_{t+k}, where r is the turn's reward, plus the outcome on the last turn

    Source: GiGPO (Feng et al., 2025).

    Args:
        turns: The batch.
        gamma: Discount γ.

    Returns:
        [N] returns.
    """
    return stats.discounted_returns(turns.read_paid(), turns.trajectory, gamma)


@dataclass(frozen=True)
class GiGPO(OfOutcomes):
    """GiGPO: episode-level plus step-level advantage.

    A = A^E + ω A^S. A^E is the outcome, standardized over the group. A^S is the discounted return
    from the turn on (`returns_to_go`), standardized over the turns of the group in the same anchor
    state. A state that occurs once gives 0; if all states differ, this is GRPO.

    Bias: deviations of groups and of states weight their turns; γ < 1 favours short ways; how many
    turns a state has depends on the trajectory's own later turns; and what wrappers pay for turns,
    which A^E does not read, has ω of the weight of outcomes. With γ = 1 and "mean_norm" only the
    last two remain, and the factor (n - 1) / n of means that include the turn itself.

    Source: GiGPO (Feng et al., 2025), STAPO Eq. 6-7.

    Args:
        omega: ω ≥ 0, weight of A^S.
        gamma: Discount γ of the return, in [0, 1].
        baseline: Mean and deviation of A^E count each "trajectory" once, or once per "step" as in
            verl-agent.
        anchors: Two states are the same if their keys are "exact" matches, or "similar" texts.
        threshold: Similarity in (0, 1] from which on two texts are the same state.
        eps: Added to standard deviations.
        mode: "mean_std_norm" divides by the standard deviation, "mean_norm" only subtracts the
            mean. verl-agent's scripts for WebShop, Sokoban and EZPoints use the latter.
        row_penalty: Taken off the outcome and the return of an invalid turn, and of no other; above
            0 A^E counts steps.

    Raises:
        ValueError: An option out of range.
    """

    reads_anchors: ClassVar[bool] = True

    unread: ClassVar[dict[str, str]] = {
        "omega=0": "gamma anchors", "anchors=exact": "threshold", "mode=mean_norm": "eps",
        "row_penalty!=0": "baseline",
    }  # fmt: skip
    omega: Weight = 1.0
    gamma: Discount = 0.95
    baseline: Literal["trajectory", "step"] = "trajectory"
    anchors: Anchors = "exact"
    threshold: Similarity = 0.9
    eps: Epsilon = 1e-6
    mode: Mode = "mean_std_norm"

    @property
    def reads_reward(self) -> bool:
        """Whether it reads the rewards of turns."""
        return self.omega > 0

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.episode_advantage(turns) + self.omega * self.step_advantage(turns)

    def episode_advantage(self, turns: Turns) -> Array:
        """A^E of each turn's trajectory: [N]."""
        if self.row_penalty or self.baseline == "trajectory":
            return self.compare(turns, self._compare_rows, turns.outcome)
        return self._compare_rows(turns.outcome[turns.trajectory], turns.group_of_turn)

    def step_advantage(self, turns: Turns) -> Array:
        """A^S of each turn: [N]."""
        returns = self.penalize(turns, returns_to_go(turns, self.gamma))
        return self._compare_rows(returns, self.state_ids(turns))

    def state_ids(self, turns: Turns) -> stats.Ids:
        """Id of the anchor state of each turn, different for different groups: [N]."""
        if self.anchors == "exact":
            return anchors.exact(turns.anchor, turns.group_of_turn)
        return anchors.similar(turns.anchor, turns.group_of_turn, self.threshold)

    def describe(self, turns: Turns) -> dict[str, float]:
        """For the log: `group_size`, turns for each state."""
        return {"group_size": len(turns) / len(np.unique(self.state_ids(turns)))}

    def _compare_rows(self, x: Array, ids: ArrayLike) -> Array:
        """Values relative to those of their segment: [N], [N] -> [N]."""
        if self.mode == "mean_norm":
            return stats.center(x, ids)
        return stats.standardize(x, ids, eps=self.eps)
