"""GiGPO: the trajectory's advantage plus an advantage among turns that start in the same state."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from credit import anchors, segments
from credit.segments import Array
from credit.turns import Turns
from credit.validation import check_choice, check_nonnegative, check_range, check_similarity

BASELINES = ("trajectory", "step")
MODES = ("mean_std_norm", "mean_norm")
ANCHORS = ("exact", "similar")


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
    paid = turns.reward + np.where(turns.last, turns.outcome[turns.trajectory], 0.0)
    return segments.discounted_returns(paid, turns.trajectory, gamma)


@dataclass(frozen=True)
class GiGPO:
    """GiGPO: episode-level plus step-level advantage.

    A = A^E + ω A^S. A^E is the outcome, standardized over the group. A^S is the discounted return
    from the turn on (`returns_to_go`), standardized over the turns of the group in the same anchor
    state. A state that occurs once gives 0; if all states differ, this is GRPO.

    Bias: deviations of groups and of states weight their turns; γ < 1 favours short ways; how many
    turns a state has depends on the trajectory's own later turns; and rewards of turns, which A^E
    does not read, have ω of the weight of outcomes. With γ = 1 and "mean_norm" only the last two
    remain, and the factor (n - 1) / n of means that include the turn itself.

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

    Raises:
        ValueError: An option out of range.
    """

    omega: float = 1.0
    gamma: float = 0.95
    baseline: str = "trajectory"
    anchors: str = "exact"
    threshold: float = 0.9
    eps: float = 1e-6
    mode: str = "mean_std_norm"

    def __post_init__(self) -> None:
        check_range("gamma", self.gamma, 0, 1, "it discounts later rewards")
        check_nonnegative("omega", self.omega, "it weights an advantage")
        check_similarity("threshold", self.threshold)
        check_choice("baseline", self.baseline, BASELINES)
        check_choice("anchors", self.anchors, ANCHORS)
        check_choice("mode", self.mode, MODES)
        check_nonnegative("eps", self.eps, "it is added to a standard deviation")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        return self.episode_advantage(turns) + self.omega * self.step_advantage(turns)

    def episode_advantage(self, turns: Turns) -> Array:
        """A^E of each turn's trajectory: [N]."""
        if self.baseline == "step":
            return self._normalized(turns.outcome[turns.trajectory], turns.group_of_turn)
        return self._normalized(turns.outcome, turns.group)[turns.trajectory]

    def step_advantage(self, turns: Turns) -> Array:
        """A^S of each turn: [N]."""
        return self._normalized(returns_to_go(turns, self.gamma), self.state_ids(turns))

    def state_ids(self, turns: Turns) -> segments.Ids:
        """Id of the anchor state of each turn, different for different groups: [N]."""
        if self.anchors == "exact":
            return anchors.exact(turns.anchor, turns.group_of_turn)
        return anchors.similar(turns.anchor, turns.group_of_turn, self.threshold)

    def _normalized(self, x: Array, ids: ArrayLike) -> Array:
        """Values relative to those of their segment: [N], [N] -> [N]."""
        if self.mode == "mean_norm":
            return segments.center(x, ids)
        return segments.standardize(x, ids, eps=self.eps)
