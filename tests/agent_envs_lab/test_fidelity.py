"""Fidelity: correlations freed of the truth's own error, with intervals over groups."""

import numpy as np
import pytest

from agent_envs_lab.fidelity import compare, fidelity

N, GROUPS = 6000, 60


def world(seed=0, noise=0.5):
    """True advantages, a measurement of them, and an estimator that knows part of the truth."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(GROUPS), N // GROUPS)
    exact = rng.standard_normal(N) * (rng.random(N) < 0.5)
    error = np.full(N, noise)
    measured = exact + noise * rng.standard_normal(N)
    estimator = exact + rng.standard_normal(N)
    return exact, measured, error, group, estimator


def test_without_error_the_correlation_is_numpys_and_the_rank_correlation_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    exact, _, _, group, estimator = world()
    found = fidelity(3 * estimator + 7, exact, np.zeros(N), group)
    assert found.pearson.value == pytest.approx(np.corrcoef(estimator, exact)[0, 1], abs=1e-9)
    expected = stats.spearmanr(estimator, exact).statistic
    assert found.spearman.value == pytest.approx(expected, abs=1e-9)
    assert (found.reliability, found.turns, found.groups) == (1.0, N, GROUPS)


def test_the_error_of_the_truth_is_taken_out():
    for seed in range(3):
        exact, measured, error, group, estimator = world(seed, noise=0.8)
        found = fidelity(estimator, measured, error, group)
        raw = np.corrcoef(estimator, measured)[0, 1]
        goal = np.corrcoef(estimator, exact)[0, 1]
        assert raw < goal - 0.1
        assert found.pearson.value == pytest.approx(goal, abs=0.06)
        assert found.pearson.low - 0.02 < goal < found.pearson.high + 0.02
        assert found.reliability == pytest.approx(np.var(exact) / np.var(measured), abs=0.06)


def test_intervals_hold_the_exact_value_about_as_often_as_they_say():
    """Groups differ in what an estimator is worth there, so turns are not independent."""
    rng = np.random.default_rng(5)
    held = 0
    for seed in range(120):
        group = np.repeat(np.arange(40), 30)
        worth = rng.normal(0.5, 0.3, 40)[group]
        exact = rng.standard_normal(1200)
        estimator = worth * exact + rng.standard_normal(1200)
        found = fidelity(estimator, exact, np.zeros(1200), group, seed=seed)
        goal = 0.5 / np.sqrt(0.25 + 0.09 + 1)
        held += found.pearson.low <= goal <= found.pearson.high
    assert 0.88 <= held / 120 <= 0.995


def test_signs_count_where_the_truth_is_clear_and_zero_counts_half():
    truth = np.array([1.0, -1.0, 0.5, 0.06, 0.01, 2.0])
    error = np.array([0.1, 0.1, 0.4, 0.01, 0.001, 0.1])
    advantage = np.array([2.0, 3.0, -9.0, 0.0, 5.0, 1.0])
    found = fidelity(advantage, truth, error, [0, 0, 0, 1, 1, 1])
    # 0.5 is less than two errors from 0, 0.01 is null; right, wrong, half, right remain
    assert found.sign.value == pytest.approx(2.5 / 4)
    assert found.null_share.value == pytest.approx(5 / 20)


def test_an_estimator_of_one_value_has_no_correlation():
    exact, _, _, group, _ = world()
    found = fidelity(np.full(N, 0.1), exact, np.zeros(N), group)
    assert (found.pearson.value, found.spearman.value) == (0.0, 0.0)
    nothing = fidelity(np.zeros(N), exact, np.zeros(N), group)
    assert np.isnan(nothing.null_share.value)
    assert nothing.sign.value == 0.5


def test_differences_are_paired():
    _, measured, error, group, estimator = world()
    worse = estimator + np.random.default_rng(1).standard_normal(N)
    apart = compare({"a": estimator, "b": worse}, measured, error, group, baseline="a")
    alone = compare({"a": estimator, "b": worse}, measured, error, group)
    assert (apart["a"].pearson.low, apart["a"].pearson.high) == (0.0, 0.0)
    assert apart["b"].pearson.high < 0
    width = apart["b"].pearson.high - apart["b"].pearson.low
    assert width < 0.85 * (alone["b"].pearson.high - alone["b"].pearson.low)


def test_an_estimator_made_of_the_groups_own_outcomes_gains_nothing():
    """What it shares with a truth from the same rollouts is luck, and the luck is not scored."""
    rng = np.random.default_rng(0)
    states, own, apart = 3000, 4, 8
    value = rng.uniform(0.3, 0.7, states)
    group = np.arange(states) // 50
    circular = rng.binomial(own, value) / own  # the mean outcome of the group's own rollouts
    independent = rng.binomial(apart, value) / apart
    error = np.sqrt(value * (1 - value) / apart)
    same = fidelity(circular, circular, np.zeros(states), group)
    scored = fidelity(circular, independent, error, group)
    exact = np.corrcoef(circular, value)[0, 1]
    assert same.pearson.value == pytest.approx(1.0)
    assert exact < 0.6
    assert scored.pearson.value == pytest.approx(exact, abs=0.06)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"advantage": np.zeros(5)}, "advantage has 5 rows, truth has 6000"),
        ({"advantage": np.full(N, np.nan)}, "advantage row 0"),
        ({"error": np.full(N, -1.0)}, r"error row 0 is -1\.0"),
        ({"error": np.zeros(3)}, "error has 3 rows, truth has 6000"),
        ({"group": np.zeros(N, int)},
         "at least 2 groups, and an interval of 8, got 1; measure more tasks"),
        ({"truth": np.zeros(N)}, "says nothing; measure it with more rollouts"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"gradient": np.zeros(N)}, r"gradient must be \[6000, D\] numbers, got shape \(6000,\)"),
        ({"gradient": np.zeros((3, 4))}, r"got shape \(3, 4\)"),
        ({"gradient": np.zeros((N, 0))}, r"got shape \(6000, 0\)"),
        ({"gradient": np.full((N, 2), np.nan)}, "gradient row 0 is nan"),
        ({"error": np.full(N, 9.0)}, "says nothing; measure it with more rollouts"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused_in_one_line(changed, told):
    _, measured, error, group, estimator = world()
    given = {"advantage": estimator, "truth": measured, "error": error, "group": group}
    with pytest.raises(ValueError, match=told):
        fidelity(**{**given, **changed})


def drawn_gradients(dimensions=40, seed=3):
    """Gradients of turns that do not depend on the advantages."""
    return np.random.default_rng(seed).standard_normal((N, dimensions))


def test_the_noise_of_gradients_is_what_was_put_in():
    exact, measured, error, group, _ = world()
    gradient = drawn_gradients()
    rng = np.random.default_rng(9)
    noisy = exact + np.sqrt(3 * np.mean(exact**2)) * rng.standard_normal(N)  # 4 times the variance
    given = {"exact": exact, "five": 5 * exact, "noisy": noisy, "against": -noisy}
    found = compare(given, measured, error, group, gradient=gradient)
    assert found["exact"].gradient.value == pytest.approx(1.0, abs=0.08)
    assert found["five"].gradient.value == pytest.approx(found["exact"].gradient.value, abs=1e-9)
    assert found["noisy"].gradient.value == pytest.approx(0.5, abs=0.05)
    assert found["against"].gradient.value == pytest.approx(-found["noisy"].gradient.value)
    apart = compare(given, measured, error, group, gradient=gradient, baseline="noisy")
    assert apart["exact"].gradient.low > 0.3


def test_what_all_turns_of_a_group_share_is_not_averaged_away():
    """Noise that is equal over a trajectory counts with the square of its length."""
    exact, _measured, _error, group, _ = world()
    same = np.ones((N, 1))
    rng = np.random.default_rng(9)
    shared = exact + np.repeat(rng.standard_normal(GROUPS), N // GROUPS)
    of_group = np.bincount(group, exact)
    expected = of_group.std() / np.bincount(group, shared).std()
    slope = np.polyfit(exact, shared, 1)[0]
    found = fidelity(shared, exact, np.zeros(N), group, gradient=same).gradient
    assert found.value == pytest.approx(slope * expected, rel=1e-9)


def test_without_gradients_there_is_no_score_and_constant_credit_has_no_signal():
    _exact, measured, error, group, estimator = world()
    assert fidelity(estimator, measured, error, group).gradient is None
    flat = fidelity(np.zeros(N), measured, error, group, gradient=drawn_gradients())
    assert flat.gradient.value == 0
