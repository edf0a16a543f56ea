"""EMPG: advantages weighted by the certainty of the policy, measured by token entropy."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from credit import stats
from credit.methods.trajectory import OfOutcomes
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Epsilon, nonnegative

Certainty: TypeAlias = Annotated[float, nonnegative("it weights entropy")]


def min_max(x: Array) -> Array:
    """Scale to [0, 1] over the batch: [N] -> [N].

    y = (x - min) / (max - min), and 0 if all values are equal, but for rounding
    """
    if not stats.is_varied(x, np.zeros(len(x), dtype=np.intp)).any():
        return np.zeros(len(x))
    scaled: Array = (x - x.min()) / np.ptp(x)
    return scaled


@dataclass(frozen=True)
class EMPG(OfOutcomes):
    """EMPG: GRPO weighted by certainty, plus a bonus for turns that lead to a certain one.

    A_t = A^E g(H_t) + ζ f(H_{t+1}), minus the mean over the batch. A^E is the outcome, standardized
    over the group. H is the entropy, scaled to [0, 1] over the batch. g(H) = e^{-kH} / mean e^{-kH}
    and f(H) = e^{-k'H}; the bonus is 0 on the last turn of a trajectory.

    Bias: turns weigh by certainty and not by effect, and the bonus raises actions that lead to
    certain states, whatever the outcome.

    Source: EMPG (Wang et al., 2025).

    Args:
        k: k ≥ 0 in g.
        k_prime: k' ≥ 0 in f.
        zeta: ζ ≥ 0, weight of the bonus.
        eps: Added to the standard deviation in A^E.

    Raises:
        ValueError: A negative option. At the call: `turns` has no `entropy`.
    """

    needs: ClassVar[tuple[str, ...]] = ("entropy",)
    unread: ClassVar[dict[str, str]] = {"zeta=0": "k_prime"}
    k: Certainty = 1.0
    k_prime: Certainty = 1.0
    zeta: Certainty = 0.05
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        if not len(turns):
            return np.zeros(0)
        entropy = min_max(turns.read_measured("entropy"))
        certainty = np.exp(-self.k * entropy)
        episode = self.compare(turns, partial(stats.standardize, eps=self.eps), turns.outcome)
        bonus = np.where(turns.last, 0.0, np.exp(-self.k_prime * np.roll(entropy, -1)))
        advantage = episode * (certainty / certainty.mean()) + self.zeta * bonus
        return stats.center(advantage, np.zeros(len(turns), dtype=np.intp))
