"""Bootstrap intervals over independent groups, also where there are few of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_envs.panels import find_quantile

if TYPE_CHECKING:
    from credit.stats import Array

RESAMPLES = 2000
"""Bootstrap samples of an interval."""
FEWEST = 8
"""Groups below which there is no interval: the bootstrap's are then far too narrow."""


@dataclass(frozen=True)
class Score:
    """A value with its 95% interval; NaN where it is not defined."""

    value: float
    low: float
    high: float

    @property
    def apart(self) -> int:
        """1 if the interval is above 0, -1 if it is below, else 0; 0 without an interval."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        """The value with its interval, "–" for what is not defined."""
        value = "–" if math.isnan(self.value) else f"{self.value:.2f}"
        return (
            f"{value} [–]" if math.isnan(self.low) else f"{value} [{self.low:.2f}, {self.high:.2f}]"
        )


def resample_groups(groups: int, seed: int) -> Array:
    """Weight of each group in the sample itself and in bootstrap samples: [1 + RESAMPLES, groups].

    Args:
        groups: Number of groups.
        seed: Seed of the samples.
    """
    picked = np.random.default_rng(seed).integers(groups, size=(RESAMPLES, groups))
    return np.concatenate([np.ones((1, groups)), (picked[:, :, None] == np.arange(groups)).sum(1)])


class Bootstrap:
    """Sums over rows, in a sample itself and in bootstrap samples of its groups.

    Args:
        group: [N] group of each row.
        seed: Seed of the samples.
    """

    def __init__(self, group: ArrayLike, seed: int) -> None:
        labels, self.group = np.unique(group, return_inverse=True)
        self.groups = len(labels)
        self.weights = resample_groups(self.groups, seed)

    def sums(self, x: NDArray[Any]) -> Array:
        """Sum of the rows in every sample: [N] -> [1 + RESAMPLES]."""
        found: Array = self.weights @ np.bincount(self.group, x, self.groups)
        return found


def interval(rows: Array, groups: int) -> Score:
    """The first value with the expanded percentile interval of the others.

    A bootstrap of n groups is too narrow by √((n−1)/n), and takes its tails from a normal instead
    of a t distribution. Each tail is therefore widened to Φ(−√(n/(n−1)) t_{0.975, n−1}).

    Source: Hesterberg, What Teachers Should Know About the Bootstrap (2015), §5.3.

    Args:
        rows: [1 + resamples] a statistic of the sample itself, then of bootstrap samples.
        groups: Number n of groups that were resampled; below `FEWEST` there is no interval.
    """
    finite = rows[1:][np.isfinite(rows[1:])]
    if not np.isfinite(rows[0]):
        return Score(math.nan, math.nan, math.nan)
    if groups < FEWEST or not len(finite):
        return Score(float(rows[0]), math.nan, math.nan)
    share = tail(groups)
    low, high = np.quantile(finite, [share, 1 - share])
    return Score(float(rows[0]), float(low), float(high))


def average(scores: Sequence[Score]) -> Score:
    """The mean of independent scores, with an interval from their intervals.

    low = mean − √Σ (value_i − low_i)² / n, and high likewise.

    Source: the method of variance estimates recovery, Zou and Donner (2008), for sums.
    """
    value, low, high = np.array([astuple(one) for one in scores]).T
    mean, below, above = value.mean(), value - low, high - value
    return Score(
        float(mean),
        float(mean - np.sqrt(np.sum(below**2)) / len(value)),
        float(mean + np.sqrt(np.sum(above**2)) / len(value)),
    )


def tail(groups: int) -> float:
    """Share of bootstrap samples beyond each end of an interval over so many groups, 2 or more."""
    widened = math.sqrt(groups / (groups - 1)) * find_quantile(groups - 1)
    return NormalDist().cdf(-widened)
