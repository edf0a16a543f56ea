"""Plays what a measurement asks for: the rollouts of groups, and rollouts from their states.

Each call depends on its arguments alone, so calls can be made in any order and process.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trainer.build import derive, load_policy, make_rollouts, make_sampler
from trainer.engines.own import OwnEngine
from trainer.truth.draws import drawn
from trainer.truth.gradients import sketches
from trainer.truth.states import draw, states
from trainer.truth.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from credit.segments import Array
    from trainer.episodes import Episode
    from trainer.policy import Policy
    from trainer.recipe import Recipe
    from trainer.rollout import Task

ROWS = 128
"""Rollouts played at the same time where the recipe does not say."""


class Player:
    """A policy and its environment.

    Args:
        recipe: The recipe; its training split, sampling and seed are used.
        source: Folder of the policy's weights, None for the recipe's model.
        plain: As in `trainer.truth.tree.Tree`; copies then get fresh noise.
    """

    def __init__(self, recipe: Recipe, source: Path | None, *, plain: bool = False) -> None:
        self.recipe, self.source, self.plain = recipe, source, plain
        policy = load_policy(recipe.policy, source).freeze()
        self.sampler = make_sampler(recipe, OwnEngine(policy), policy, recipe.sampling.temperature)
        made = make_rollouts(recipe, recipe.env.split)
        self.rollouts = replace(made, rows=recipe.sampling.rows or ROWS)

    def play(self, tasks: Sequence[Task], purpose: str) -> list[Episode]:
        """One episode of each task; the first task's group and the purpose seed the replies."""
        if not tasks:
            return []
        seed = derive(self.recipe.run.seed, tasks[0].group, f"truth, {purpose}")
        return self.rollouts.play(tasks, self.sampler, seed)

    def fresh(self, task: Task, count: int) -> list[float]:
        """Outcomes of so many fresh rollouts of a task."""
        return [episode.outcome for episode in self.play([task] * count, "fresh")]

    def gradients(self, episodes: Sequence[Episode]) -> Array:
        """Sketches of the policy gradient of each of N turns, [N, `gradients.SIZE`]."""
        return sketches(self._trained, episodes, temperature=self.recipe.sampling.temperature)

    @cached_property
    def _trained(self) -> Policy:
        """The policy with weights that have gradients."""
        return load_policy(self.recipe.policy, self.source)

    def draw(
        self, task: Task, episodes: Sequence[Episode], expected: Sequence[Array], number: int
    ) -> list[tuple[int, int, float, int]]:
        """Rollouts from the states of a group: half, node, outcome and turns of each.

        Args:
            task: The group's task.
            episodes: Its rollouts.
            expected: Of each half the expected number of rollouts at each node, [n].
            number: Number of the round.

        Raises:
            NotReproducible: The environment, or a copy of it, does not continue as recorded.
        """
        tree = Tree(episodes, plain=self.plain)
        seed = derive(self.recipe.run.seed, task.group, f"truth, draws {number}")
        rng = np.random.default_rng(seed)
        actors = states(self.rollouts, self.sampler.policy, task, tree)
        counts = [drawn(one, rng) for one in expected]
        both = [sum(pair) for pair in zip(*counts, strict=True)]  # they share their openings
        found: list[tuple[int, int, float, int]] = []
        left = counts[0]
        made, failed = draw(self.rollouts, self.sampler, actors, tree, both, seed=seed)
        if failed:
            raise failed[0].raised()
        for node, outcome, turns in made:
            half = 0 if left[node] else 1
            left[node] -= half == 0
            found.append((half, node, outcome, turns))
        return found
