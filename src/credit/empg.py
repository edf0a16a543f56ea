"""EMPG: sure turns count more, and turns that lead to sure ones get a bonus."""

from dataclasses import dataclass

import numpy as np

from credit import segments
from credit.choices import nonnegative
from credit.segments import Array
from credit.turns import Turns


def min_max(x: Array) -> Array:
    """X scaled to [0, 1] over the batch: [N] -> [N]; 0 if all are equal."""
    spread = np.ptp(x) if len(x) else 0.0
    scaled: Array = (x - x.min(initial=np.inf)) / spread if spread else np.zeros(len(x))
    return scaled


@dataclass(frozen=True)
class EMPG:
    """A = A^E g(H_t) + ζ f(H_{t+1}), minus its mean over the batch: [N]. EMPG (Wang et al., 2025).

    H is the entropy scaled to [0, 1] over the batch, g(H) = e^{-kH} / mean e^{-kH},
    f(H) = e^{-k'H}, and 0 after a trajectory's last turn.

    Args:
        k: k ≥ 0 of g.
        k_prime: k' ≥ 0 of f.
        zeta: ζ ≥ 0, weight of the bonus for clarity to come.
        eps: added to the deviation in A^E.
    """

    k: float = 1.0
    k_prime: float = 1.0
    zeta: float = 0.05
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("k", "k_prime", "zeta"):
            nonnegative(name, getattr(self, name), "it weighs entropy")
        nonnegative("eps", self.eps, "it is added to a deviation")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn; `rng` is not used.

        Raises:
            ValueError: `turns` has no entropy.
        """
        if not len(turns):
            return np.zeros(0)
        entropy = min_max(turns.uncertainty())
        sure = np.exp(-self.k * entropy)
        episode = segments.standardize(turns.outcome, turns.group, eps=self.eps)[turns.trajectory]
        following = np.where(turns.last, 0.0, np.exp(-self.k_prime * np.roll(entropy, -1)))
        advantage = episode * (sure / sure.mean()) + self.zeta * following
        whole = np.zeros(len(turns), dtype=np.intp)
        return segments.center(advantage, whole)
