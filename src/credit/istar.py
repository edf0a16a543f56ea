"""iStar and PRIME: advantages from implicit rewards, log-ratios of a learned model to the policy.

The rewards come as a verifier's column of `Turns`, named "implicit"; `implicit` (torch) makes them
from log-probabilities and has the losses.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from credit import segments
from credit.choices import choose, finite, nonnegative, text, within
from credit.segments import Array
from credit.turns import Turns

BASES = ("grpo", "rloo", "reinforce_pp")
VARIANTS = ("step", "merged", "environment")


@dataclass(frozen=True)
class IStar:
    """A = A^E + α A^S: [N]. iStar Eq. 3-5.

    A^E is the base method, A^S standardizes the implicit rewards of all turns of the group. Where
    the model is the old policy, rewards are 0 and this is the base method.

    Args:
        alpha: α ≥ 0, weight of A^S.
        base: "grpo", "rloo" or "reinforce_pp" for A^E.
        variant: "step"; or of Table 3 "merged", the base method of outcome + Σ implicit rewards,
            and "environment", the environment's rewards as A^S. (For "token" see `tokens`.)
        column: name of the implicit rewards in `turn_reward`.
        eps: added to the deviation in A^S.
    """

    alpha: float = 1.0
    base: str = "grpo"
    variant: str = "step"
    column: str = "implicit"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        nonnegative("alpha", self.alpha, "it weighs an advantage")
        choose("base", self.base, BASES)
        choose("variant", self.variant, VARIANTS)
        nonnegative("eps", self.eps, "it is added to a deviation")
        text("column", self.column)

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn; `rng` is not used.

        Raises:
            ValueError: `turns` has no such column.
        """
        if self.variant == "environment":
            return self.advantage(turns, turns.reward)
        return self.advantage(turns, turns.verified(self.column))

    def advantage(self, turns: Turns, implicit: ArrayLike) -> Array:
        """Advantage of turns with these implicit rewards: [N] -> [N]."""
        rewards = finite("implicit", implicit)
        if self.variant == "merged":
            total = np.bincount(turns.trajectory, rewards, len(turns.group))
            return self._episode(turns, turns.outcome + total)
        step = segments.standardize(rewards, turns.group_of_turn, eps=self.eps)
        return self._episode(turns, turns.outcome) + self.alpha * step

    def tokens(self, turns: Turns, implicit: ArrayLike, turn: ArrayLike) -> Array:
        """Advantage of each token, from token rewards and their turns: [P], [P] -> [P]. Table 3."""
        owner = np.asarray(turn, dtype=np.intp)
        step = segments.standardize(implicit, turns.group_of_turn[owner], eps=self.eps)
        return self._episode(turns, turns.outcome)[owner] + self.alpha * step

    def _episode(self, turns: Turns, outcome: Array) -> Array:
        if self.base == "rloo":
            return segments.leave_one_out(outcome, turns.group)[turns.trajectory]
        whole = turns.group if self.base == "grpo" else np.zeros(len(outcome), dtype=np.intp)
        return segments.standardize(outcome, whole)[turns.trajectory]


@dataclass(frozen=True)
class Prime:
    """Return-to-go of implicit rewards plus the outcome, each against the others: [N].

    PRIME (Cui et al., 2025), Eq. 5: each implicit reward minus the mean over the group's other
    trajectories of their mean reward, summed from the turn on; plus the outcome's leave-one-out.

    Args:
        gamma: discount of implicit rewards to come, in [0, 1].
        column: name of the implicit rewards in `turn_reward`.

    Raises:
        ValueError: an outcome that is not 0 or 1, or no such column.
    """

    gamma: float = 1.0
    column: str = "implicit"

    def __post_init__(self) -> None:
        within("gamma", self.gamma, 0, 1, "it discounts later rewards")
        text("column", self.column)

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn; `rng` is not used."""
        turns.check_binary("PRIME learns its model by cross-entropy against success")
        return self.advantage(turns, turns.verified(self.column), np.arange(len(turns)))

    def advantage(self, turns: Turns, implicit: ArrayLike, turn: ArrayLike) -> Array:
        """Advantage of turns or tokens, from their rewards and turns: [P], [P] -> [P]."""
        rewards, owner = finite("implicit", implicit), np.asarray(turn, np.intp)
        trajectory, count = turns.trajectory[owner], len(turns.group)
        length = np.bincount(trajectory, minlength=count)
        mean = np.bincount(trajectory, rewards, count) / np.maximum(length, 1)
        others = mean - segments.leave_one_out(mean, turns.group)
        alone = segments.count(turns.group) == 1
        relative = np.where(alone[trajectory], 0.0, rewards - others[trajectory])
        outcome = segments.leave_one_out(turns.outcome, turns.group)[trajectory]
        return outcome + segments.discounted(relative, trajectory, self.gamma)
