"""What a run has beside its loop: its parts, checkpoints, evaluations, and notes of failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agent_envs import evaluation
from agent_envs.net import endpoint
from trainer.build import (
    check_apart,
    evaluate_policy,
    load_policy,
    make_held_out,
    make_rollouts,
    make_sampler,
)
from trainer.learn import sft
from trainer.learn.correction import correct_rows, fill_entropies
from trainer.learn.learner import Learner
from trainer.learn.rows import make_rows
from trainer.methods import make_method
from trainer.model import pretrained
from trainer.play import failures
from trainer.play.episode_files import write_episodes
from trainer.play.source import Source, draw_tasks
from trainer.run.checkpoint import Checkpoints, State, name_damage
from trainer.run.checks import check_columns, check_source, find_expert, find_unmet_states
from trainer.run.diagnosis import Watch
from trainer.run.metrics import read_log
from trainer.run.stopping import Stopped
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from trainer.engine import Engine, Sampler
    from trainer.errors import Problems
    from trainer.learn.rows import Row
    from trainer.model.policy import Policy
    from trainer.play.failures import Failure
    from trainer.play.records import Episode
    from trainer.recipe import Recipe
    from trainer.run.metrics import Metrics, Silent
    from trainer.run.stopping import Stop

STATE = "training.pt"
"""File of a checkpoint with the step, the optimiser and the state of the method."""


class Session:
    """The parts and the state of a run.

    Attributes:
        warm: Number of the last step of imitation, also if this ends sooner.
        expert: Who is imitated, "" for nobody.
        imitated: How well, at each measurement.
        last: Number of the last step.
        step: Number of the current step.
        pending: What the log gets of this step, once it is evaluated; empty before and after.
    """

    log: Metrics | Silent
    engine: Engine
    learner: Learner[Policy]

    def __init__(self, recipe: Recipe, folder: Path, stop: Stop, problems: Problems) -> None:
        self.recipe, self.folder, self.stop = recipe, folder, stop
        with problems.note():
            pretrained.find_device(recipe.policy.device)
        with problems.note():
            pretrained.open_model(recipe.policy.model)
        with problems.note():
            check_source(recipe)
        with problems.note():
            self.method = make_method(recipe)
            self.training = make_rollouts(recipe, recipe.env.split, blind=self.method.blind)
            check_columns(recipe.credit.name, self.method, self.training)
            self.expert = ""
            if recipe.sft.steps:
                self.expert = find_expert(self.training, recipe.sft.expert, recipe.sampling)
        with problems.note():
            self.held_out = make_held_out(recipe)
            self.panel = evaluation.draw_panel(self.held_out.panel, recipe.eval.tasks)
        problems.refuse()
        self.tasks = evaluation.draw_panel(self.training.panel, recipe.env.games, "env.games")
        check_apart(self.tasks, self.panel)
        self.source = Source(recipe, self.training, self.tasks)
        self.policy = load_policy(recipe.policy)
        self.kl_coefficient = recipe.update.kl_coefficient
        self.warm, self.last = recipe.sft.steps, recipe.last_step
        self.step, self.pending = 0, dict[str, float]()
        self.imitated: list[float] = []
        self.used = endpoint.read_usage()
        self.checkpoints = Checkpoints(
            folder / "checkpoints", recipe.run.keep, frozenset({self.warm})
        )
        self.watch = Watch(recipe)
        self.failed, self.measured = 0.0, ""

    def restore_policy(self) -> State | None:
        """Restore the policy of the newest valid checkpoint; its state if there is one."""
        path = parallel.run_on_first(self.checkpoints.latest)
        if path is None:
            return None
        with name_damage(path):
            self.policy.restore(path)
            state = State.model_validate(sharding.load(path / STATE))
            if path.name != f"step_{state.step}" or state.step > self.last:
                raise ValueError(f"its state is that of step {state.step} of {self.last}")
        self.step, self.kl_coefficient = state.step, state.kl_coefficient
        self.pending, self.imitated = state.pending, state.imitated
        self.log.say(f"continuing after step {self.step} from {path}")
        self.log.note_gaps(self.step - bool(self.pending))
        self.watch.recall(read_log(self.folder / "metrics.jsonl"), self.step)
        return state

    def restore_learners(self, found: State | None) -> None:
        """Shard the policy in several processes; then optimiser and method, as in a checkpoint."""
        if parallel.size() > 1:
            self.policy.shard()
        self.learner = self._make_learner()
        if found is None:
            return
        if self.improves:
            self.method.begin(self.policy, self.folder)
        with name_damage(self.checkpoints.folder / f"step_{self.step}"):
            self.learner.load_state_dict(found.learner)
            if self.improves:
                self.method.restore(found.method)

    @property
    def improves(self) -> bool:
        """Whether reinforcement learning has started."""
        return self.step > self.warm or (self.step == self.warm and not self.pending)

    def start(self) -> None:
        """Start reinforcement learning: reference, new optimiser, checkpoint."""
        if self.warm and not self.expert:
            self.log.say("no warm start: the environment has no Explorer to imitate")
            self.engine.sync(self.policy, self.warm)  # the steps that it skips
        self.step = self.warm
        if self.recipe.update.kl != "none" or self.method.needs_reference:
            self.policy.keep_reference()
        self.learner = self._make_learner()
        self.method.begin(self.policy, self.folder)
        if unmet := find_unmet_states(self.recipe.credit.name, self.method, self.training):
            self.log.warning(self.step, unmet)
        self.save()

    def _make_learner(self) -> Learner[Policy]:
        stage = self.recipe.update if self.improves else self.recipe.sft
        options = replace(
            self.recipe.update, learning_rate=stage.learning_rate, warmup=stage.warmup
        )
        return Learner(self.policy, options, folder=self.folder)

    def save(self) -> None:
        """Write the checkpoint of the step."""
        self.checkpoints.save(self.step, self._write)

    def _write(self, folder: Path) -> None:
        self.policy.save(folder)
        state = State(
            step=self.step,
            kl_coefficient=self.kl_coefficient,
            learner=self.learner.state_dict(),
            method=self.method.state() if self.improves else {},
            pending={name: np.asarray(value).item() for name, value in self.pending.items()},
            imitated=self.imitated,
        )
        sharding.save(dict(state), folder / STATE)

    def stop_if_asked(self) -> None:
        """Write a checkpoint and end the run if a signal was received.

        Raises:
            Stopped: It was.
        """
        number = self.stop.agree()
        if not number:
            return
        if self.step and self.step not in parallel.run_on_first(self.checkpoints.steps):
            self.save()
        raise Stopped(f"stopped after step {self.step}" if self.step else "stopped", number)

    def is_due(self, every: int) -> bool:
        """Whether something is due that is done `every` so many steps and after each stage."""
        return self.step in {self.warm, self.last} or (every > 0 and self.step % every == 0)

    def make_sampler(self, temperature: float) -> Sampler:
        """The policy at this temperature."""
        return make_sampler(self.recipe, self.engine, self.policy, temperature)

    def correct_rows(self, played: Sequence[Episode]) -> tuple[list[Row], dict[str, float]]:
        """The rows of a step, weighted if the engine is not the policy, and values to log.

        `staleness` is the number of updates since the oldest weights that sampled.
        """
        rows = make_rows(played, max_tokens=self.recipe.sampling.max_tokens)
        engine, policy, tokens = self.recipe.engine, self.policy, self.recipe.update.tokens
        if engine.name == "own" and not engine.corrects:
            return rows, {}
        temperature = self.recipe.sampling.temperature
        fill_entropies(policy, played, rows, tokens=tokens, temperature=temperature)
        oldest = min(step.version for episode in played for step in episode.steps)
        values: dict[str, float] = {"staleness": self.step - 1 - oldest}
        if engine.corrects:
            rows, weighed = correct_rows(
                policy, rows, engine.correction, tokens=tokens, temperature=temperature
            )
            values |= weighed
        return rows, values

    def evaluate(self) -> dict[str, float]:
        """Evaluate on the panel of the evaluation and write `eval/step_N.json`."""
        sampler = self.make_sampler(self.recipe.eval.temperature)
        result, failed = evaluate_policy(self.recipe, sampler, self.held_out, self.panel)
        self.note_failures(failed, "evaluation", len(self.panel.task_ids))
        path = self.folder / "eval" / f"step_{self.step}.json"
        parallel.run_on_first(lambda: result.save(path))
        seen = set(self.tasks.task_ids) & set(self.panel.task_ids)
        panel = "training tasks" if seen else "held out"
        shown = evaluation.describe_share(result.overall)
        when = f"step {self.step}"
        if self.step == self.warm and self.expert:
            when = f"after the warm start ({when})"
        self.measured = f"{when}  {panel}: {shown}  valid {result.valid:.1%}"
        self.watch.note_evaluation(result.overall.share)
        if self.step == self.last and (found := self.watch.conclude()):
            self.log.warning(self.step, str(found))
        return {
            "eval_success": result.overall.share,
            "eval_valid": result.valid,
            "eval_return": float(np.mean(result.returns)),
        }

    def demonstrate(self, step: int, *, held_out: bool = False) -> list[Row]:
        """Rows of the expert on tasks that it solves; or on all that a warm start leaves out."""
        options, (shown, left_out) = self.recipe.sft, sft.split_tasks(self.tasks)
        tasks = left_out if held_out else shown if options.until else self.tasks
        count = len(tasks) if held_out else options.episodes
        drawn = draw_tasks(tasks, tasks=count, rollouts=1, seed=self.recipe.run.seed, step=step)
        attempts = sft.attempt_demonstrations(
            self.training, drawn, self.policy, self.expert, self.recipe.sampling,
            solved=not held_out,
        )  # fmt: skip
        played = self.drop_failed(attempts, len(drawn))
        limit, free = self.recipe.sampling.max_reply_tokens, sft.measure_replies(played)
        if step == 1 and free > limit:
            self.log.warning(
                step,
                f"replies of the {self.expert} have up to {free} tokens, and the policy's are cut "
                f"at sampling.max_reply_tokens={limit}; raise it, or let the expert think less",
            )
        return make_rows(played, max_tokens=self.recipe.sampling.max_tokens)

    def check_imitation(self) -> dict[str, float]:
        """Every tenth step, how well the policy imitates; a warm start that is enough ends."""
        step, wanted = self.step, self.recipe.sft.until
        if not wanted or (step % sft.CHECK and step < self.warm):
            return {}
        rows = self.demonstrate(0, held_out=True)
        now = sft.measure_imitation(self.policy, rows, tokens=self.recipe.update.tokens)
        self.imitated.append(now)
        why = sft.find_end(self.imitated, wanted)
        if not why and step < self.warm:
            return {"imitation": now}
        said = (
            f"the warm start ends after {step} of at most {self.warm} steps: the policy gives "
            f"{now:.0%} of the {self.expert}'s replies on training tasks that were left out; "
            f"{why or 'its steps (sft.steps) are taken'}"
        )
        if now >= wanted or sft.has_reached(self.imitated, wanted):
            self.log.say(said)
        else:
            self.log.warning(step, f"{said}. {sft.REMEDY}")
        self.step = self.warm
        return {"imitation": now, "steps": step}

    def drop_failed(self, played: Sequence[Episode | Failure], tried: int) -> list[Episode]:
        """The episodes of a step without those that failed, which are noted.

        Raises:
            LimitError: More failed than `sampling.failures` allows.
        """
        episodes, failed = failures.split_attempts(played)
        self.failed = len(failed) / max(tried, 1)
        self.note_failures(failed, "episode", tried)
        return episodes

    def note_failures(self, failed: Sequence[Failure], part: str, tried: int = 0) -> None:
        """Write a file for each failure, and say the first; refuse too many of those `tried`.

        Raises:
            LimitError: More failed than `sampling.failures` allows.
        """
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
        if tried:
            limit, what = self.recipe.sampling.failures, f"step {self.step}, {part}s"
            failures.check_limit(failed, tried, limit, what)

    def log_step(self, stage: str, done: int, values: dict[str, float]) -> None:
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

    def record(self, played: Sequence[Episode], advantage: NDArray[np.float64]) -> None:
        """Write the episodes of a step and their credit, if it is their turn."""
        every, done = self.recipe.run.episodes_every, self.step - self.warm
        path = self.folder / "episodes" / f"step_{self.step}.parquet"

        def write() -> None:
            path.parent.mkdir(exist_ok=True)
            np.save(path.with_suffix(".npy"), advantage)
            write_episodes(path, played)  # last: if this file exists, its credit does, too

        if every and ((done - 1) % every == 0 or self.step == self.last):
            parallel.run_on_first(write)
