"""How many rollouts each state gets, and what their outcomes say about values.

Two halves of independent rollouts each give a value of every state. How well the halves agree is
the reliability of the advantages.

Where a success brings more rollouts and a failure none, means come out too low. So how a half
shares its rollouts among the states depends on the tree and the first round of the other half only;
later rounds decide how many there are in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from agent_envs_lab.truth.tree import Tree
    from credit.stats import Array

HALVES = (0, 1)
LEAST = 0.05
"""Least expected number of rollouts of a state: a rare one is drawn with this probability."""
_DOUBT, _ENDLESS = 0.1, 1e9
GROWTH = 2.5
"""A round plays at most this many times the turns of all rounds before it."""
LEAST_GROWTH = 0.05
"""A round plays at least this many times the turns of all rounds before it."""
CAUTION = 0.95
"""Part of the turns that seem to be missing which a round plays, so that few are too many."""
PRIOR = 1.0
"""Rollouts that the states before it count for in the spread of one."""
DESCENT = 0.3
"""Weight in the spread of a state of the rollouts of the states one turn after it."""
NEVER_SURE = 0.1
"""Part of the variance of a state that is the typical one, also where all outcomes are equal."""


@dataclass
class Round:
    """Rollouts that were drawn at one time.

    Attributes:
        expected: Expected number of rollouts at each node, [n]. Below 1 it is the probability of
            one.
        outcomes: Outcomes of the rollouts at each node.
    """

    expected: Array
    outcomes: list[list[float]]

    def estimate(self, baseline: float) -> Array:
        """Value of leaving at each node, without bias over the rollouts: [n].

        A node that is drawn with probability e < 1 has baseline + (outcome − baseline) / e if it
        was drawn, else the baseline.
        """
        count = np.array([len(one) for one in self.outcomes])
        excess = np.array([sum(one) for one in self.outcomes]) - count * baseline
        divisor = np.where(self.expected < 1, np.maximum(self.expected, LEAST), count.clip(1))
        found: Array = baseline + excess / divisor
        return found


@dataclass
class Group:
    """What is known of one group: its tree and the rounds of each half."""

    tree: Tree
    rounds: tuple[list[Round], list[Round]] = field(default_factory=lambda: ([], []))

    @cached_property
    def advantage_weights(self) -> tuple[Array, Array]:
        """Advantages as W x + c, x the value of leaving at each node: W [N, n] and c [N]."""
        before, after = self.tree.turns()
        weights, known = self.tree.values()
        return weights[after] - weights[before], known[after] - known[before]

    @cached_property
    def influence(self) -> Array:
        """Sum over turns of the squared weight of each node's x: [n]."""
        weights, _ = self.advantage_weights
        total: Array = (weights**2).sum(0)
        return total

    @property
    def played(self) -> list[Round]:
        """The rounds of both halves."""
        return [one for half in HALVES for one in self.rounds[half]]

    def baseline(self, half: int) -> float:
        """A value from the rollouts of the other half."""
        drawn = [x for one in self.rounds[1 - half][0].outcomes for x in one]
        return float(np.mean(drawn)) if drawn else 0.0

    def leaving(self, half: int) -> Array:
        """Value of leaving at each node, as this half says: [n].

        Without bias where the numbers of rollouts were fixed before; rounds that stop at a
        reliability have a small one (`benchmarks/truth.py`). Where there was a rollout, it is
        baseline + (mean − baseline) / P(there is one), else the baseline.
        """
        baseline, (count, total, _) = self.baseline(half), self._sums(self.rounds[half])
        expected = np.stack([one.expected for one in self.rounds[half]])
        some = 1 - np.prod(1 - expected.clip(0, 1), axis=0)
        excess = np.where(count > 0, total / count.clip(1) - baseline, 0.0)
        value: Array = baseline + np.divide(excess, some, out=np.zeros_like(some), where=some > 0)
        return value

    def _sums(self, rounds: Sequence[Round]) -> tuple[Array, Array, Array]:
        """Number, sum and sum of squares of the outcomes at each node: [n] each."""
        found = np.zeros((3, len(self.tree.nodes)))
        for one in rounds:
            for node, outcomes in enumerate(one.outcomes):
                for outcome in outcomes:
                    found[:, node] += 1.0, outcome, outcome**2
        return found[0], found[1], found[2]

    def estimate_spread(self, rounds: Sequence[Round], typical: float) -> Array:
        """Standard deviation of an outcome after leaving at each node: [n].

        A node has few outcomes, so those of the nodes near it are read too: of its descendants with
        a weight of DESCENT for each turn between, and of its ancestors as PRIOR outcomes. A part
        NEVER_SURE of the variance is `typical`, whatever was seen.

        Args:
            rounds: Those of its rounds that are read.
            typical: Variance of the outcome at one node, over all groups.
        """
        sums = np.stack(self._sums(rounds))
        every = sums.sum(1)
        for at in reversed(range(1, len(self.tree.nodes))):
            sums[:, self.tree.nodes[at].parent] += DESCENT * sums[:, at]
        means = np.empty((2, len(self.tree.nodes)))
        for at, node in enumerate(self.tree.nodes):
            before = every[1:] / max(every[0], 1.0) if at == 0 else means[:, node.parent]
            means[:, at] = (sums[1:, at] + PRIOR * before) / (sums[0, at] + PRIOR)
        variance = np.maximum(means[1] - means[0] ** 2, 0.0)
        found: Array = np.sqrt((1 - NEVER_SURE) * variance + NEVER_SURE * typical)
        return found

    def count_expected(self, half: int) -> Array:
        """Expected number of rollouts so far at each node: [n]."""
        return sum((one.expected for one in self.rounds[half]), np.zeros(len(self.tree.nodes)))

    def error(self, half: int, typical: float) -> Array:
        """Variance of this half's advantage of each turn: [N]."""
        weights, _ = self.advantage_weights
        number = np.maximum(self.count_expected(half), LEAST)
        found: Array = weights**2 @ (self.estimate_spread(self.played, typical) ** 2 / number)
        return found

    def advantage(self, half: int) -> Array:
        """Advantage of each turn, as this half says: [N]."""
        weights, known = self.advantage_weights
        found: Array = weights @ self.leaving(half) + known
        return found

    def value(self, half: int) -> Array:
        """Value of each node, as this half says: [n]."""
        weights, known = self.tree.values()
        found: Array = weights @ self.leaving(half) + known
        return found


def typical_variance(rounds: Iterable[Sequence[Round]]) -> float:
    """Variance of the outcome of rollouts from one node, over all of these rounds of each group."""
    square = freedom = 0.0
    every: list[float] = []
    for outcomes in (one for each in chain.from_iterable(rounds) for one in each.outcomes):
        every += outcomes
        if len(outcomes) > 1:
            square += float(np.var(outcomes)) * len(outcomes)
            freedom += len(outcomes) - 1
    prior = float(np.var(every)) if len(every) > 1 else 0.25
    return max((square + prior) / (freedom + 1), 1e-6)


def plan_pilot(groups: Sequence[Group], budget: float) -> list[Array]:
    """Expected rollouts of each node in the first round of one half: of each group [n].

    Args:
        groups: The groups.
        budget: Turns to play.
    """
    best = [_best(group, np.ones(len(group.tree.nodes))) for group in groups]
    scale = budget / max(cost(groups, best), 1e-9)
    return [np.where(one > 0, np.maximum(scale * one, LEAST), 0.0) for one in best]


def find_shares(groups: Sequence[Group], half: int) -> list[Array]:
    """What the rollouts of a half from each node are in proportion to: [n] each.

    The sum of the errors' squares is smallest for its number of turns where it is the influence of
    the node, its spread, and 1 / √turns. The spread is that of the other half's first round.
    """
    first = [group.rounds[1 - half][:1] for group in groups]
    typical = typical_variance(first)
    return [
        _best(group, group.estimate_spread(one, typical))
        for group, one in zip(groups, first, strict=True)
    ]


def plan_round(groups: Sequence[Group], half: int, scale: float) -> list[Array]:
    """Expected rollouts of each node in the next round of a half: [n] each.

    With those before they are `scale` times its shares.
    """
    more = [
        scale * one - group.count_expected(half)
        for group, one in zip(groups, find_shares(groups, half), strict=True)
    ]
    return [np.where(one >= LEAST, one, 0.0) for one in more]


def plan_at_least(groups: Sequence[Group], scale: float, turns: float) -> list[list[Array]]:
    """`plan_round` of both halves at this scale, or at the least that takes so many turns a half.

    Args:
        groups: The groups.
        scale: The least scale.
        turns: Turns of a half, the mean of both.
    """

    def plans(scale: float) -> tuple[list[list[Array]], bool]:
        made = [plan_round(groups, half, scale) for half in HALVES]
        return made, sum(cost(groups, plan) for plan in made) >= 2 * turns

    made, enough = plans(scale)
    if enough:
        return made
    low, high = scale, 2 * scale + 1e-3
    while not enough and high < _ENDLESS:
        made, enough = plans(high)
        low, high = (low, high) if enough else (high, 2 * high)
    for _ in range(12):
        middle = (low + high) / 2
        tried, enough = plans(middle)
        if enough:
            made, high = tried, middle
        else:
            low = middle
    return made


def plan_next_round(
    groups: Sequence[Group], reliability: float, spent: float, most: float
) -> list[list[Array]]:
    """Expected rollouts of each node in the next round, of both halves.

    Args:
        groups: The groups.
        reliability: What is to be reached.
        spent: Turns of a half so far.
        most: Turns of a half at most, with those so far.
    """
    needed = find_scale_cost(groups, find_scale(groups, reliability, most))
    limit = min(most, (1 + GROWTH) * spent, spent + CAUTION * max(needed - spent, 0.0))
    return plan_at_least(groups, find_scale(groups, reliability, limit), LEAST_GROWTH * spent)


def find_scale_cost(groups: Sequence[Group], scale: float) -> float:
    """Turns of a half, with those so far, that `plan_round` takes at a scale; the mean of both."""
    total = 0.0
    for half in HALVES:
        pairs = zip(groups, find_shares(groups, half), strict=True)
        expected = [np.maximum(scale * one, group.count_expected(half)) for group, one in pairs]
        total += cost(groups, expected)
    return total / 2


def cost(groups: Sequence[Group], expected: Sequence[Array]) -> float:
    """Turns that so many rollouts are expected to take."""
    pairs = zip(groups, expected, strict=True)
    return float(sum(number @ group.tree.remaining for group, number in pairs))


def find_scale(groups: Sequence[Group], reliability: float, most: float) -> float:
    """Scale of `plan_round` for a reliability, or the one that costs `most` turns a half."""
    typical = typical_variance(group.played for group in groups)
    noise, excess = errors(groups)
    variance = float(np.var(mean(groups)))
    signal = max(variance - noise, _DOUBT * variance)  # one round may be mostly noise
    goal = signal * (1 / reliability - 1)
    weights = [g.influence * g.estimate_spread(g.played, typical) ** 2 / 4 for g in groups]
    shares = [find_shares(groups, half) for half in HALVES]
    before = [[group.count_expected(half) for group in groups] for half in HALVES]
    turns = sum(len(group.advantage_weights[1]) for group in groups)

    def find_error(scale: float) -> float:
        total = 0.0
        for one, had in zip(shares, before, strict=True):
            for weight, share, count in zip(weights, one, had, strict=True):
                total += float(weight @ (1 / np.maximum(scale * share, count).clip(LEAST)))
        return excess * total / turns

    def is_dear(scale: float) -> bool:
        return sum(cost(groups, [scale * one for one in each]) for each in shares) > 2 * most

    low, high = 0.0, 1.0
    while find_error(high) > goal and not is_dear(high):
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        stop = is_dear(middle) or find_error(middle) <= goal
        low, high = (low, middle) if stop else (middle, high)
    return high


def draw_counts(expected: Array, rng: np.random.Generator) -> list[int]:
    """Numbers of rollouts with these expectations: [n]."""
    whole = np.floor(expected).astype(int)
    counts: list[int] = (whole + (rng.random(len(expected)) < expected - whole)).tolist()
    return counts


def mean(groups: Sequence[Group]) -> Array:
    """The advantage of each turn, the mean of both halves: [N]."""
    found: Array = np.concatenate(
        [(group.advantage(0) + group.advantage(1)) / 2 for group in groups]
    )
    return found


def errors(groups: Sequence[Group]) -> tuple[float, float]:
    """Mean squared error of `mean`, and its ratio to what the outcomes' spread predicts."""
    apart = np.concatenate([group.advantage(0) - group.advantage(1) for group in groups])
    typical = typical_variance(group.played for group in groups)
    said = np.concatenate([group.error(0, typical) + group.error(1, typical) for group in groups])
    seen, expected = float(np.mean(apart**2)), float(np.mean(said))
    return seen / 4, seen / expected if expected > 0 else 1.0


def reliability(groups: Sequence[Group]) -> float:
    """Correlation of the mean of both halves with another such mean (Spearman-Brown)."""
    halves = [np.concatenate([group.advantage(half) for group in groups]) for half in HALVES]
    if min(map(np.std, halves)) <= 0:
        return 1.0 if np.array_equal(halves[0], halves[1]) else 0.0
    agreement = float(np.corrcoef(halves[0], halves[1])[0, 1])
    return 2 * agreement / (1 + agreement) if agreement > 0 else 0.0


def _best(group: Group, spread: Array) -> Array:
    ratio: Array = np.sqrt(group.influence / group.tree.remaining) * spread
    return ratio
