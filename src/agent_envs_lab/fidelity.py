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
from numpy.typing import ArrayLike

from agent_envs_lab.intervals import FEWEST, Bootstrap, Score, interval
from credit.validation import as_finite, as_vector, check_length, check_positive, check_rows

if TYPE_CHECKING:
    from credit.stats import Array

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
        ValueError: As `fidelity`.
        TypeError: As `fidelity`.
    """
    check_positive("scale", scale, "it is what the outcome can differ by")
    measured = _Measured(truth, error, group, gradient=gradient, scale=scale, seed=seed)
    samples = {name: measured.scores(name, given) for name, given in advantages.items()}
    if baseline is not None:
        own = samples[baseline]
        samples = {
            name: {score: rows - own[score] for score, rows in found.items()}
            for name, found in samples.items()
        }
    return {name: measured.fidelity(found) for name, found in samples.items()}


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
        self.truth, self.error = as_vector("truth", truth), as_vector("error", error)
        groups = as_vector("group", group, np.int64)
        for name, column in (("error", self.error), ("group", groups)):
            check_length(name, column, "truth", len(self.truth))
        check_rows("error", self.error, self.error >= 0, "standard errors are at least 0")
        if (count := len(np.unique(groups))) <= 1:
            raise ValueError(
                f"a score needs turns of at least 2 groups, and an interval of {FEWEST}, got "
                f"{count}; measure more tasks"
            )
        self.sample = Bootstrap(groups, seed)
        self.count = self.sample.sums(np.ones(len(self.truth)))
        size = np.abs(self.truth)
        self.null = size < NULL * scale
        self.clear = ~self.null & (size >= CLEAR * self.error)
        self.of_truth = self._moments(self.truth)
        self.noise = self.sample.sums(self.error**2) / self.count
        self.reliability = self._reliability()
        self.ranks = self._moments(_ranks(self.truth))
        self.sketch = None if gradient is None else as_sketch(gradient, len(self.truth))
        if self.sketch is not None:
            noise = self.sample.sums(self.error**2 * (self.sketch**2).sum(1)) / self.sample.groups
            exact = self._variance(self.sketch, self.truth) - noise
            self.spread = np.sqrt(np.where(exact > 0, exact, np.nan))

    def _reliability(self) -> float:
        """Share of the variance of the measured truth that is not error."""
        (mean, *_), (variance, *_) = self.of_truth
        varies = not _flat(variance, mean)
        found = float(1 - self.noise[0] / variance) if varies else 0.0
        if found <= 0:
            raise ValueError(
                f"the truth has a variance of {variance:.3g} and a mean squared error of "
                f"{self.noise[0]:.3g}, so it says nothing; measure it with more rollouts"
            )
        return found

    def fidelity(self, samples: Mapping[str, Array]) -> Fidelity:
        """Scores with intervals, from each score in every sample."""
        groups = self.sample.groups
        scores: dict[str, Any] = {name: interval(rows, groups) for name, rows in samples.items()}
        return Fidelity(
            **{"gradient": None} | scores,
            reliability=self.reliability,
            turns=len(self.truth),
            groups=groups,
        )

    def scores(self, name: str, given: ArrayLike) -> dict[str, Array]:
        """Every score in the sample itself and in each bootstrap sample: [1 + resamples] each."""
        what = f"advantage of {name!r}" if name else "advantage"
        advantage = as_vector(what, given)
        check_length(what, advantage, "truth", len(self.truth))
        sums = self.sample.sums
        advantage = advantage / (np.abs(advantage).max() or 1.0)  # squares of tiny ones would be 0
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {
                "pearson": self._correlation(advantage, self.truth, self.of_truth, self.noise),
                "spearman": self._correlation(
                    _ranks(advantage), _ranks(self.truth), self.ranks, np.zeros(1)
                ),
                "sign": sums(_agreement(advantage, self.truth) * self.clear) / sums(self.clear),
                "null_share": sums(np.abs(advantage) * self.null) / sums(np.abs(advantage)),
            }
            if self.sketch is not None:
                slope = self._slope(advantage)
                spread = np.sqrt(self._variance(self.sketch, advantage))
                found["gradient"] = np.where(spread > 0, slope * self.spread / spread, 0.0)
            return found

    def _slope(self, x: Array) -> Array:
        """Regression slope of x on the exact truth in every sample."""
        sums = self.sample.sums
        product = sums(x * self.truth) / self.count
        middle = sums(x) * sums(self.truth) / self.count**2
        exact = self.of_truth[1] - self.noise
        found: Array = (product - middle) / np.where(exact > 0, exact, np.nan)
        return found

    def _variance(self, sketch: Array, x: Array) -> Array:
        """Variance between groups of the sum over turns of x times gradient, in every sample."""
        weights, groups = self.sample.weights, self.sample.groups
        summed = np.zeros((groups, sketch.shape[1]))
        np.add.at(summed, self.sample.group, x[:, None] * sketch)
        inner = summed @ summed.T
        squared = weights @ np.diag(inner) / groups
        of_mean = ((weights @ inner) * weights).sum(1) / groups**2
        found: Array = np.maximum(squared - of_mean, 0.0)
        return found

    def _correlation(self, x: Array, y: Array, of_y: tuple[Array, Array], noise: Array) -> Array:
        """Correlations of x with y without its noise; 0 where x is constant."""
        mean, variance = self._moments(x)
        product = self.sample.sums(x * y) / self.count - mean * of_y[0]
        exact = of_y[1] - noise
        below = np.sqrt(variance * np.where(exact > 0, exact, np.nan))
        flat = _flat(variance, mean)
        found: Array = np.where(flat, 0.0, product / np.where(flat, 1.0, below))
        return found

    def _moments(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance in every sample."""
        middle = float(x.mean())
        mean = self.sample.sums(x - middle) / self.count
        variance = self.sample.sums((x - middle) ** 2) / self.count - mean**2
        return mean + middle, np.maximum(variance, 0.0)


def _flat(variance: Any, mean: Any) -> Any:
    """Whether a variance is what rounding leaves of 0."""
    return variance <= 1e-12 * (1e-300 + mean**2)


def as_sketch(given: ArrayLike, turns: int) -> Array:
    """Gradients or sketches of so many turns as floats, [N, D].

    Raises:
        ValueError: The shape is another, or a number is not finite.
        TypeError: It is not numeric.
    """
    found = as_finite("gradient", given)
    if found.shape[:1] != (turns,) or len(found.shape[1:]) != 1 or not found.size:
        raise ValueError(f"gradient must be [{turns}, D] numbers, got shape {found.shape}")
    return found


def _ranks(x: Array) -> Array:
    """Ranks from 0, equal values share their mean rank: [N] -> [N]."""
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(count) - (count + 1) / 2)[place]
    return ranks


def _agreement(advantage: Array, truth: Array) -> Array:
    """1 where the signs are equal, 1/2 where the advantage is 0, else 0."""
    found: Array = (1 + np.sign(advantage) * np.sign(truth)) / 2
    return found
