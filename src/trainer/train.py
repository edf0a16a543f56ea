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
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import credit
from agent_envs import endpoint
from agent_envs.imports import message_of
from credit.filters import has_signal
from trainer import recipe as recipes
from trainer.build import (
    cores,
    derive,
    evaluate_policy,
    load_policy,
    make_engine,
    make_method,
    make_rollouts,
    make_sampler,
)
from trainer.errors import OutOfMemory, is_of_memory
from trainer.learn import sft
from trainer.learn.batch import make_rows
from trainer.learn.correction import correct_rows, fill_entropies
from trainer.learn.learner import Learner
from trainer.methods import Experience
from trainer.play import episode_files as recorded
from trainer.play import failures
from trainer.play.rollout import draw_tasks
from trainer.play.source import Source
from trainer.run import evaluate, provenance, report
from trainer.run import run_folder as records
from trainer.run.checkpoint import Checkpoints
from trainer.run.checks import check_columns, check_folder, check_source
from trainer.run.lock import FolderLock
from trainer.run.metrics import Metrics, Silent, StallWatch, concentration, describe, open_tracker
from trainer.run.stopping import Stop, Stopped, note_signals
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console

    from trainer.engine import Sampler
    from trainer.learn.batch import Row
    from trainer.model.policy import Policy
    from trainer.play.failures import Failure
    from trainer.play.records import Episode
    from trainer.recipe import Recipe

STATE = "training.pt"
"""File of a checkpoint with the step and the optimiser."""


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
        lock = parallel.run_on_first_only(lambda: held.enter_context(FolderLock(folder)))
        parallel.run_on_first(lambda: check_folder(recipe, folder, resume=resume))
        torch.set_num_threads(recipe.run.threads or cores())
        run = _Run(recipe, folder, stop)  # refuses a bad recipe before anything is written
        parallel.run_on_first(lambda: _prepare(recipe, folder, lock, resume=resume))
        parallel.check_shared(folder)
        if parallel.rank():
            run.go(Silent())
            return
        totals = {"start": 1, "sft": recipe.sft.steps, "rl": recipe.run.steps}
        trackers = [open_tracker(name, folder, asdict(recipe)) for name in track]
        with Metrics(folder, totals, console=console, trackers=trackers) as log:
            provenance.write(folder, run.tasks, run.panel)
            run.go(log)
            report.write(folder)


def _prepare(recipe: Recipe, folder: Path, lock: FolderLock | None, *, resume: bool) -> None:
    """Make the run folder, with its recipe, and lock it."""
    folder.mkdir(parents=True, exist_ok=True)
    if lock is not None:
        lock.take()
    check_folder(recipe, folder, resume=resume)  # another process may have been here since
    recipes.save(recipe, folder / "config.toml")


def _write_episodes(path: Path, played: Sequence[Episode], advantage: NDArray[np.float64]) -> None:
    path.parent.mkdir(exist_ok=True)
    np.save(path.with_suffix(".npy"), advantage)
    recorded.write_episodes(path, played)  # written last: if this file exists, its credit does, too


class _Run:
    """The state of a run: policy, method, environments, checkpoints and the current step."""

    def __init__(self, recipe: Recipe, folder: Path, stop: Stop) -> None:
        self.recipe, self.folder, self.stop = recipe, folder, stop
        self.method = make_method(recipe)
        check_source(recipe)
        self.training = make_rollouts(recipe, recipe.env.split, blind=self.method.blind)
        check_columns(recipe.credit.name, self.method, self.training)
        if recipe.sft.steps:
            sft.require_expert(self.training, recipe.sft.expert)
        self.held_out = make_rollouts(recipe, recipe.eval.split)
        self.tasks = evaluate.draw_panel(self.training.panel, recipe.env.games, "env.games")
        self.panel = evaluate.draw_panel(self.held_out.panel, recipe.eval.tasks)
        self.source = Source(recipe, self.training, self.tasks)
        self.policy = load_policy(recipe.policy)
        self.kl_coefficient = recipe.update.kl_coefficient
        self.step = 0
        self.used = endpoint.read_usage()
        self.checkpoints = Checkpoints(
            folder / "checkpoints", recipe.run.keep, frozenset({recipe.sft.steps})
        )
        self.stalled = StallWatch()
        self.failed, self.measured = 0.0, ""

    def go(self, log: Metrics | Silent) -> None:
        """Run all remaining steps."""
        self.log = log
        warm, total = self.recipe.sft.steps, self.recipe.sft.steps + self.recipe.run.steps
        found = self._restore_newest()
        self.engine = make_engine(self.recipe.engine, self.policy, self.folder, version=self.step)
        try:
            self._begin(found)
            self._steps(warm, total)
        finally:
            self.engine.close()

    def _steps(self, warm: int, total: int) -> None:
        """Run the steps up to number `total`, of which `warm` imitate."""
        self._stop_if_asked()
        if self.step == 0 and not warm:
            self._start()
        self._evaluate_again(warm, total)
        while self.step < total:
            self._stop_if_asked()
            self.step += 1
            began = time.monotonic()
            values = self.imitate() if self.step <= warm else self.improve()
            self.source.settle()  # nothing is sampled while weights change
            if self.step >= warm:  # before, nothing is sampled at all
                self.engine.sync(self.policy, self.step)
            values["seconds"] = time.monotonic() - began
            if self._due(self.recipe.eval.every, warm, total) and self.step >= warm:
                values |= self.evaluate()
            stage, done = ("sft", self.step) if self.step <= warm else ("rl", self.step - warm)
            self._log(stage, done, values)
            if self.step == warm:
                self._start()
            elif self._due(self.recipe.run.save_every, warm, total):
                self.checkpoints.save(self.step, self._write)

    def _evaluate_again(self, warm: int, total: int) -> None:
        """Evaluate the restored policy again if the evaluation of its step was lost or damaged."""
        path = self.folder / "eval" / f"step_{self.step}.json"
        due = self.step >= warm and self._due(self.recipe.eval.every, warm, total)
        if due and not parallel.run_on_first(
            lambda: bool(records.readable([path], evaluate.load)[0])
        ):
            self.log.say(f"step {self.step}: {path} is missing or damaged, so it is made again")
            self.evaluate()

    def _stop_if_asked(self) -> None:
        """Write a checkpoint and end the run if a signal was received.

        Raises:
            Stopped: It was.
        """
        number = self.stop.agree()
        if not number:
            return
        if self.step and self.step not in parallel.run_on_first(self.checkpoints.steps):
            self.checkpoints.save(self.step, self._write)
        raise Stopped(f"stopped after step {self.step}" if self.step else "stopped", number)

    def imitate(self) -> dict[str, float]:
        """One supervised step on demonstrations of newly drawn training tasks."""
        drawn = draw_tasks(
            self.tasks,
            tasks=self.recipe.sft.episodes,
            rollouts=1,
            seed=self.recipe.run.seed,
            step=self.step,
        )
        free = self.recipe.sampling.decode == "free"
        expert = self.recipe.sft.expert
        attempts = sft.attempt_demonstrations(
            self.training, drawn, self.policy, expert, thoughts=free
        )
        shown = self._drop_failed(attempts, len(drawn))
        rows = make_rows(shown, max_tokens=self.recipe.sampling.max_tokens)
        with self._name_shortage("imitating", "lower sft.episodes"):
            return sft.imitate(self.learner, rows) | {"failed": self.failed}

    def improve(self) -> dict[str, float]:
        """One step of reinforcement learning, as in the algorithm box of this module."""
        sampling = self.recipe.sampling
        began = time.monotonic()
        with self._name_shortage("sampling", "lower sampling.rows or sampling.max_tokens"):
            played = self._drop_failed(*self.source.take(self.step, self._sampler()))
        seconds = time.monotonic() - began
        rows, differences = self._correct_rows(
            played, make_rows(played, max_tokens=sampling.max_tokens)
        )
        experience = Experience(
            step=self.step,
            episodes=played,
            turns=credit.Turns.from_episodes(played, outcome_in_reward=False),
            rows=rows,
            rng=np.random.default_rng(self._seed("credit")),
            rollouts=self.training,
            sampler=self._sampler(),
        )
        with self._name_shortage("giving credit", "lower update.tokens"):
            rows, advantage, learned, more, failed = self.method.credit(experience)
        self._note(failed, "credit")
        self._record(played, advantage)
        if self.recipe.update.skip_dead_groups:
            mask = has_signal(experience.turns, advantage)
            rows = [row for row in rows if mask[row.turn[0]]]
        with self._name_shortage("updating", "lower update.tokens"):
            values = learned | self.recipe.update(
                self.learner,
                rows,
                rng=np.random.default_rng(self._seed("minibatches")),
                temperature=sampling.temperature,
                kl_coefficient=self.kl_coefficient,
                more=more,
            )
        if not rows:
            self.log.say(
                f"step {self.step}: no update, because no group has anything to learn from: all "
                "outcomes of a group are equal"
            )
        self.kl_coefficient = values["kl_coefficient"]
        tokens = sum(episode.tokens for episode in played)
        speed = {
            "tokens": tokens,
            "tokens_per_second": tokens / seconds,
            "failed": self.failed,
            "skipped": float(not rows),
        }
        values["concentration"] = concentration(advantage, experience.turns.trajectory)
        values |= differences | describe(played) | speed
        if said := self.stalled.check_after(values):
            self.log.warning(self.step, said)
        return values

    @contextmanager
    def _name_shortage(self, part: str, remedy: str) -> Iterator[None]:
        """Context in which a lack of memory becomes an error that names the part and the remedy.

        Raises:
            OutOfMemory: torch could not allocate.
        """
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not is_of_memory(error):
                raise
            self.policy.model.zero_grad()
            raise OutOfMemory(
                f"out of memory while {part} ({message_of(error):.120}); {remedy} and continue "
                "with --resume. `agent-envs doctor` says what the recipe needs"
            ) from error

    def _correct_rows(
        self, played: list[Episode], rows: list[Row]
    ) -> tuple[list[Row], dict[str, float]]:
        """The rows with importance weights, if the engine is not the policy, and values to log.

        `staleness` is the number of updates since the oldest weights that sampled.
        """
        engine, policy, tokens = self.recipe.engine, self.policy, self.recipe.update.tokens
        if engine.name == "own" and not engine.corrects:
            return rows, {}
        temperature = self.recipe.sampling.temperature
        fill_entropies(policy, played, rows, tokens=tokens, temperature=temperature)
        oldest = min(step.version for episode in played for step in episode.steps)
        stale: dict[str, float] = {"staleness": self.step - 1 - oldest}
        if not engine.corrects:
            return rows, stale
        rows, values = correct_rows(
            policy, rows, engine.correction, tokens=tokens, temperature=temperature
        )
        return rows, values | stale

    def _sampler(self) -> Sampler:
        """The policy at the temperature of training."""
        temperature = self.recipe.sampling.temperature
        return make_sampler(self.recipe, self.engine, self.policy, temperature)

    def _drop_failed(self, played: Sequence[Episode | Failure], tried: int) -> list[Episode]:
        """The episodes without those that failed, which are noted.

        Raises:
            LimitError: More failed than `sampling.failures` allows.
        """
        episodes, failed = failures.split_attempts(played)
        self._note(failed, "episode")
        self.failed = len(failed) / max(tried, 1)
        limit = self.recipe.sampling.failures
        failures.check_limit(failed, tried, limit, f"step {self.step}")
        return episodes

    def _note(self, failed: Sequence[Failure], part: str) -> None:
        """Write a file for each failure, and say the first."""
        folder = self.folder / failures.FOLDER

        def write() -> None:
            for number, failure in enumerate(failed):
                path = folder / f"step_{self.step}_{part}_{number}.json"
                failure.save(path, step=self.step, part=part, env=self.recipe.env.id)

        if failed:
            parallel.run_on_first(write)
            self.log.warning(
                self.step,
                f"the environment failed in {len(failed)} of the {part}s, see {folder}; the first, "
                f"{failed[0]}",
            )

    def evaluate(self) -> dict[str, float]:
        """Evaluate on the panel of the evaluation and write `eval/step_N.json`."""
        temperature = self.recipe.eval.temperature
        sampler = make_sampler(self.recipe, self.engine, self.policy, temperature)
        with self._name_shortage("evaluating", "lower sampling.rows or sampling.max_tokens"):
            result, failed = evaluate_policy(self.recipe, sampler, self.held_out, self.panel)
        self._note(failed, "evaluation")
        limit, tried = self.recipe.sampling.failures, len(self.panel.task_ids)
        failures.check_limit(failed, tried, limit, f"step {self.step}, evaluation")
        parallel.run_on_first(lambda: result.save(self.folder / "eval" / f"step_{self.step}.json"))
        seen = set(self.tasks.task_ids) & set(self.panel.task_ids)
        panel = "training tasks" if seen else "held out"
        self.measured = f"step {self.step}  {panel}: {result.overall}  valid {result.valid:.1%}"
        return {
            "eval_success": result.overall.rate,
            "eval_valid": result.valid,
            "eval_return": float(np.mean(result.returns)),
        }

    def _start(self) -> None:
        """Start reinforcement learning: reference, new optimiser, checkpoint."""
        if self.step == 0:
            self._log("start", 1, self.evaluate())
        if self.recipe.update.kl != "none" or self.method.needs_reference:
            self.policy.keep_reference()
        self.learner = self._learner()
        self.method.begin(self.policy, self.folder)
        self.checkpoints.save(self.step, self._write)

    def _log(self, stage: str, done: int, values: dict[str, float]) -> None:
        """Log a step, with its use of endpoints if there was any."""
        before, self.used = self.used, endpoint.read_usage()
        spent = zip(self.used._fields, before, self.used, strict=True)
        used = parallel.sum_totals({f"endpoint_{name}": now - then for name, then, now in spent})
        if any(used.values()):
            values |= used
        self.log.log(self.step, stage, done, values)
        if self.measured:  # the evaluation of a step is printed after its own line
            self.log.say(self.measured)
            self.measured = ""

    def _due(self, every: int, *always: int) -> bool:
        return self.step in always or (every > 0 and self.step % every == 0)

    def _learner(self) -> Learner[Policy]:
        warm, update = self.step < self.recipe.sft.steps, self.recipe.update
        stage = self.recipe.sft if warm else update
        return Learner(
            self.policy,
            replace(update, learning_rate=stage.learning_rate, warmup=stage.warmup),
            folder=self.folder,
        )

    def _seed(self, purpose: str) -> int:
        return derive(self.recipe.run.seed, self.step, purpose)

    def _record(self, played: Sequence[Episode], advantage: NDArray[np.float64]) -> None:
        """Write the episodes of a step and their credit."""
        every, done = self.recipe.run.episodes_every, self.step - self.recipe.sft.steps
        if every and ((done - 1) % every == 0 or done == self.recipe.run.steps):
            path = self.folder / "episodes" / f"step_{self.step}.parquet"
            parallel.run_on_first(lambda: _write_episodes(path, played, advantage))

    def _write(self, folder: Path) -> None:
        self.policy.save(folder)
        if self.step >= self.recipe.sft.steps:
            self.method.save(folder)
        state = {"step": self.step, "kl_coefficient": self.kl_coefficient}
        sharding.save(state | {"learner": self.learner.state_dict()}, folder / STATE)

    def _restore_newest(self) -> tuple[Path, dict[str, Any]] | None:
        """Restore the policy of the newest valid checkpoint; its path and state if there is one."""
        path = parallel.run_on_first(self.checkpoints.latest)
        if path is None:
            return None
        self.policy.restore(path)
        state = sharding.load(path / STATE)
        self.step, self.kl_coefficient = state["step"], state["kl_coefficient"]
        self.log.say(f"continuing after step {self.step} from {path}")
        return path, state

    def _begin(self, found: tuple[Path, dict[str, Any]] | None) -> None:
        """Shard the policy in several processes; then optimiser and method, as in a checkpoint."""
        if parallel.size() > 1:
            self.policy.shard()
        self.learner = self._learner()
        if found is None:
            return
        path, state = found
        self.learner.load_state_dict(state["learner"])
        if self.step >= self.recipe.sft.steps:
            self.method.begin(self.policy, self.folder)
            self.method.restore(path)
