"""Where the episodes of a step come from: new rollouts, also sampled ahead, or recorded files."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agent_envs.vector import call_in_thread
from credit.filters import is_dead
from trainer.build import attempt, derive
from trainer.errors import RecipeError
from trainer.play import episode_files as recorded
from trainer.play import failures
from trainer.play.records import Task

if TYPE_CHECKING:
    from concurrent.futures import Future

    from agent_envs import Panel
    from trainer.engine import Sampler
    from trainer.play.failures import Failure
    from trainer.play.records import Episode
    from trainer.play.rollout import Rollouts
    from trainer.recipe import Recipe

_REDRAW = 10**6  # larger than any step


def draw_tasks(panel: Panel, *, tasks: int, rollouts: int, seed: int, step: int) -> list[Task]:
    """Draw `tasks` different tasks, each with `rollouts` consecutive entries.

    If the panel has fewer tasks, some repeat, in groups of their own.
    """
    rng = np.random.default_rng([seed, step, len("tasks")])
    rows = panel.draw_rows(tasks, rng)
    seeds = rng.integers(2**31, size=tasks)
    return [
        Task(panel.task_ids[row], group, int(seeds[group]))
        for group, row in enumerate(rows)
        for _ in range(rollouts)
    ]


def recorded_files(folder: str) -> list[Path]:
    """The files of recorded episodes in a folder, in order.

    Raises:
        RecipeError: There are none.
    """
    files = sorted(Path(folder).glob("*.parquet"))
    if not files:
        raise RecipeError(
            f"sampling.recorded={folder!r} has no *.parquet files; give the folder `episodes` of a "
            "run"
        )
    return files


class Source:
    """The episodes of the steps of a run; those of a step depend on the seed and its number.

    Args:
        recipe: The recipe.
        rollouts: Plays them.
        tasks: The tasks that they are drawn from.
    """

    def __init__(self, recipe: Recipe, rollouts: Rollouts, tasks: Panel) -> None:
        self.recipe, self.rollouts, self.tasks = recipe, rollouts, tasks
        self._ahead: Future[tuple[list[Episode | Failure], int]] | None = None

    def take(self, step: int, sampler: Sampler) -> tuple[list[Episode | Failure], int]:
        """The episodes of a step, and how many were tried.

        With `sampling.ahead`, sampling those of the next step is started.
        """
        sampling = self.recipe.sampling
        if sampling.recorded:
            chosen = self._draw_recorded_groups(step)
            return list(chosen), len(chosen)
        ahead, self._ahead = self._ahead, None
        played = self._play_tasks(step, sampler) if ahead is None else ahead.result()
        if sampling.ahead and step < self.recipe.last_step:
            self._ahead = call_in_thread(partial(self._play_tasks, step + 1, sampler))
        return played

    def settle(self) -> None:
        """Wait until nothing is being sampled."""
        if self._ahead is not None:
            wait([self._ahead])

    def _play_tasks(self, step: int, sampler: Sampler) -> tuple[list[Episode | Failure], int]:
        """Rollouts of newly drawn tasks, and how many were tried.

        `sampling.redraws` replaces groups of equal outcomes.
        """
        sampling, seed = self.recipe.sampling, self.recipe.run.seed
        kept: list[list[Episode]] = []
        last: list[Episode] = []
        failed: list[Failure] = []
        tried = 0
        for number in range(sampling.redraws + 1):
            missing = sampling.tasks - len(kept)
            if not missing:
                break
            drawn = draw_tasks(
                self.tasks,
                tasks=missing,
                rollouts=sampling.rollouts,
                seed=seed,
                step=step + number * _REDRAW,
            )
            purpose = f"play {number}" if number else "play"
            played = attempt(
                self.rollouts, drawn, sampler, derive(seed, step, purpose), group=sampling.rollouts
            )
            if not sampling.redraws:
                return played, len(drawn)
            tried += len(drawn)
            last, lost = failures.split_attempts(played)
            failed += lost
            kept += _drop_dead_groups(last, first=len(kept))
        found = [one for group in kept for one in group] or last
        return [*found, *failed], tried

    def _draw_recorded_groups(self, step: int) -> list[Episode]:
        """Groups of one of the recorded files, newly drawn every step."""
        files = recorded_files(self.recipe.sampling.recorded)
        rng = np.random.default_rng(derive(self.recipe.run.seed, step, "recorded"))
        episodes = recorded.read_episodes(files[int(rng.integers(len(files)))])
        groups = sorted({episode.group for episode in episodes})
        count = min(self.recipe.sampling.tasks, len(groups))
        chosen = {groups[i] for i in rng.permutation(len(groups))[:count]}
        return [episode for episode in episodes if episode.group in chosen]


def _drop_dead_groups(played: Sequence[Episode], *, first: int) -> list[list[Episode]]:
    """The groups with unequal outcomes, numbered from `first` on."""
    if not played:
        return []
    dead = is_dead([one.outcome for one in played], [one.group for one in played])
    fresh = [episode for episode, drop in zip(played, dead, strict=True) if not drop]
    groups = [list(group) for _, group in groupby(fresh, key=lambda episode: episode.group)]
    for number, group in enumerate(groups, start=first):
        for episode in group:
            episode.group = number
    return groups
