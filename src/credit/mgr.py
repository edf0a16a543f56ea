"""MGR, multiplicative gated rewards: validity gives the sign, the trajectory the size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import segments
from credit.choices import choose, count, nonnegative, positive, within
from credit.turns import Turns

GATES = ("trajectory", "turn", "none")


@dataclass(frozen=True)
class Diagnostics:
    """What the gate saw and did in one batch.

    Attributes:
        completion: C, mean success of the trajectories.
        validity: V, share of valid turns.
        p_retain: Probability that a failed trajectory's valid turns keep their sign.
        flipped: Share of the gated turns (valid, in a failed trajectory) whose sign was flipped.
        positive, negative: Turns with a positive and with a negative reward.
    """

    completion: float
    validity: float
    p_retain: float
    flipped: float
    positive: int
    negative: int


def fuse(
    local: ArrayLike, standing: ArrayLike, gate: ArrayLike, conflict_scale: float
) -> NDArray[np.float64]:
    """R_final of R_local, R_global and the gate's sign g: [N], [N], [N] -> [N]. Eq. 7.

    L·|G| where the signs agree, γ·L·G where G > 0 > L, γ·g·L·|G| where G < 0 < L, else 0.
    """
    signal, size = np.asarray(local, dtype=np.float64), np.asarray(standing, dtype=np.float64)
    fused = signal * np.abs(size)
    conflict = np.sign(signal) * np.sign(size) < 0
    sign = np.where(signal > 0, np.asarray(gate, dtype=np.float64), 1.0)
    return np.where(conflict, conflict_scale * sign * fused, fused)


@dataclass(frozen=True)
class MGR:
    """Multiplicative gated rewards: [N].

    Called, it gives the GRPO-style advantage (every token of the turn gets R_final). With a critic,
    `rewards` is the reward at each turn's last token and GAE makes the advantage.

    The gate draws a sign for each failed trajectory from `rng`, which is therefore required unless
    `gate="none"`. Make one generator for a run and pass it at every step.

    Args:
        beta: β ≥ 0, bonus for a valid turn after an invalid one, and penalty the other way round.
        alpha: α ≥ 0, penalty of each repetition of a valid action beyond the first `q`. Eq. 4.
        q: Occurrences of an action that are free.
        conflict_scale: the paper's γ > 0, scale where the signs of turn and trajectory conflict.
        gate: One draw per failed "trajectory" (§3.4), one per "turn" (Algorithm 1), or "none".
        theta_v, theta_c1, theta_c2, delta, p_min: Schedule of the gate. Eq. 8.

    Raises:
        ValueError: an option out of range, an outcome that is not 0 or 1, or a call without `rng`.
    """

    beta: float = 0.1
    alpha: float = 0.5
    q: int = 2
    conflict_scale: float = 1.0
    gate: str = "trajectory"
    theta_v: float = 0.4
    theta_c1: float = 0.1
    theta_c2: float = 0.6
    delta: float = 1.5
    p_min: float = 0.1

    def __post_init__(self) -> None:
        choose("gate", self.gate, GATES)
        nonnegative("beta", self.beta, "it is a bonus")
        nonnegative("alpha", self.alpha, "it is a penalty")
        count("q", self.q, "it counts occurrences")
        within("p_min", self.p_min, 0, 1, "it is a probability")
        positive("conflict_scale", self.conflict_scale, "it scales rewards")
        for name in ("theta_v", "theta_c1", "theta_c2"):
            within(name, getattr(self, name), 0, 1, "it is compared with a share")
        nonnegative("delta", self.delta, "it lowers a probability")
        if self.theta_c1 > self.theta_c2:
            raise ValueError(
                f"theta_c1={self.theta_c1} must be at most theta_c2={self.theta_c2}, since the "
                f"gate closes as completion rises from one to the other"
            )

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn."""
        return self.rewards(turns, rng)

    def rewards(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """R_final of each turn: [N]. Eq. 7."""
        return fuse(
            self.local(turns), self.standing(turns), self._gates(turns, rng), self.conflict_scale
        )

    def local(self, turns: Turns) -> NDArray[np.float64]:
        """R_local = v + h: [N]. Eq. 3-5."""
        valid = turns.valid
        sign = np.where(valid, 1.0, -1.0)
        before = np.r_[np.zeros(min(len(turns), 1)), sign[:-1]]
        turned = (turns.position > 0) & (before != sign)
        occurrences = np.zeros(len(turns))
        actions = segments.labels(turns.trajectory[valid], turns.action[valid])
        occurrences[valid] = segments.rank_position(actions) + 1
        local: NDArray[np.float64] = (
            sign + self.beta * sign * turned - self.alpha * np.maximum(occurrences - self.q, 0)
        )
        return local

    def standing(self, turns: Turns) -> NDArray[np.float64]:
        """R_global of each turn's trajectory: [N]. Eq. 6."""
        turns.check_binary("S(τ) of MGR is success (Eq. 6)")
        return segments.leave_one_out(turns.outcome, turns.group)[turns.trajectory]

    def p_retain(self, turns: Turns) -> float:
        """Probability that the gate keeps the positive sign. Eq. 8."""
        if not len(turns):
            return 1.0
        completion, validity = float(turns.outcome.mean()), float(turns.valid.mean())
        if validity < self.theta_v or completion < self.theta_c1:
            return 1.0
        return max(1 - self.delta * completion, 0) if completion < self.theta_c2 else self.p_min

    def diagnostics(self, turns: Turns, rng: np.random.Generator | None = None) -> Diagnostics:
        """What `rewards` with the same `rng` state does to this batch."""
        gates = self._gates(turns, rng)
        local, standing = self.local(turns), self.standing(turns)
        gated = (local > 0) & (standing < 0)
        final = fuse(local, standing, gates, self.conflict_scale)
        return Diagnostics(
            completion=float(turns.outcome.mean()) if len(turns) else 0.0,
            validity=float(turns.valid.mean()) if len(turns) else 0.0,
            p_retain=self.p_retain(turns),
            flipped=float((gates[gated] < 0).mean()) if gated.any() else 0.0,
            positive=int((final > 0).sum()),
            negative=int((final < 0).sum()),
        )

    def _gates(self, turns: Turns, rng: np.random.Generator | None) -> NDArray[np.float64]:
        """Sign g of each turn, +1 or -1: [N]."""
        if self.gate == "none":
            return np.ones(len(turns))
        if rng is None:
            raise ValueError(
                f"gate={self.gate!r} draws signs: make rng = np.random.default_rng(seed) once and "
                f'call mgr(turns, rng) with it at every step, or choose gate="none"'
            )
        size = len(turns) if self.gate == "turn" else len(turns.group)
        signs = np.where(rng.random(size) < self.p_retain(turns), 1.0, -1.0)
        return signs if self.gate == "turn" else signs[turns.trajectory]
