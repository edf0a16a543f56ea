"""iStar and PRIME: advantages from implicit rewards, and the losses of the model that gives them.

The implicit reward of a token is β (log π_φ - log π_ref), from a trained model π_φ and a reference.
The reference of iStar is the previous policy. Only tokens that the agent wrote are passed. The
estimators read the rewards of turns from a verifier's column of `Turns`, named "implicit". The
functions of log-probabilities need torch, which they import when called.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import stats
from credit.methods.trajectory import OfOutcomes, standardize_batch
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Weight, as_finite

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class IStar(OfOutcomes):
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
            the base method on the outcome plus all implicit rewards, "environment" takes what
            the environment paid for each turn, the end included, for A^S. For rewards of tokens
            see `token_advantage`.
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

    unread: ClassVar[dict[str, str]] = {
        "variant=merged": "alpha scale eps", "variant=environment": "column", "scale=max": "eps",
        "alpha=0": "scale eps",
    }  # fmt: skip
    alpha: Weight = 1.0
    base: Literal["grpo", "rloo", "reinforce_pp"] = "grpo"
    variant: Literal["step", "merged", "environment"] = "step"
    column: str = "implicit"
    scale: Literal["std", "max"] = "std"
    eps: Epsilon = 1e-6

    @property
    def reads_reward(self) -> bool:
        """Whether it reads the rewards of turns."""
        return self.variant == "environment"

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        if self.variant == "environment":
            return self.advantage(turns, turns.read_paid())
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

    def _step_advantage(self, rewards: Array, group: stats.Ids) -> Array:
        """A^S: [P], [P] -> [P]."""
        if self.scale == "std":
            return stats.standardize(rewards, group, eps=self.eps)
        return stats.center(rewards, group) / (np.abs(rewards).max(initial=0.0) or 1.0)

    def _episode_advantage(self, turns: Turns, outcome: Array) -> Array:
        if self.base == "rloo":
            return self.compare(turns, stats.leave_one_out, outcome)
        if self.base == "reinforce_pp":
            return self.compare(turns, standardize_batch, outcome)
        return self.compare(turns, stats.standardize, outcome)


@dataclass(frozen=True)
class Prime(OfOutcomes):
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
    column: str = "implicit"

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        turns.check_binary("PRIME trains its model by cross-entropy against success")
        return self.advantage(turns, turns.verifier_reward(self.column), np.arange(len(turns)))

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
        others = mean - stats.leave_one_out(mean, turns.group)
        alone = stats.count(turns.group) == 1
        relative = np.where(alone[trajectory], 0.0, rewards - others[trajectory])
        outcome = self.compare(turns, stats.leave_one_out, turns.outcome)[owner]
        return outcome + stats.discounted_returns(relative, trajectory, self.gamma)


def token_rewards(logprobs: "Tensor", reference: "Tensor", *, beta: float = 0.05) -> "Tensor":
    """Implicit reward of each token: [P], [P] -> [P].

    r = β (log π_φ - log π_ref)

    Source: PRIME Eq. 3.

    Args:
        logprobs: [P] log-probabilities of the tokens under the model, in nats.
        reference: [P] those under the reference.
        beta: Scale β > 0.

    Returns:
        [P] rewards; at least float32.
    """
    from credit.losses import upcast

    return beta * (upcast(logprobs) - upcast(reference))


def turn_rewards(
    logprobs: "Tensor", reference: "Tensor", turn: "Tensor", count: int, *, beta: float = 0.05
) -> "Tensor":
    """Implicit reward of each turn: [P], [P], [P] -> [N].

    r_φ(a_t) = Σ β (log π_φ - log π_ref), summed over the tokens of the turn

    Source: iStar Eq. 1.

    Args:
        logprobs: [P] log-probabilities of the tokens under the model, in nats.
        reference: [P] those under the reference.
        turn: [P] int, turn of each token.
        count: Number of turns N.
        beta: Scale β > 0.

    Returns:
        [N] rewards, 0 for a turn without tokens; at least float32.
    """
    from credit.losses import segment_sum

    return segment_sum(token_rewards(logprobs, reference, beta=beta), turn, count)


def preference_pairs(turns: Turns, *, threshold: float = 0.0) -> NDArray[np.intp]:
    """All pairs of a better and a worse trajectory of one group: -> [K, 2].

    (τ+, τ-) with R(τ+) > threshold ≥ R(τ-)

    Source: iStar Eq. 2.

    Args:
        turns: The batch, with outcomes R.
        threshold: Outcome that separates better from worse trajectories.

    Returns:
        [K, 2] int, the better trajectory first.
    """
    good = turns.outcome > threshold
    found = [
        np.stack(np.meshgrid(members[good[members]], members[~good[members]]), -1).reshape(-1, 2)
        for members in _members(turns.group)
    ]
    return np.concatenate(found) if found else np.zeros((0, 2), dtype=np.intp)


def _members(group: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """The trajectories of each group."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []


def measure_accuracy(returns: Array, pairs: NDArray[np.intp]) -> float:
    """Share of pairs whose better trajectory has the higher return: [M], [K, 2] -> a share.

    Equal returns count half. There must be a pair.
    """
    lead = returns[pairs[:, 0]] - returns[pairs[:, 1]]
    return float(np.mean((lead > 0) + 0.5 * (lead == 0)))


def dpo_loss(returns: "Tensor", pairs: NDArray[np.intp]) -> "Tensor":
    """Multi-turn DPO loss, the mean over pairs: [M], [K, 2] -> scalar.

    -log σ(Σ_t r(τ+) - Σ_t r(τ-))

    With the implicit rewards of the policy itself this is multi-turn DPO of the policy.

    Source: iStar Eq. 2.

    Args:
        returns: [M] sum of the implicit rewards of each trajectory.
        pairs: [K, 2] trajectories, from `preference_pairs`.

    Returns:
        The loss; 0 without pairs.
    """
    from torch.nn import functional

    if not len(pairs):
        return returns.sum() * 0.0
    return -functional.logsigmoid(returns[pairs[:, 0]] - returns[pairs[:, 1]]).mean()


def prime_loss(returns: "Tensor", outcome: "Tensor") -> "Tensor":
    """Cross-entropy of σ(Σ r) against success, the mean over trajectories: [M], [M] -> scalar.

    -R log σ(Σ_t r_t) - (1 - R) log(1 - σ(Σ_t r_t))

    Source: PRIME Eq. 4.

    Args:
        returns: [M] sum of the implicit rewards of each trajectory.
        outcome: [M] outcome R, 0 or 1.

    Returns:
        The loss.
    """
    from torch.nn import functional

    return functional.binary_cross_entropy_with_logits(returns, outcome.to(returns))
