"""GiGPO: a trajectory's advantage plus, at states a group met more than once, a turn's own."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import anchors, segments
from credit.choices import choose, nonnegative, within
from credit.turns import Turns

BASELINES = ("trajectory", "step")
MODES = ("mean_std_norm", "mean_norm")
ANCHORS = ("exact", "similar")


def returns_to_go(turns: Turns, gamma: float) -> NDArray[np.float64]:
    """R_t = Σ_k γ^k r_{t+k}: [N], r being the turn's reward, plus the outcome on the last turn."""
    paid = turns.reward + np.where(turns.last, turns.outcome[turns.trajectory], 0.0)
    return segments.discounted(paid, turns.trajectory, gamma)


@dataclass(frozen=True)
class GiGPO:
    """A = A^E + ω A^S: [N]. GiGPO (Feng et al., 2025); STAPO Eq. 6-7.

    A^E is `grpo`. A^S standardizes the discounted return from the turn on within (group, anchor): a
    state that was visited once gives 0, so with all anchors distinct this is GRPO.

    Args:
        mode: "mean_std_norm" divides both by the deviation; "mean_norm" subtracts means only, as
            verl-agent's scripts for WebShop, Sokoban and EZPoints do.
        omega: ω, weight of A^S.
        gamma: γ, discount of the return, in [0, 1].
        baseline: A^E's mean and deviation count each "trajectory" once, or weigh it by its "step"s.
        anchors: states are the same if their keys are "exact"ly equal, or "similar" texts.
        threshold: similarity from which texts are of one state, in (0, 1].
        eps: added to deviations.
    """

    omega: float = 1.0
    gamma: float = 0.95
    baseline: str = "trajectory"
    anchors: str = "exact"
    threshold: float = 0.9
    eps: float = 1e-6
    mode: str = "mean_std_norm"

    def __post_init__(self) -> None:
        within("gamma", self.gamma, 0, 1, "it discounts later rewards")
        nonnegative("omega", self.omega, "it weighs an advantage")
        within("threshold", self.threshold, np.nextafter(0, 1), 1, "it is a similarity above 0")
        choose("baseline", self.baseline, BASELINES)
        choose("anchors", self.anchors, ANCHORS)
        choose("mode", self.mode, MODES)
        nonnegative("eps", self.eps, "it is added to a deviation")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        return self.episode(turns) + self.omega * self.step(turns)

    def episode(self, turns: Turns) -> NDArray[np.float64]:
        """A^E: [N]."""
        if self.baseline == "step":
            return self._relative(turns.outcome[turns.trajectory], turns.group_of_turn)
        return self._relative(turns.outcome, turns.group)[turns.trajectory]

    def step(self, turns: Turns) -> NDArray[np.float64]:
        """A^S: [N]."""
        return self._relative(returns_to_go(turns, self.gamma), self.states(turns))

    def _relative(self, x: NDArray[np.float64], ids: ArrayLike) -> NDArray[np.float64]:
        """Values among those of their segment: [N], [N] -> [N]."""
        if self.mode == "mean_norm":
            return segments.center(x, ids)
        return segments.standardize(x, ids, eps=self.eps)

    def states(self, turns: Turns) -> segments.Ids:
        """Ids of the states that turns were taken in: [N]."""
        if self.anchors == "exact":
            return anchors.exact(turns.anchor, turns.group_of_turn)
        return anchors.similar(turns.anchor, turns.group_of_turn, self.threshold)
