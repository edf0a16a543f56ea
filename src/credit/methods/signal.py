"""The signal critic: values of states from all that a batch says, and the advantages they give."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from credit import stats
from credit.stats import Array, Ids
from credit.turns import Turns
from credit.validation import Options, Weight, nonnegative, within

PRIORS = 2.0 ** np.arange(-2, 6)
"""Weights n_0 among which leaving one trajectory out chooses."""
_RIDGE = 1e-3
"""Penalty of a coefficient for each turn, for outcomes and features between 0 and 1."""
_AT_ONCE = 2**14  # trajectories left out in one step
_REVISITS = 3  # later visits of a state count as this many
_ROUNDING = 1e-9  # differences below it are what sums in another order leave


def accumulate(change: ArrayLike, share: ArrayLike) -> Array:
    """Add to each row its share of the row after: [N], [N] -> [N].

    A_t = δ_t + λ_t A_{t+1}

    It doubles the distance over which rows are added, and so takes log₂ of the longest trajectory
    steps.

    Args:
        change: [N] δ of each row.
        share: [N] λ in [0, 1] of each row; 0 at the last turn of a trajectory.

    Returns:
        [N] sums.
    """
    total, left, step = np.array(change, dtype=np.float64), np.array(share, dtype=np.float64), 1
    while left[:-step].any():
        total[:-step] += left[:-step] * total[step:]
        left[:-step] *= left[step:]
        step *= 2
    return total


def mean_of_others(outcome: ArrayLike, group: ArrayLike) -> Array:
    """Mean outcome of the others of the group: [M] -> [M].

    A trajectory without others gets the mean of these means, and 0 if all are without.
    """
    alone = stats.count(group) == 1
    others: Array = np.subtract(outcome, stats.leave_one_out(outcome, group))
    others[alone] = 0.0 if alone.all() else others[~alone].mean()
    return others


def fit_outcome(features: Array, outcome: Array, starts: Ids) -> Array:
    """Ridge fit of the outcome, for each trajectory without it: [N, F], [N], [M] -> [N].

    The penalty of a squared coefficient is N / 1000.

    Args:
        features: [N, F] numbers in [0, 1]; the first column is 1, and hardly penalized.
        outcome: [N] outcome in [0, 1] of the trajectory of each turn.
        starts: [M] the first row of each trajectory, the first 0.

    Returns:
        [N] what the fit to the other trajectories expects of each turn, clipped to [0, 1].
    """
    square, product = _sum_squares(features), features.T @ outcome
    found, ends = np.empty(len(features)), np.append(starts, len(features))
    for first in range(0, len(starts), _AT_ONCE):
        own = ends[first : first + _AT_ONCE + 1]
        rows, bounds = features[own[0] : own[-1]], own[:-1] - own[0]
        squares = np.stack(
            [np.add.reduceat(rows * column[:, None], bounds) for column in rows.T], axis=1
        )
        products = np.add.reduceat(rows * outcome[own[0] : own[-1], None], bounds)
        others = np.linalg.solve(square - squares, (product - products)[..., None])[..., 0]
        found[own[0] : own[-1]] = np.sum(rows * np.repeat(others, np.diff(own), axis=0), axis=1)
    return found.clip(0.0, 1.0)


def _sum_squares(features: Array) -> Array:
    """Sums of products of the features, with the penalty: [N, F] -> [F, F]."""
    penalty = np.full(features.shape[1], _RIDGE * len(features))
    penalty[0] = 1e-6  # enough to solve for it
    return np.asarray(features.T @ features + np.diag(penalty))


def pool_outcomes(
    outcome: Array, fit: Array, states: Ids, first: Array, prior: float | None = None
) -> Array:
    """Value of each turn's state, a posterior mean: [N], [N], [N], [N] -> [N].

    V(s) = (Σ outcomes of first visits + n_0 f) / (n + n_0)

    Args:
        outcome: [N] outcome of the trajectory of each turn.
        fit: [N] f, what is expected of the state without its outcomes.
        states: [N] id of the state of each turn.
        first: [N] 1 at a trajectory's first visit of a state, else 0.
        prior: n_0; None chooses the one of `PRIORS` whose values, without the outcome of the
            trajectory itself, miss it least in the mean square. Of equal ones it is the largest.

    Returns:
        [N] values.
    """
    visits = np.bincount(states, first)[states]
    summed = np.bincount(states, first * outcome)[states]
    if prior is None:
        met = np.flatnonzero((first > 0) & (visits > 1))  # others do not depend on the weight
        own, guess, others = outcome[met], fit[met], visits[met] - 1
        rest = summed[met] - own
        errors = np.array([np.sum((own - (rest + n * guess) / (others + n)) ** 2) for n in PRIORS])
        prior = float(PRIORS[np.flatnonzero(errors <= errors.min() * (1 + _ROUNDING))[-1]])
    return (summed + prior * fit) / (visits + prior)


def _check_prior(name: str, value: float | None) -> None:
    """Raise an error unless the value is None or a number of at least 0."""
    if value is not None:
        nonnegative("it counts outcomes")(name, value)


@dataclass(frozen=True)
class SignalCritic(Options):
    """The signal critic: a critic without a model, from outcomes, progress, validity and states.

    R is the outcome scaled to [0, 1] over the batch, n(s) the number of turns in the state s, which
    is a group and an anchor; the result is in the unit of the outcome again::

        f    ridge fit of R, for each trajectory to the others, clipped to [0, 1], on progress p
             before the turn, position t (of the longest episode), p t, p², the mean outcome m of
             the others of the group, m p, m t, validity of the turn before (the first has true),
             and earlier visits of the state (at most 3, divided by 3)
        V(s) (Σ R over the trajectories that visit s + n_0 f) / (their number + n_0)
        δ_t  V(s_{t+1}) - V(s_t); R - V(s_t) at the last turn
        A_t  δ_t + λ A_{t+1}, λ = k / (k + n(s_{t+1}))
        A_t  plus c (R - V(s_t))
        A_t  (1 - ρ) A_t + ρ (mean of A over the turns with this state and action)
        A_t  minus Σ A over the turns of s / (n(s) + 1/κ - 1)

    V is the posterior mean of a state's value: outcomes vary by σ² about it, and it varies by τ²
    about f, so n_0 = σ²/τ². A value of n outcomes has an error of about σ²/n, so λ cuts the return
    at well-known states and passes rare ones through. The term with c returns what anchors hide,
    as the number of the turn. All turns of a state have its error in common. Where that is the
    share κ of the variance of an advantage, the last line subtracts what their sum says of it.

    Falls back, and says nothing of it: without `anchor` every state is met once, without `action`
    every action; without `progress` or `valid` their terms of f are 0. Those of m are 0 where f
    falls with m on average over turns, as with one group or groups of one trajectory: m is low
    where the own outcome is high. A batch of equal outcomes gets 0; a group of equal outcomes does
    not, as f varies in it. Rewards of turns are not read.

    Bias: values include the outcome of the trajectory itself, and f draws those of rare states to
    what progress and position predict, so that a wrong f is a wrong credit. λ < 1 hides what
    happens between two states that the anchor takes for one. κ > 0 leaves (1 - κ) A of a state met
    once, so κ = 1 nothing without anchors.

    Source: ours. Values of states by outcomes: GiGPO, HGPO and RTMC; λ that depends on the state:
    GAE and TD(λ); means drawn to a fit: empirical Bayes, Efron and Morris (1973).

    Args:
        k: Visits at which half of the return after a state is passed through; at least 0, which
            trusts every value.
        c: Weight of R - V(s_t), at least 0.
        rho: ρ in [0, 1], share of the mean over turns with the same state and action.
        kappa: κ in [0, 1], share of the common error; 0 subtracts nothing, 1 the mean of the state.
        prior: n_0 ≥ 0; None chooses it in each batch, see `pool_outcomes`.

    Raises:
        ValueError: An option out of range.
    """

    reads_anchors: ClassVar[bool] = True

    k: Annotated[float, nonnegative("it counts visits")] = 2.0
    c: Weight = 0.2
    rho: Annotated[float, within(0, 1, "it blends two advantages")] = 0.6
    kappa: Annotated[float, within(0, 1, "it is a share of a variance")] = 0.6
    prior: Annotated[float | None, _check_prior] = None

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        if not stats.is_varied(turns.outcome, np.zeros_like(turns.group)).any():
            return np.zeros(len(turns))
        scale = np.ptp(turns.outcome)
        scaled = (turns.outcome - turns.outcome.min()) / scale
        outcome, last = scaled[turns.trajectory], turns.last
        states = turns.segment_ids("anchor") if turns.has("anchor") else np.arange(len(turns))
        visit = stats.rank_position(stats.make_ids(turns.trajectory, states))
        features = _list_features(turns, mean_of_others(scaled, turns.group), visit)
        _drop_others(features, outcome)
        fit = fit_outcome(features, outcome, np.flatnonzero(turns.position == 0))
        value = pool_outcomes(outcome, fit, states, (visit == 0) * 1.0, self.prior)
        change = np.where(last, outcome, np.roll(value, -1)) - value
        count = np.bincount(states)[states]
        after = np.roll(count, -1)
        advantage = accumulate(change, np.where(last, 0.0, self.k / (self.k + after)))
        advantage += self.c * (outcome - value)
        if turns.has("action"):
            pairs = stats.make_ids(states, turns.action)
            mean = np.bincount(pairs, advantage) / np.bincount(pairs)
            advantage += self.rho * (mean[pairs] - advantage)
        total = np.bincount(states, advantage)[states]
        advantage -= self.kappa * total / (self.kappa * (count - 1) + 1)
        return np.asarray(scale * advantage)


def _list_features(turns: Turns, others: Array, visit: Ids) -> Array:
    """What is known before each turn, as numbers in [0, 1], with a column of ones: [N, 10]."""
    position = turns.position
    time = position / (position.max() + 1)
    none = np.zeros(len(turns))
    progress = turns.progress - turns.read_gain() if turns.has("progress") else none
    valid = np.where(position == 0, True, np.roll(turns.valid, 1)) if turns.has("valid") else none
    mean = others[turns.trajectory]
    columns = (
        *(np.ones(len(turns)), progress, time, progress * time, progress**2),
        *(mean, mean * progress, mean * time, valid, np.minimum(visit, _REVISITS) / _REVISITS),
    )
    return np.stack(columns, axis=1)


def _drop_others(features: Array, outcome: Array) -> None:
    """Zero the columns of m unless the fit rises with m, on average over turns.

    Within a group m is high where the own outcome is low. If nothing else is known of m, or other
    columns tell the same of the task, the fit falls with m, and would read the outcome from it.
    """
    found = np.linalg.solve(_sum_squares(features), features.T @ outcome)
    if features[:, :3].mean(axis=0) @ found[5:8] <= _ROUNDING:  # of m, m p, m t
        features[:, 5:8] = 0.0
