"""The loop: a warm start from demonstrations, then reinforcement learning with turn-level credit.

A step of reinforcement learning is the algorithm box that GRPO, GiGPO, HAS and MGR share:

    tasks      <- draw G tasks of the training split
    episodes   <- K rollouts of each by the policy
    advantage  <- credit of each turn, by an estimator or a model learned beside the policy
    policy     <- clipped surrogate over the sampled tokens

Everything random derives from (seed, step, purpose), so a checkpoint needs no random state, and a
resumed run equals one that was not interrupted. Several processes (`trainer.scale.parallel`)
divide the tasks and the rows, and take the same steps as one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

import credit
from agent_envs.machine import FolderLock
from credit import stats
from credit.filters import has_signal
from trainer import recipe as recipes
from trainer.build import cores, derive, make_engine
from trainer.errors import Problems
from trainer.learn import sft
from trainer.methods import Experience
from trainer.run import report
from trainer.run.checkpoint import Checkpoints
from trainer.run.checks import check_folder
from trainer.run.metrics import Metrics, Silent, abandon_steps, describe, note_warning, open_tracker
from trainer.run.run_folder import step_of, write_provenance
from trainer.run.session import Session
from trainer.run.stopping import note_signals
from trainer.scale import parallel

if TYPE_CHECKING:
    from rich.console import Console

    from trainer.recipe import Recipe


class Loop(Session):
    """The steps of a run: those that imitate, then those of reinforcement learning."""

    def run(self, log: Metrics | Silent) -> None:
        """Take all remaining steps."""
        self.log = log
        found = self.restore_policy()
        engine = make_engine(self.recipe.engine, self.policy, self.folder, version=self.step)
        with closing(engine) as self.engine:
            self.restore_learners(found)
            self.take_steps()

    def take_steps(self) -> None:
        """Take the steps up to the last one."""
        self.stop.began = True
        self.stop_if_asked()
        if self.step == 0:
            self.log_step("start", 1, self.evaluate())
            if not self.expert:
                self.start()
        while self.pending or self.step < self.last:
            if not self.pending:
                self.stop_if_asked()
                self.step += 1
                self.take_step()
            self.finish_step()

    def take_step(self) -> None:
        """Take a step; its values are then pending."""
        began = time.monotonic()
        values = self.imitate() if self.step <= self.warm else self.improve()
        self.source.settle()  # nothing is sampled while weights change
        if self.step >= self.warm:  # before, nothing is sampled at all
            self.engine.sync(self.policy, self.step)
        self.pending = values | {"seconds": time.monotonic() - began}

    def finish_step(self) -> None:
        """Evaluate, log and save what is due after a step; a stopped run does it when resumed."""
        values = self.pending
        if self.step >= self.warm and self.is_due(self.recipe.eval.every):
            self.stop_if_asked()
            values |= self.evaluate()
        done = self.step - self.warm
        self.log_step(*(("rl", done) if done > 0 else ("sft", self.step)), values)
        self.pending = {}
        if self.step == self.warm:
            self.start()
        elif self.is_due(self.recipe.run.save_every):
            self.save()

    def imitate(self) -> dict[str, float]:
        """One supervised step on demonstrations of newly drawn training tasks."""
        rows = self.demonstrate(self.step)
        return sft.imitate(self.learner, rows) | {"failed": self.failed} | self.check_imitation()

    def improve(self) -> dict[str, float]:
        """One step of reinforcement learning, as in the algorithm box of this module."""
        recipe, seed = self.recipe, self.recipe.run.seed
        sampler = self.make_sampler(recipe.sampling.temperature)
        began = time.monotonic()
        played = self.drop_failed(*self.source.take(self.step, sampler))
        seconds = time.monotonic() - began
        rows, differences = self.correct_rows(played)
        turns = credit.Turns.from_episodes(played)
        rng = np.random.default_rng(derive(seed, self.step, "credit"))
        rows, advantage, learned, more, failed = self.method.credit(
            Experience(self.step, played, turns, rows, rng, self.training, sampler)
        )
        self.note_failures(failed, "credit")
        self.record(played, advantage)
        if recipe.update.skip_dead_groups:
            mask = has_signal(turns, advantage)
            rows = [row for row in rows if mask[row.turn[0]]]
        values = learned | recipe.update(
            self.learner,
            rows,
            rng=np.random.default_rng(derive(seed, self.step, "minibatches")),
            temperature=recipe.sampling.temperature,
            kl_coefficient=self.kl_coefficient,
            more=more,
        )
        if not rows:
            self.log.say(f"step {self.step}: no update, because in no group outcomes differ")
        self.kl_coefficient = values["kl_coefficient"]
        values |= differences | describe(played)
        values |= {
            "concentration": stats.concentration(advantage, turns.trajectory),
            "tokens": (tokens := sum(episode.tokens for episode in played)),
            "tokens_per_second": tokens / seconds,
            "failed": self.failed,
            "skipped": float(not rows),
        }
        if found := self.watch.note_step(played, values):
            self.log.warning(self.step, str(found))
        return values


def train(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    console: Console | None = None,
    track: Sequence[str] = (),
) -> None:
    """Train by a recipe in a run folder, from its last checkpoint if it has one; write the report.

    `track` names libraries that get a copy of the log, see `trainer.run.metrics.TRACKERS`.

    Raises:
        RunError: The folder or the recipe cannot be used.
        LockedError: Another process trains in the folder.
        CheckpointError: A checkpoint cannot be written, or all existing ones are damaged.
        LimitError: Too many environments failed.
        TrackerError: A library of `track` refused to start.
        RankError: Another process of the run failed.
        Stopped: A signal stopped the run, after a checkpoint.
    """
    with ExitStack() as held:
        held.enter_context(parallel.join_processes(recipe.policy.device))
        stop = held.enter_context(note_signals())
        parallel.check_alike("recipe", repr(recipe))
        lock = held.enter_context(closing(FolderLock(folder)))
        problems = Problems()
        with problems.note():
            parallel.run_on_first(lambda: _enter(recipe, folder, lock, resume=resume))
        torch.set_num_threads(recipe.run.threads or cores())
        # it refuses a bad recipe before anything is written
        loop = Loop(recipe, folder, stop, problems)
        parallel.run_on_first(lambda: _prepare(recipe, folder, lock, resume=resume))
        parallel.check_shared(folder)
        if parallel.rank():
            loop.run(Silent())
            return
        totals = {"start": 1, "sft": recipe.sft.steps, "rl": recipe.run.steps}
        trackers = [open_tracker(name, folder, asdict(recipe)) for name in dict.fromkeys(track)]
        with Metrics(folder, totals, console=console, trackers=trackers) as log:
            write_provenance(folder, loop.tasks, loop.panel)
            loop.run(log)
            report.write(folder)


def _enter(recipe: Recipe, folder: Path, lock: FolderLock, *, resume: bool) -> str:
    """Lock the folder if it has been a run's, and refuse one that cannot be used."""
    if lock.path.is_file():
        lock.take()
    return check_folder(recipe, folder, resume=resume)


def _prepare(recipe: Recipe, folder: Path, lock: FolderLock, *, resume: bool) -> None:
    """Make the run folder, with its lock and recipe; another process may have been here since."""
    folder.mkdir(parents=True, exist_ok=True)
    lock.path.touch()
    if forked := _enter(recipe, folder, lock, resume=resume):
        step = step_of(newest) if (newest := Checkpoints(folder / "checkpoints").latest()) else 0
        abandon_steps(folder, step)
        note_warning(folder, step, f"from here on with {forked}")
    recipes.save(recipe, folder / "config.toml")
