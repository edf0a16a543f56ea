"""How right credit is: advantages of an estimator against measured true advantages.

The measured truth has an error of its own, which lowers every correlation with it. `fidelity` takes
the error out: with the reliability ρ = 1 − E[error²] / Var(truth), a correlation r with the
measured truth estimates r / √ρ with the exact one (Spearman 1904). The error must be independent of
the estimator's own, so no outcome that an estimator reads may enter the truth as an estimate.

Intervals are expanded percentiles of a bootstrap over task groups, as turns of one group share
rollouts; below 8 groups there is none, see `credit.intervals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credit.intervals import Score, interval, resampled
from credit.validation import as_array, as_finite, as_vector, check_positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from credit.segments import Array

NULL = 0.05
"""Turns whose true advantage is smaller, in units of the scale, are null: nothing was decided."""
CLEAR = 2.0
"""Turns count as clear if they are not null and their truth is this many errors away from 0."""


@dataclass(frozen=True)
class Fidelity:
    """How well advantages agree with the truth.

    Attributes:
        pearson: Correlation with the exact truth, corrected for the error of the measured one.
        spearman: Rank correlation with the measured truth. It is not corrected: many true
            advantages are nearly equal, and their ranks are mostly error.
        sign: Share of clear turns with the right sign; an advantage of 0 counts one half.
        null_share: Share of Σ|advantage| on null turns.
        gradient: Signal-to-noise ratio of the policy gradient, as a share of that with the true
            advantage; None without sketches. The signal is the slope of the advantage on the true
            one, the noise is the standard deviation of the gradient between groups. An unbiased
            estimator with 0.5 needs 4 times the groups for a gradient of the same accuracy. The
            noise of the true advantage is freed of the error of the measured one, whose errors are
            taken as independent between turns.
        reliability: ρ of the measured truth.
        turns: Number of turns.
        groups: Number of groups.
    """

    pearson: Score
    spearman: Score
    sign: Score
    null_share: Score
    gradient: Score | None
    reliability: float
    turns: int
    groups: int


def fidelity(
    advantage: ArrayLike,
    truth: ArrayLike,
    error: ArrayLike,
    group: ArrayLike,
    *,
    gradient: ArrayLike | None = None,
    scale: float = 1.0,
    seed: int = 0,
) -> Fidelity:
    """Compare an estimator's advantages with measured true advantages.

    Args:
        advantage: [N] what the estimator says of each turn, in any unit.
        truth: [N] measured advantage V(after) − V(before) of each turn.
        error: [N] standard error of each.
        group: [N] int, task group of each turn.
        gradient: [N, D] gradient of the log-probability of each turn's reply, or a sketch of it
            that keeps inner products, see `Truth.gradient`; None leaves that score out.
        scale: What the outcome can differ by, 1 if it is 0 or 1; null and clear turns are relative
            to it.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: Lengths differ, a value is NaN or infinite, an error is negative, there are
            fewer than two groups, or the truth is no larger than its error.
        TypeError: A column is not numeric.
    """
    found = compare({"": advantage}, truth, error, group, gradient=gradient, scale=scale, seed=seed)
    return found[""]


def compare(
    advantages: Mapping[str, ArrayLike],
    truth: ArrayLike,
    error: ArrayLike,
    group: ArrayLike,
    *,
    gradient: ArrayLike | None = None,
    baseline: str | None = None,
    scale: float = 1.0,
    seed: int = 0,
) -> dict[str, Fidelity]:
    """`fidelity` of several estimators, or their differences to one of them.

    Args:
        advantages: [N] advantages of each estimator, by name.
        truth: As in `fidelity`.
        error: As in `fidelity`.
        group: As in `fidelity`.
        gradient: As in `fidelity`.
        baseline: Name of an estimator. The scores are then differences to its scores, with
            intervals of the differences: both are scored on the same bootstrap samples.
        scale: As in `fidelity`.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: As `fidelity`; or the baseline is not among the names.
        TypeError: As `fidelity`.
    """
    if not isinstance(advantages, Mapping) or not advantages:
        raise TypeError("advantages must be a mapping from names to [N] advantages, at least one")
    check_positive("scale", scale, "it is what the outcome can differ by")
    measured = _Measured(truth, error, group, gradient=gradient, scale=scale, seed=seed)
    samples = {name: measured.scores(name, given) for name, given in advantages.items()}
    if baseline is not None:
        if baseline not in samples:
            raise ValueError(f"baseline {baseline!r} is none of {', '.join(map(repr, samples))}")
        own = samples[baseline]
        samples = {
            name: {score: rows - own[score] for score, rows in found.items()}
            for name, found in samples.items()
        }
    scored = {
        name: {score: interval(rows, measured.groups) for score, rows in found.items()}
        for name, found in samples.items()
    }
    return {
        name: Fidelity(
            pearson=found["pearson"],
            spearman=found["spearman"],
            sign=found["sign"],
            null_share=found["null_share"],
            gradient=found.get("gradient"),
            reliability=measured.reliability,
            turns=len(measured.truth),
            groups=measured.groups,
        )
        for name, found in scored.items()
    }


class _Measured:
    """The truth, with the weights of the groups in every bootstrap sample.

    Every score is a function of sums over turns, so a sample needs only the sums of each group.
    """

    def __init__(
        self,
        truth: ArrayLike,
        error: ArrayLike,
        group: ArrayLike,
        *,
        gradient: ArrayLike | None,
        scale: float,
        seed: int,
    ) -> None:
        self.truth, self.error = _numbers("truth", truth), _numbers("error", error)
        groups = as_vector("group", group, np.int64)
        for name, column in (("error", self.error), ("group", groups)):
            if len(column) != len(self.truth):
                raise ValueError(f"{name} has {len(column)} rows, truth has {len(self.truth)}")
        if (negative := np.flatnonzero(self.error < 0)).size:
            row = negative[0]
            raise ValueError(
                f"error row {row} is {self.error[row]}; standard errors are at least 0"
            )
        _, self.group = np.unique(groups, return_inverse=True)
        self.groups = int(self.group.max(initial=-1)) + 1
        if self.groups < 2:  # noqa: PLR2004
            raise ValueError(
                f"a score needs turns of at least 2 groups, and an interval of 8, got "
                f"{self.groups}; measure more tasks"
            )
        size = np.abs(self.truth)
        self.null = size < NULL * scale
        self.clear = ~self.null & (size >= CLEAR * self.error)
        self.weights = resampled(self.groups, seed)
        self.of_truth = self._moments(self.truth)
        self.noise = self._sums(self.error**2) / self._sums(np.ones(len(self.truth)))
        variance = self.of_truth[1][0]
        varies = not _flat(variance, self.of_truth[0][0])
        self.reliability = float(1 - self.noise[0] / variance) if varies else 0.0
        if self.reliability <= 0:
            raise ValueError(
                f"the truth has a variance of {variance:.3g} and a mean squared error of "
                f"{self.noise[0]:.3g}, so it says nothing; measure it with more rollouts"
            )
        self.ranks = self._moments(_ranks(self.truth))
        self.sketch = None if gradient is None else as_sketch(gradient, len(self.truth))
        if self.sketch is not None:
            noise = self._sums(self.error**2 * (self.sketch**2).sum(1)) / self.groups
            exact = self._variance(self.sketch, self.truth) - noise
            self.spread = np.sqrt(np.where(exact > 0, exact, np.nan))

    def scores(self, name: str, given: ArrayLike) -> dict[str, Array]:
        """Every score in the sample itself and in each bootstrap sample: [1 + resamples] each."""
        what = f"advantage of {name!r}" if name else "advantage"
        advantage = _numbers(what, given)
        if len(advantage) != len(self.truth):
            raise ValueError(
                f"{what} has {len(advantage)} rows, truth has {len(self.truth)}; an estimator "
                "returns one number for each turn"
            )
        advantage = advantage / (np.abs(advantage).max() or 1.0)  # squares of tiny ones would be 0
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {
                "pearson": self._correlation(advantage, self.truth, self.of_truth, self.noise),
                "spearman": self._correlation(
                    _ranks(advantage), _ranks(self.truth), self.ranks, np.zeros(1)
                ),
                "sign": self._sums(_agreement(advantage, self.truth) * self.clear)
                / self._sums(self.clear),
                "null_share": self._sums(np.abs(advantage) * self.null)
                / self._sums(np.abs(advantage)),
            }
            if self.sketch is not None:
                slope = self._slope(advantage)
                spread = np.sqrt(self._variance(self.sketch, advantage))
                found["gradient"] = np.where(spread > 0, slope * self.spread / spread, 0.0)
            return found

    def _slope(self, x: Array) -> Array:
        """Regression slope of x on the exact truth in every sample."""
        count = self._sums(np.ones(len(x)))
        product = self._sums(x * self.truth) / count
        middle = self._sums(x) * self._sums(self.truth) / count**2
        exact = self.of_truth[1] - self.noise
        found: Array = (product - middle) / np.where(exact > 0, exact, np.nan)
        return found

    def _variance(self, sketch: Array, x: Array) -> Array:
        """Variance between groups of the sum over turns of x times gradient, in every sample."""
        summed = np.zeros((self.groups, sketch.shape[1]))
        np.add.at(summed, self.group, x[:, None] * sketch)
        inner = summed @ summed.T
        squared = self.weights @ np.diag(inner) / self.groups
        of_mean = ((self.weights @ inner) * self.weights).sum(1) / self.groups**2
        found: Array = np.maximum(squared - of_mean, 0.0)
        return found

    def _correlation(self, x: Array, y: Array, of_y: tuple[Array, Array], noise: Array) -> Array:
        """Correlations of x with y without its noise; 0 where x is constant."""
        mean, variance = self._moments(x)
        product = self._sums(x * y) / self._sums(np.ones(len(x))) - mean * of_y[0]
        exact = of_y[1] - noise
        below = np.sqrt(variance * np.where(exact > 0, exact, np.nan))
        flat = _flat(variance, mean)
        found: Array = np.where(flat, 0.0, product / np.where(flat, 1.0, below))
        return found

    def _moments(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance in every sample."""
        count = self._sums(np.ones(len(x)))
        middle = float(x.mean()) if len(x) else 0.0
        mean = self._sums(x - middle) / count
        variance = self._sums((x - middle) ** 2) / count - mean**2
        return mean + middle, np.maximum(variance, 0.0)

    def _sums(self, x: NDArray[Any]) -> Array:
        """Sums over turns in every sample."""
        found: Array = self.weights @ np.bincount(self.group, x, self.groups)
        return found


def _flat(variance: Any, mean: Any) -> Any:
    """Whether a variance is what rounding leaves of 0."""
    return variance <= 1e-12 * (1e-300 + mean**2)


def as_sketch(given: ArrayLike, turns: int) -> Array:
    """Gradients or sketches of so many turns as floats, [N, D].

    Raises:
        ValueError: The shape is another, or a number is not finite.
        TypeError: It is not numeric.
    """
    found = as_array("gradient", given)
    if found.ndim != 2 or len(found) != turns or not found.size:  # noqa: PLR2004
        raise ValueError(
            f"gradient has shape {list(found.shape)}; it is [N, D] with a row for each of {turns} "
            "turns"
        )
    if found.dtype.kind not in "iuf":
        raise TypeError(f"gradient must be numeric, got {found.dtype}")
    as_finite("gradient", found.ravel())
    return found.astype(np.float64)


def _numbers(name: str, given: ArrayLike) -> Array:
    column: Array = as_vector(name, given, np.float64)
    as_finite(name, column)
    return column


def _ranks(x: Array) -> Array:
    """Ranks from 0, equal values share their mean rank: [N] -> [N]."""
    values, place, count = np.unique(x, return_inverse=True, return_counts=True)
    del values
    ranks: Array = (np.cumsum(count) - (count + 1) / 2)[place]
    return ranks


def _agreement(advantage: Array, truth: Array) -> Array:
    """1 where the signs are equal, 1/2 where the advantage is 0, else 0."""
    found: Array = (1 + np.sign(advantage) * np.sign(truth)) / 2
    return found
