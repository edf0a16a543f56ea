"""How many rollouts each state gets, and what their outcomes say about values.

Two halves of independent rollouts each give a value of every state. How well the halves agree is
the reliability of the advantages. A half's numbers of rollouts depend on the tree and on outcomes
of the other half only, so its values have no bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
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

    def baseline(self, half: int) -> float:
        """A value from the rollouts of the other half."""
        drawn = [x for one in self.rounds[1 - half][0].outcomes for x in one]
        return float(np.mean(drawn)) if drawn else 0.0

    def leaving(self, half: int) -> Array:
        """Value of leaving at each node, as this half says, without bias: [n].

        Where there was a rollout, it is baseline + (mean − baseline) / P(there is one), else the
        baseline.
        """
        baseline, (count, total, _) = self.baseline(half), self._sums([half])
        expected = np.stack([one.expected for one in self.rounds[half]])
        some = 1 - np.prod(1 - expected.clip(0, 1), axis=0)
        excess = np.where(count > 0, total / count.clip(1) - baseline, 0.0)
        value: Array = baseline + np.divide(excess, some, out=np.zeros_like(some), where=some > 0)
        return value

    def _sums(self, halves: Sequence[int]) -> tuple[Array, Array, Array]:
        """Number, sum and sum of squares of the outcomes at each node: [n] each."""
        found = np.zeros((3, len(self.tree.nodes)))
        for half in halves:
            for one in self.rounds[half]:
                for node, outcomes in enumerate(one.outcomes):
                    for outcome in outcomes:
                        found[:, node] += 1.0, outcome, outcome**2
        return found[0], found[1], found[2]

    def estimate_spread(self, halves: Sequence[int], typical: float) -> Array:
        """Standard deviation of an outcome after leaving at each node: [n].

        A node has few outcomes, so those of the nodes near it are read too: of its descendants with
        a weight of DESCENT for each turn between, and of its ancestors as PRIOR outcomes. A part
        NEVER_SURE of the variance is `typical`, whatever was seen.

        Args:
            halves: Halves whose rollouts are read.
            typical: Variance of the outcome at one node, over all groups.
        """
        sums = np.stack(self._sums(halves))
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
        found: Array = weights**2 @ (self.estimate_spread(HALVES, typical) ** 2 / number)
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


def typical_variance(groups: Sequence[Group], halves: Sequence[int]) -> float:
    """Variance of the outcome of rollouts from one node, over all groups that have several."""
    square = freedom = 0.0
    every: list[float] = []
    for group in groups:
        for half in halves:
            for one in (x for each in group.rounds[half] for x in each.outcomes):
                every += one
                if len(one) > 1:
                    square += float(np.var(one)) * len(one)
                    freedom += len(one) - 1
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


def plan_round(groups: Sequence[Group], half: int, scale: float) -> list[Array]:
    """Expected rollouts of each node in the next round of a half, with those before: [n] each.

    The sum of the errors' squares is smallest for its number of turns where the rollouts of a node
    are in proportion to its influence, its spread, and 1 / √turns. The spread is the other half's.
    """
    typical = typical_variance(groups, [1 - half])
    more = [
        scale * _best(group, group.estimate_spread([1 - half], typical))
        - group.count_expected(half)
        for group in groups
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
    """Turns of a half, with those so far, that `plan_round` takes at a scale."""
    typical = typical_variance(groups, HALVES)
    best = [scale * _best(group, group.estimate_spread(HALVES, typical)) for group in groups]
    had = [group.count_expected(0) for group in groups]
    return cost(groups, [np.maximum(one, two) for one, two in zip(best, had, strict=True)])


def cost(groups: Sequence[Group], expected: Sequence[Array]) -> float:
    """Turns that so many rollouts are expected to take."""
    pairs = zip(groups, expected, strict=True)
    return float(sum(number @ group.tree.remaining for group, number in pairs))


def find_scale(groups: Sequence[Group], reliability: float, most: float) -> float:
    """Scale of `plan_round` for a reliability, or the one that costs `most` turns a half."""
    typical = typical_variance(groups, HALVES)
    noise, excess = errors(groups)
    variance = float(np.var(mean(groups)))
    signal = max(variance - noise, _DOUBT * variance)  # one round may be mostly noise
    goal = signal * (1 / reliability - 1)
    spreads = [group.estimate_spread(HALVES, typical) for group in groups]
    best = [_best(group, spread) for group, spread in zip(groups, spreads, strict=True)]
    before = [group.count_expected(0) for group in groups]
    turns = sum(len(group.advantage_weights[1]) for group in groups)

    def find_error(scale: float) -> float:
        total = 0.0
        for group, one, spread, had in zip(groups, best, spreads, before, strict=True):
            number = np.maximum(scale * one, had).clip(LEAST)
            total += float(group.influence @ (spread**2 / (2 * number)))
        return excess * total / turns

    low, high = 0.0, 1.0
    while find_error(high) > goal and cost(groups, [high * one for one in best]) < most:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        dear = cost(groups, [middle * one for one in best]) > most
        low, high = (low, middle) if dear or find_error(middle) <= goal else (middle, high)
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
    typical = typical_variance(groups, HALVES)
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
