"""Vine: advantages by rollouts from the states of the episodes, as in VinePPO, for whole agents.

The true advantage of each turn, V(after) - V(before), is estimated by going on from copies of the
environment with replies that no rollout of the group gave; what the group's replies say of values
is exact (`agent_envs_lab.truth.tree`). No critic is learned. A step plays several times the turns
of its rollouts. Left out: other engines than the own one, several processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs_lab.truth import draws
from agent_envs_lab.truth.draws import Group, Round
from agent_envs_lab.truth.states import check_continued, draw, states
from agent_envs_lab.truth.tree import NotReproducible, Tree
from credit.validation import check_positive
from trainer.errors import RecipeError
from trainer.learn.rows import credit_rows
from trainer.methods.method import Credited, Method
from trainer.play.failures import Failure
from trainer.play.records import Task
from trainer.scale import parallel

if TYPE_CHECKING:
    from credit.stats import Array
    from trainer.methods.method import Experience
    from trainer.play.records import Episode
    from trainer.recipe import Recipe


@dataclass(frozen=True)
class VineOptions:
    """Options of vine.

    Attributes:
        turns: Turns of rollouts from states that are played for each turn of the batch.
    """

    turns: float = 4.0

    def __post_init__(self) -> None:
        check_positive("turns", self.turns, "it is a number of turns to play")


class Vine(Method):
    """Advantages by rollouts from states; `credit.options` are `VineOptions`.

    Source: VinePPO (Kazemnejad et al., 2024, arXiv 2410.01679), with the exact part of the tree in
    addition. The estimate has no bias; turn rewards are not part of it.
    """

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        check_continued(recipe, "vine")
        try:
            self.options = VineOptions(**options)
        except TypeError as error:
            raise RecipeError(f"credit.options of vine are turns: {error}") from error
        if parallel.size() > 1:
            raise RecipeError(
                f"vine works with one process, but torchrun started "
                f"{parallel.size()}; start without torchrun"
            )

    def credit(self, experience: Experience) -> Credited:
        """Advantages of the rollouts of a step."""
        parts = [list(part) for _, part in groupby(experience.episodes, lambda e: e.group)]
        groups = [Group(Tree(part)) for part in parts]
        expected = draws.plan_pilot(groups, self.options.turns * len(experience.turns))
        found, played = [], 0
        failures: list[Failure] = []
        for part, group, number in zip(parts, groups, expected, strict=True):
            outcomes, turns, failed = self._draw_outcomes(experience, part, group.tree, number)
            weights, known = group.advantage_weights
            baseline = float(np.mean([episode.outcome for episode in part]))
            found.append(weights @ Round(number, outcomes).estimate(baseline) + known)
            played += turns
            failures += failed
        advantage = np.concatenate(found)
        figures = {"vine_turns": played / len(experience.turns)}
        rows = credit_rows(experience.rows, advantage)
        return Credited(rows, advantage, figures, failures=tuple(failures))

    def _draw_outcomes(
        self, experience: Experience, part: list[Episode], tree: Tree, expected: Array
    ) -> tuple[list[list[float]], int, list[Failure]]:
        """Outcomes of the rollouts from each state of a group, their turns, and failures.

        If the environment fails on the way to the states, there are no rollouts.
        """
        rollouts, sampler, rng = experience.rollouts, experience.sampler, experience.rng
        task = Task(part[0].task_id, part[0].group, part[0].seed)
        outcomes: list[list[float]] = [[] for _ in tree.nodes]
        try:
            actors = states(rollouts, sampler.policy, task, tree)
        except NotReproducible:
            raise
        except Exception as error:  # noqa: BLE001 - the group is lost, or Failure.of raises
            rollouts.discard(rollouts.envs(1)[0])
            return outcomes, 0, [Failure.of(error, task=task)]
        counts = draws.draw_counts(expected, rng)
        made, lost = draw(rollouts, sampler, actors, tree, counts, seed=int(rng.integers(2**31)))
        for node, outcome, _ in made:
            outcomes[node].append(outcome)
        return outcomes, sum(one.turns for one in made), lost
