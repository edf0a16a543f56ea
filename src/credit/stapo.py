"""STAPO: turns of unusual confidence for their state, to be pulled back to goal and history.

The advantage is GiGPO's. `mask` says which turns get the selective terms, whose values need the
policy's log-probabilities and are in `selective` (torch).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import segments
from credit.choices import choose, finite, nonnegative, within
from credit.gigpo import GiGPO
from credit.segments import Array
from credit.turns import Turns

CHOICES = {
    "singleton": ("zero", "raw"),
    "masking": ("both", "goal", "history", "none"),
    "entropy": ("normalized", "shannon"),
    "penalty": ("selective", "single"),
    "estimator": ("exact", "k3"),
}


def normalized_entropy(
    entropy: ArrayLike, states: ArrayLike, *, singleton: str = "zero", eps: float = 1e-6
) -> Array:
    """H_n = (H - μ) / (σ + eps) within the state: [N], [N] -> [N]. Eq. 2.

    A state visited once has no deviation: 0, or the raw H with singleton "raw".
    """
    choose("singleton", singleton, CHOICES["singleton"])
    normalized = segments.standardize(entropy, states, eps=eps)
    if singleton == "zero":
        return normalized
    return np.where(segments.count(states) == 1, np.asarray(entropy, np.float64), normalized)


def fences(x: ArrayLike, lam: float = 1.5) -> tuple[float, float]:
    """Tukey's Q1 - λ IQR and Q3 + λ IQR of a batch: [N] -> two numbers.

    Quartiles are linearly interpolated; λ = ∞ fences nothing out.
    """
    within("lam", lam, 0, np.inf, "it counts interquartile ranges")
    values = finite("x", x)
    if not len(values) or np.isinf(lam):
        return -np.inf, np.inf
    first, third = np.quantile(values, [0.25, 0.75])
    reach = lam * (third - first)
    return float(first - reach), float(third + reach)


def outliers(x: ArrayLike, lam: float = 1.5) -> NDArray[np.bool_]:
    """Mask M of values outside the fences of their batch: [N] -> [N] bool. Eq. 3."""
    low, high = fences(x, lam)
    values = np.asarray(x, dtype=np.float64)
    return (values < low) | (values > high)


@dataclass(frozen=True)
class STAPO:
    """GiGPO's advantage, and the mask and weights of the selective terms: [N]. STAPO Eq. 1-10.

    The objective adds M (α R_TA - γ P_TI) to each turn, see `selective.objective`.

    Args:
        lam: λ ≥ 0, interquartile ranges beyond which a turn is an outlier; `inf`: none is.
        alpha: α, weight of the trajectory-aware reward R_TA (0.001 for search QA).
        beta: β, weight of the KL to the reference in the base objective.
        penalty_weight: the paper's γ, weight of the trajectory-independent penalty P_TI.
        omega: ω, weight of the advantage within the state.
        gamma: discount of the return that GiGPO compares, in [0, 1].
        singleton: what a state visited once gets as H_n: "zero", or the "raw" entropy.
        masking: what a blind prompt leaves out; "none" makes this GiGPO.
        entropy: outliers of the "normalized" entropy, or of the plain "shannon" one (ablation).
        penalty: P_TI on the outliers ("selective"), or a "single" KL on all turns instead.
        estimator: KL from full logits, "exact", or from sampled log-probabilities, "k3".
        anchors, threshold, eps: as in `GiGPO`.
    """

    lam: float = 1.5
    alpha: float = 0.01
    beta: float = 0.01
    penalty_weight: float = 0.01
    omega: float = 1.0
    gamma: float = 0.95
    singleton: str = "zero"
    masking: str = "both"
    entropy: str = "normalized"
    penalty: str = "selective"
    estimator: str = "exact"
    anchors: str = "exact"
    threshold: float = 0.9
    eps: float = 1e-6

    clip_low: ClassVar[float] = 0.2
    clip_high: ClassVar[float] = 0.2
    dynamic_sampling: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            choose(name, getattr(self, name), allowed)
        within("lam", self.lam, 0, np.inf, "it counts interquartile ranges")
        for name in ("alpha", "beta", "penalty_weight"):
            nonnegative(name, getattr(self, name), "it is a weight")
        self.base  # noqa: B018  checks the rest

    @property
    def base(self) -> GiGPO:
        """The method whose advantage this is."""
        return GiGPO(
            omega=self.omega,
            gamma=self.gamma,
            anchors=self.anchors,
            threshold=self.threshold,
            eps=self.eps,
        )

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn; `rng` is not used. Eq. 6-7."""
        return self.base(turns)

    def score(self, turns: Turns) -> Array:
        """What outliers are outliers of: H_n, or H with entropy "shannon": [N]."""
        if self.entropy == "shannon":
            return turns.uncertainty()
        states = self.base.states(turns)
        entropy = turns.uncertainty()
        return normalized_entropy(entropy, states, singleton=self.singleton, eps=self.eps)

    def mask(self, turns: Turns) -> NDArray[np.bool_]:
        """M, the turns that get the selective terms: [N] bool. Eq. 3."""
        if self.masking == "none":
            return np.zeros(len(turns), dtype=np.bool_)
        return outliers(self.score(turns), self.lam)

    def weights(self, turns: Turns) -> tuple[Array, Array]:
        """Weights of R_TA and of P_TI in the objective: [N], [N]. Eq. 10.

        With penalty "single" no turn has a P_TI: β times the usual KL is all.
        """
        chosen = self.mask(turns).astype(np.float64)
        return self.alpha * chosen, (self.penalty == "selective") * self.penalty_weight * chosen


@dataclass(frozen=True)
class STAPODynamic(STAPO):
    """STAPO with DAPO's clip-higher and dynamic sampling: [N]. STAPO App. F.

    The advantage is the same; a trainer reads `clip_low`, `clip_high` and `dynamic_sampling`, and
    drops trajectories outside `filters.informative`.
    """

    clip_high: ClassVar[float] = 0.28
    dynamic_sampling: ClassVar[bool] = True
