"""Plays what a measurement asks for: the rollouts of groups, and rollouts from their states.

Each call depends on its arguments alone, so calls can be made in any order and process. A call is
for several groups, because a turn of few rollouts takes almost as long as one of many.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agent_envs_lab.truth.draws import draw_counts
from agent_envs_lab.truth.gradients import sketches
from agent_envs_lab.truth.states import leaving, states
from agent_envs_lab.truth.tree import Tree
from trainer.build import derive, load_policy, make_rollouts, make_sampler
from trainer.engine.own import OwnEngine
from trainer.play.failures import require_episodes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from credit.stats import Array
    from trainer.model.policy import Policy
    from trainer.play.records import Episode, Task
    from trainer.play.rollout import Rollouts, Start
    from trainer.recipe import Recipe

ROWS = 128
"""Rollouts played at the same time, at most, where the recipe does not say."""
WAVES = 6
"""Such waves of rollouts from states that one call plays: each has states of similar turns."""


def rows_of(recipe: Recipe) -> int:
    """Rollouts that are played at the same time, at most."""
    return recipe.sampling.rows or ROWS


class Asked(NamedTuple):
    """Rollouts from the states of one group.

    Attributes:
        task: The group's task.
        episodes: Its rollouts.
        expected: Of each half the expected number of rollouts at each node, [n].
    """

    task: Task
    episodes: Sequence[Episode]
    expected: Sequence[Array]


def parts(sizes: Sequence[float], rollouts: float, most: int) -> list[list[int]]:
    """Neighbouring groups that are played together: the numbers of the groups of each part.

    Parts have much the same size. Their number is even, so that two processes end at the same time.

    Args:
        sizes: Expected turns of each group, in any unit.
        rollouts: Expected rollouts of all groups.
        most: Rollouts of a part, at most, where groups are small.
    """
    count = 2 * ceil(rollouts / most / 2) or 1
    total, before = sum(sizes), 0.0
    found: list[list[int]] = [[] for _ in range(count)]
    for at, size in enumerate(sizes):
        middle = (before + size / 2) / total if total else 0.0
        found[min(int(count * middle), count - 1)].append(at)
        before += size
    return [part for part in found if part]


class Player:
    """A policy and its environment.

    Args:
        recipe: The recipe; its training split, sampling and seed are used.
        source: Folder of the policy's weights, None for the recipe's model.
        plain: As in `agent_envs_lab.truth.tree.Tree`; copies then get fresh noise.
    """

    def __init__(self, recipe: Recipe, source: Path | None, *, plain: bool = False) -> None:
        self.recipe, self.source, self.plain = recipe, source, plain
        policy = load_policy(recipe.policy, source).freeze()
        self.sampler = make_sampler(recipe, OwnEngine(policy), policy, recipe.sampling.temperature)
        self.rollouts = make_rollouts(recipe, recipe.env.split)

    def play(self, tasks: Sequence[Task], purpose: str) -> list[Episode]:
        """One episode of each task; the first task's group and the purpose seed the replies."""
        if not tasks:
            return []
        seed = derive(self.recipe.run.seed, tasks[0].group, f"truth, {purpose}")
        return self._waves(len(tasks)).play(tasks, self.sampler, seed)

    def groups(self, tasks: Sequence[Task], count: int, purpose: str) -> list[list[Episode]]:
        """So many episodes of each task, see `play`."""
        played = self.play([task for task in tasks for _ in range(count)], purpose)
        return [played[count * at : count * (at + 1)] for at in range(len(tasks))]

    def fresh(self, tasks: Sequence[Task], count: int) -> list[list[float]]:
        """Outcomes of so many fresh rollouts of each task."""
        played = self.groups(tasks, count, "fresh")
        return [[episode.outcome for episode in part] for part in played]

    def _waves(self, count: int) -> Rollouts:
        """Rollouts that play so many episodes in waves of equal size."""
        return replace(self.rollouts, rows=ceil(count / ceil(count / rows_of(self.recipe))))

    def check(self, task: Task, episodes: Sequence[Episode]) -> None:
        """Check that the environment and its copies still do as the rollouts of a task did.

        Raises:
            NotReproducible: They do not.
        """
        states(self.rollouts, self.sampler.policy, task, Tree(episodes))

    def gradients(self, episodes: Sequence[Episode]) -> Array:
        """Sketches of the policy gradient of each of N turns, [N, `gradients.SIZE`]."""
        return sketches(self._trained, episodes, temperature=self.recipe.sampling.temperature)

    @cached_property
    def _trained(self) -> Policy:
        """The policy with weights that have gradients."""
        return load_policy(self.recipe.policy, self.source)

    def draw(self, asked: Sequence[Asked], number: int) -> list[list[tuple[int, int, float, int]]]:
        """Rollouts from the states of groups: half, node, outcome and turns of each, by group.

        Args:
            asked: What is wanted of each group.
            number: Number of the round.

        Raises:
            NotReproducible: The environment, or a copy of it, does not continue as recorded.
        """
        seed = derive(self.recipe.run.seed, asked[0].task.group, f"truth, draws {number}")
        rng = np.random.default_rng(seed)
        places: list[tuple[int, int, int]] = []  # group, half, node
        starts: list[Start] = []
        for at, (task, episodes, expected) in enumerate(asked):
            tree = Tree(episodes, plain=self.plain)
            counts = [draw_counts(one, rng) for one in expected]
            both = [sum(pair) for pair in zip(*counts, strict=True)]
            actors = states(self.rollouts, self.sampler.policy, task, tree, both)
            for half, count in enumerate(counts):
                nodes, begun = leaving(actors, tree, count, rng)
                places += [(at, half, node) for node in nodes]
                starts += begun
        found: list[list[tuple[int, int, float, int]]] = [[] for _ in asked]
        turn = [len(start.episode.steps) for start in starts]
        order = sorted(range(len(starts)), key=turn.__getitem__)
        if starts:
            alike = [starts[i] for i in order]  # conversations of a wave are similar in length
            played = self._waves(len(starts)).attempt_from(alike, self.sampler, seed)
            for i, episode in zip(order, require_episodes(played), strict=True):
                at, half, node = places[i]
                found[at].append((half, node, episode.outcome, len(episode.steps) - turn[i]))
        return found
