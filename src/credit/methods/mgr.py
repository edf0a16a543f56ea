"""MGR, multiplicative gated rewards: validity sets the sign, the trajectory's outcome the size."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Options, counting, nonnegative, positive, within

Share: TypeAlias = Annotated[float, within(0, 1, "it is compared with a share")]


def combine(
    local_reward: ArrayLike, global_reward: ArrayLike, gate: ArrayLike, conflict_scale: float
) -> Array:
    """Combine validity and outcome to the final reward of each turn: three times [N] -> [N].

    With L = R_local, G = R_global, and c = `conflict_scale` (γ in the paper):

        R_final = L |G|      if L and G have the same sign
                  c L G      if G > 0 > L (invalid turn of a good trajectory)
                  c g L |G|  if L > 0 > G (valid turn of a bad trajectory)
                  0          if L = 0 or G = 0

    Source: MGR Eq. 7.

    Args:
        local_reward: [N] R_local.
        global_reward: [N] R_global of the turn's trajectory.
        gate: [N] sign g of the gate, +1 keeps and -1 flips.
        conflict_scale: c.

    Returns:
        [N] R_final.
    """
    signal = np.asarray(local_reward, dtype=np.float64)
    size = np.asarray(global_reward, dtype=np.float64)
    product = signal * np.abs(size)
    conflict = np.sign(signal) * np.sign(size) < 0
    sign = np.where(signal > 0, np.asarray(gate, dtype=np.float64), 1.0)
    return np.where(conflict, conflict_scale * sign * product, product)


@dataclass(frozen=True)
class MGR(Options):
    """MGR: the validity of a turn times the relative outcome of its trajectory.

    R_final of Eq. 7 (see `combine`) from R_local (see `local_reward`) and R_global (see
    `global_reward`). Called with turns it returns R_final as a GRPO-style advantage, the same for
    every token of the turn. With a critic, `rewards` is the reward at the last token of each turn,
    and GAE computes the advantage.

    The gate draws a sign for each failed trajectory. Unless `gate` is "none", every call needs an
    `rng`: make one generator for a run and pass it at every step.

    Bias: the sign is that of validity and not of the effect. A valid action is raised where it
    lowers the chance of success, and without the gate in failures, too.

    Source: MGR Eq. 3-8.

    Args:
        beta: β ≥ 0, bonus of a valid turn after an invalid one, and penalty of the reverse.
        alpha: α ≥ 0, penalty of each repetition of a valid action beyond `q`. Eq. 4.
        q: Number of times that an action may occur without penalty.
        conflict_scale: γ > 0 in the paper, scale of R_final if R_local and R_global have opposite
            signs.
        gate: Draw one sign for each failed "trajectory" (§3.4) or for each "turn" (Algorithm 1),
            or "none".
        theta_v: θ_V, validity below which the gate keeps every sign. Eq. 8.
        theta_c1: θ_C1, completion below which the gate keeps every sign.
        theta_c2: θ_C2, completion from which on a sign is kept with probability `p_min`.
        delta: δ ≥ 0, decrease of the probability per unit of completion between the two.
        p_min: Probability from `theta_c2` on.

    Raises:
        ValueError: An option out of range. At the call: an outcome that is neither 0 nor 1.
        TypeError: At the call: an `rng` that is no generator.
    """

    reads_success: ClassVar[bool] = True

    unread: ClassVar[dict[str, str]] = {
        "alpha=0": "q",
        "gate=none": "theta_v theta_c1 theta_c2 delta p_min",
    }
    beta: Annotated[float, nonnegative("it is a bonus")] = 0.1
    alpha: Annotated[float, nonnegative("it is a penalty")] = 0.5
    q: Annotated[int, counting("it counts occurrences")] = 2
    conflict_scale: Annotated[float, positive("it scales rewards")] = 1.0
    gate: Literal["trajectory", "turn", "none"] = "trajectory"
    theta_v: Share = 0.4
    theta_c1: Share = 0.1
    theta_c2: Share = 0.6
    delta: Annotated[float, nonnegative("it lowers a probability")] = 1.5
    p_min: Annotated[float, within(0, 1, "it is a probability")] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.theta_c1 > self.theta_c2:
            shown = f"theta_c1={self.theta_c1}, theta_c2={self.theta_c2}"
            raise ValueError(f"theta_c1 must be at most theta_c2, got {shown}")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]; the same as `rewards`."""
        return self.rewards(turns, rng)

    def rewards(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """R_final of each turn: [N]. Eq. 7.

        Args:
            turns: The batch.
            rng: Draws the signs of the gate; not needed if `gate` is "none".

        Returns:
            [N] rewards. An invalid turn never gets a positive one.

        Raises:
            ValueError: An outcome is neither 0 nor 1.
            TypeError: `rng` is no generator.
        """
        local, relative = self.local_reward(turns), self.global_reward(turns)
        return combine(local, relative, self._gates(turns, rng), self.conflict_scale)

    def local_reward(self, turns: Turns) -> Array:
        """R_local of each turn: [N]. Eq. 3-5.

        R_local = v + h_temporal + h_repeat. v is +1 for a valid turn and -1 for an invalid one.
        h_temporal is +β for a valid turn after an invalid one, -β for the reverse. h_repeat is
        -α (N - q) when a valid action occurs for the N-th time in the trajectory and N > q.
        """
        valid = turns.valid
        sign = np.where(valid, 1.0, -1.0)
        before = np.r_[np.zeros(min(len(turns), 1)), sign[:-1]]
        changed = (turns.position > 0) & (before != sign)
        occurrences = np.zeros(len(turns))
        actions = stats.make_ids(turns.trajectory[valid], turns.action[valid])
        occurrences[valid] = stats.rank_position(actions) + 1
        local: Array = (
            sign + self.beta * sign * changed - self.alpha * np.maximum(occurrences - self.q, 0)
        )
        return local

    def global_reward(self, turns: Turns) -> Array:
        """R_global of each turn's trajectory, its leave-one-out outcome: [N]. Eq. 6.

        Raises:
            ValueError: An outcome is neither 0 nor 1.
        """
        turns.check_binary("S(τ) of MGR is success (Eq. 6)")
        return stats.leave_one_out(turns.outcome, turns.group)[turns.trajectory]

    def describe(self, turns: Turns) -> dict[str, float]:
        """For the log: `p_retain`, the share of failures whose valid turns are still rewarded."""
        return {"p_retain": self.p_retain(turns)}

    def p_retain(self, turns: Turns) -> float:
        """Probability that the gate keeps the positive sign. Eq. 8.

        1 if V < θ_V or C < θ_C1, 1 - δ C if θ_C1 ≤ C < θ_C2, p_min otherwise.
        """
        if not len(turns):
            return 1.0
        completion, validity = float(turns.outcome.mean()), float(turns.valid.mean())
        if validity < self.theta_v or completion < self.theta_c1:
            return 1.0
        return max(1 - self.delta * completion, 0) if completion < self.theta_c2 else self.p_min

    def _gates(self, turns: Turns, rng: np.random.Generator | None) -> Array:
        """Sign g of each turn, +1 or -1: [N]."""
        if self.gate == "none":
            return np.ones(len(turns))
        if not isinstance(rng, np.random.Generator):
            how = "make np.random.default_rng(seed) once and pass it at every step, mgr(turns, rng)"
            raise TypeError(f"gate={self.gate!r} draws signs and needs rng, got {rng!r:.60}; {how}")
        owner = np.arange(len(turns)) if self.gate == "turn" else turns.trajectory
        drawn = rng.random(int(owner.max(initial=-1)) + 1)
        return np.where(drawn < self.p_retain(turns), 1.0, -1.0)[owner]
