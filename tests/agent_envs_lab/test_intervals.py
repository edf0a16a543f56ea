"""Intervals over few groups: as wide as they say, and none where the bootstrap cannot give one."""

import math

import numpy as np
import pytest

from agent_envs_lab.fidelity import compare
from agent_envs_lab.intervals import (
    FEWEST,
    Score,
    average,
    interval,
    resample_groups,
    tail,
)


def test_tails_shrink_with_few_groups():
    # 16 groups: t = 2.1314 with 15 degrees of freedom; times sqrt(16/15) it is 2.2013
    assert tail(16) == pytest.approx(0.01386, abs=1e-5)
    assert tail(8) < tail(16) < tail(10_000) < 0.025
    assert tail(10_000) == pytest.approx(0.025, abs=1e-4)


def test_a_mean_of_scores_is_as_sure_as_its_parts():
    # 1 - sqrt(1 + 1) / 2, 1 + sqrt(1 + 9) / 2; without an interval of one there is none of the mean
    found = average([Score(0.0, -1.0, 1.0), Score(2.0, 1.0, 5.0)])
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 0.2929, 2.5811), abs=1e-4)
    found = average([Score(0.0, -1.0, 1.0), Score(2.0, math.nan, math.nan)])
    assert (found.value, found.apart) == (1.0, 0)
    assert math.isnan(found.low)


@pytest.mark.parametrize(
    "groups", [8, *(pytest.param(one, marks=pytest.mark.long) for one in (12, 24))]
)
def test_means_of_few_groups_are_covered_as_often_as_said(groups):
    rng = np.random.default_rng(groups)
    held = 0
    for seed in range(600):
        means = resample_groups(groups, seed) @ rng.standard_normal(groups) / groups
        held += not interval(means, groups).apart
    assert 0.93 <= held / 600 <= 0.975  # plain percentiles of 8 groups hold 0.89


def test_below_eight_groups_there_is_no_interval_and_no_star():
    rows = np.ones(50)
    found = interval(rows, FEWEST - 1)
    assert (found.value, found.apart, str(found)) == (1.0, 0, "1.00 [–]")
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert interval(rows, FEWEST) == Score(1.0, 1.0, 1.0)
    assert str(interval(np.full(50, np.nan), 20)) == "– [–]"


@pytest.mark.parametrize("groups", [3, 6, 16])
def test_exchangeable_estimators_are_rarely_told_apart(groups):
    """Two estimators with errors of one distribution: neither is more faithful."""
    rng = np.random.default_rng(groups)
    starred = 0
    for seed in range(100):
        group = np.repeat(np.arange(groups), rng.integers(15, 60, groups))
        exact = 0.3 * rng.standard_normal(len(group))
        noise = [0.1 * rng.standard_normal(len(group)) for _ in range(2)]
        noise = [one + 0.05 * rng.standard_normal(groups)[group] for one in noise]
        given = {"a": exact / 2 + noise[0], "b": exact / 2 + noise[1]}
        error = np.full(len(group), 0.13)
        measured = exact + error * rng.standard_normal(len(group))
        found = compare(given, measured, error, group, baseline="a", seed=seed)["b"]
        starred += bool(found.pearson.apart)
    assert starred <= (0 if groups < FEWEST else 11)
