"""iStar and PRIME: advantages from implicit rewards.

Implicit rewards are log-ratios of a trained model to a reference. `implicit` (torch) computes them
from log-probabilities and has the losses of the model. Here they are a verifier's column of
`Turns`, named "implicit".
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from credit import segments
from credit.estimators import check_turns
from credit.options import Discount, Epsilon, Options, Text, Weight
from credit.segments import Array
from credit.turns import Turns
from credit.validation import as_finite


@dataclass(frozen=True)
class IStar(Options):
    """iStar: a trajectory-level method plus the standardized implicit reward of each turn.

    A_t = A^E + α A^S_t. A^E is the advantage of the base method. A^S is the implicit reward,
    standardized over all turns of the group. As long as the model equals the old policy, implicit
    rewards are 0 and this is the base method.

    Bias: A^E has that of its base. A^S adds a term of unit size whatever the size of the rewards.
    With exact advantages as rewards its direction is nearly the true one; with those of a learned
    model it is as wrong as the model.

    Source: iStar Eq. 3-5.

    Args:
        alpha: α ≥ 0, weight of A^S.
        base: Base method: "grpo", "rloo" or "reinforce_pp".
        variant: "step" is the paper's method, the others are ablations of its Table 3: "merged" is
            the base method on the outcome plus all implicit rewards, "environment" takes the
            environment's rewards for A^S. For token-level rewards see `token_advantage`.
        column: Name of the implicit rewards in `turn_reward_names`.
        scale: A^S is centered over the turns of the group and divided by their deviation, "std", or
            by the largest absolute reward of the batch, "max", which keeps the rewards' relative
            sizes between groups. The authors' released program centers without deviations by
            default; the division by the maximum was not found in the file that was read
            (core_istar.py).
        eps: Added to the standard deviation in A^S.

    Raises:
        ValueError: An option out of range. At the call: `turns` has no column of that name.
    """

    alpha: Weight = 1.0
    base: Literal["grpo", "rloo", "reinforce_pp"] = "grpo"
    variant: Literal["step", "merged", "environment"] = "step"
    column: Text = "implicit"
    scale: Literal["std", "max"] = "std"
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        check_turns(turns)
        if self.variant == "environment":
            return self.advantage(turns, turns.reward)
        return self.advantage(turns, turns.verifier_reward(self.column))

    def advantage(self, turns: Turns, implicit: ArrayLike) -> Array:
        """Advantage of each turn from given implicit rewards: [N] -> [N]."""
        rewards = as_finite("implicit", implicit)
        if self.variant == "merged":
            total = np.bincount(turns.trajectory, rewards, len(turns.group))
            return self._episode_advantage(turns, turns.outcome + total)
        step = self._step_advantage(rewards, turns.group_of_turn)
        return self._episode_advantage(turns, turns.outcome) + self.alpha * step

    def token_advantage(self, turns: Turns, implicit: ArrayLike, turn: ArrayLike) -> Array:
        """Advantage of each token from token-level implicit rewards: [P], [P] -> [P].

        Source: iStar Table 3 (ablation).

        Args:
            turns: The batch.
            implicit: [P] implicit reward of each token.
            turn: [P] int, turn of each token.

        Returns:
            [P] advantages; A^S compares all tokens of the group.
        """
        owner = np.asarray(turn, dtype=np.intp)
        step = self._step_advantage(as_finite("implicit", implicit), turns.group_of_turn[owner])
        return self._episode_advantage(turns, turns.outcome)[owner] + self.alpha * step

    def _step_advantage(self, rewards: Array, group: segments.Ids) -> Array:
        """A^S: [P], [P] -> [P]."""
        if self.scale == "std":
            return segments.standardize(rewards, group, eps=self.eps)
        largest = np.abs(rewards).max(initial=0.0)
        return segments.center(rewards, group) / (largest or 1.0)

    def _episode_advantage(self, turns: Turns, outcome: Array) -> Array:
        if self.base == "rloo":
            return segments.leave_one_out(outcome, turns.group)[turns.trajectory]
        ids = turns.group if self.base == "grpo" else np.zeros(len(outcome), dtype=np.intp)
        return segments.standardize(outcome, ids)[turns.trajectory]


@dataclass(frozen=True)
class Prime(Options):
    """PRIME: leave-one-out outcome plus the return-to-go of relative implicit rewards.

    A_t = LOO(R) + Σ_k γ^k (r_{t+k} - b). LOO(R) is the outcome minus the mean outcome of the other
    trajectories of the group. b is the mean implicit reward of each of the other trajectories,
    averaged over them. A trajectory that is alone in its group has the advantage 0.

    Bias: with exact advantages as implicit rewards, twice the true gradient where trajectories have
    equal lengths; b is subtracted once for each remaining turn, which rewards or punishes length.

    Source: PRIME (Cui et al., 2025) Eq. 5.

    Args:
        gamma: Discount γ of later implicit rewards, in [0, 1].
        column: Name of the implicit rewards in `turn_reward_names`.

    Raises:
        ValueError: An option out of range. At the call: an outcome that is neither 0 nor 1, or
            `turns` has no column of that name.
    """

    reads_success: ClassVar[bool] = True

    gamma: Discount = 1.0
    column: Text = "implicit"

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        check_turns(turns)
        turns.check_binary("PRIME trains its model by cross-entropy against success")
        rewards = turns.verifier_reward(self.column)
        return self.advantage(turns, rewards, np.arange(len(turns)))

    def advantage(self, turns: Turns, implicit: ArrayLike, turn: ArrayLike) -> Array:
        """Advantage of each turn or token from given implicit rewards: [P], [P] -> [P].

        Args:
            turns: The batch.
            implicit: [P] implicit reward of each turn or token, in order.
            turn: [P] int, turn of each reward.

        Returns:
            [P] advantages.
        """
        rewards, owner = as_finite("implicit", implicit), np.asarray(turn, np.intp)
        trajectory, count = turns.trajectory[owner], len(turns.group)
        length = np.bincount(trajectory, minlength=count)
        mean = np.bincount(trajectory, rewards, count) / np.maximum(length, 1)
        others = mean - segments.leave_one_out(mean, turns.group)
        alone = segments.count(turns.group) == 1
        relative = np.where(alone[trajectory], 0.0, rewards - others[trajectory])
        outcome = segments.leave_one_out(turns.outcome, turns.group)[trajectory]
        return outcome + segments.discounted_returns(relative, trajectory, self.gamma)
