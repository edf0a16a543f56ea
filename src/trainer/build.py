"""Build policy, rollouts, sampler and method from a recipe, and evaluate it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch

from agent_envs import evaluation
from trainer import recipe as recipes
from trainer.engine import Decoding, Sampler
from trainer.engine.own import OwnEngine
from trainer.errors import Problems, RecipeError
from trainer.model import pretrained
from trainer.model.policy import Model, Policy
from trainer.play import failures
from trainer.play.partner import PolicyPartner
from trainer.play.records import Task
from trainer.play.rollout import Rollouts
from trainer.run.checkpoint import find_latest
from trainer.scale import parallel
from trainer.scale.pool import Pool, PooledRollouts

if TYPE_CHECKING:
    from agent_envs.evaluation import Evaluation
    from agent_envs.panels import Panel
    from trainer.engine import Engine, EngineOptions
    from trainer.play.failures import Failure
    from trainer.play.partner import PartnerOptions
    from trainer.play.records import Episode
    from trainer.recipe import Recipe


_CHOICE = {
    "free": "",
    "admissible": ", admissible actions only",
    "auto": ", admissible actions where they are listed",
}  # of a way to decode, as an evaluation tells it


def derive(seed: int, step: int, purpose: str) -> int:
    """Seed of one purpose at one step, independent of all other seeds."""
    return int(np.random.SeedSequence([seed, step, *purpose.encode()]).generate_state(1)[0])


def cores() -> int:
    """Number of cores for this process: its part of those that it may use."""
    bound = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if parallel.size() > 1 else 1
    return max(1, count // beside)


def load_policy(model: Model, source: Path | None = None) -> Policy:
    """The policy of a recipe, or the one saved in folder `source` with the same settings."""
    return Policy.load(
        str(source or model.model),
        lora=None if source else model.lora,
        dtype=model.dtype,
        device=model.device,
        gradient_checkpointing=model.gradient_checkpointing,
        template=model.template,
    )


@lru_cache(maxsize=1)
def load_partner(partner: PartnerOptions, policy: Model) -> PolicyPartner | None:
    """The policy that plays the other side, None if the recipe has none.

    It has the dtype and device of `policy`, and is shared by training and evaluation.
    """
    if not partner.model:
        return None
    plain = Model(partner.model, dtype=policy.dtype, device=policy.device)
    decoding = Decoding(partner.temperature, partner.max_reply_tokens)
    return PolicyPartner(OwnEngine(load_policy(plain, Path(partner.model)).freeze()), decoding)


def make_rollouts(recipe: Recipe, split: str, *, blind: tuple[str, ...] = ()) -> Rollouts:
    """Rollouts of the recipe's environment on the tasks of a split."""
    sampling = recipe.sampling
    made = partial(PooledRollouts, pool=load_pool(sampling.actors)) if sampling.actors else Rollouts
    return made(
        recipe.env,
        recipe.prompt,
        split,
        rows=sampling.rows,
        max_tokens=sampling.max_tokens,
        blind=blind,
        partner=load_partner(recipe.partner, recipe.policy),
    )


def make_held_out(recipe: Recipe, *, blind: tuple[str, ...] = ()) -> Rollouts:
    """Rollouts on the tasks of the recipe's evaluation, from data of its own if it has some."""
    env = replace(recipe.env, data=recipe.eval.data or recipe.env.data)
    return make_rollouts(replace(recipe, env=env), recipe.eval.split, blind=blind)


def check_apart(training: Panel, held_out: Panel) -> None:
    """Check that no task of an evaluation was made from what a task of training was made from.

    Raises:
        RecipeError: Some were.
    """
    if shared := held_out.find_shared(training):
        raise RecipeError(
            f"training (split {training.split!r}) and evaluation (split {held_out.split!r}) share "
            f"{len(shared)} situations that tasks are made from, the first {shared[0][:60]!r}; set "
            "another eval.split, or other data for one of the two (env.data, eval.data)"
        )


@lru_cache(maxsize=1)
def load_pool(actors: int) -> Pool:
    """The actors of Ray, shared by training and evaluation."""
    return Pool(actors)


def make_engine(
    options: EngineOptions, policy: Policy, folder: Path, *, version: int = 0
) -> Engine:
    """The engine of a run in `folder`, with the policy's weights under a version.

    Raises:
        ValueError: The model does not fit the engine.
        EngineError: vLLM cannot be reached, or does not follow the policy.
    """
    if options.name == "own":
        return OwnEngine(policy, version)
    from trainer.engine.vllm import VLLMEngine

    return VLLMEngine(policy, options, folder, version)


def make_sampler(recipe: Recipe, engine: Engine, policy: Policy, temperature: float) -> Sampler:
    """A sampler with the decoding options of the recipe, at this temperature."""
    sampling = recipe.sampling
    decoding = Decoding(temperature, sampling.max_reply_tokens, sampling.decode)
    return Sampler(engine, policy, decoding)


def evaluate_policy(
    recipe: Recipe, sampler: Sampler, held_out: Rollouts, panel: Panel
) -> tuple[Evaluation, list[Failure]]:
    """Evaluate on every task of the panel; tasks whose environment failed count as not solved."""
    temperature = sampler.decoding.temperature
    played, failed = failures.split_attempts(attempt_panel(recipe, sampler, held_out, panel))
    decoding = f"temperature {temperature:g}" if temperature else "greedy"
    decoding += _CHOICE[recipe.sampling.decode]
    lost = [failure.task_id for failure in failed]
    return evaluation.summarize(panel, played, decoding=decoding, failed=lost), failed


def attempt(
    rollouts: Rollouts, tasks: Sequence[Task], sampler: Sampler, seed: int, *, group: int = 1
) -> list[Episode | Failure]:
    """Play tasks, divided among the processes by groups of `group`; each gets all episodes."""
    mine = parallel.share(len(tasks) // group)
    start, stop = group * mine.start, group * mine.stop
    parts = parallel.gather(lambda: rollouts.attempt(tasks[start:stop], sampler, seed, first=start))
    return [one for part in parts for one in part]


def attempt_panel(
    recipe: Recipe, sampler: Sampler, held_out: Rollouts, panel: Panel
) -> list[Episode | Failure]:
    """Play one episode of every task of the panel."""
    tasks = [Task(task_id, group, seed=0) for group, task_id in enumerate(panel.task_ids)]
    return attempt(held_out, tasks, sampler, derive(recipe.run.seed, 0, "evaluation"))


def check_untrained(recipe: Recipe, panel: Panel, source: Path | None) -> None:
    """Check that no task of a panel is of what a checkpoint, or the recipe's model, trained on.

    Raises:
        RecipeError: It was.
    """
    model = Path(source or recipe.policy.model)
    run = model.resolve().parent.parent
    if panel.origins and model.is_dir() and (run / "config.toml").is_file():
        check_apart(_open_trained(recipe, recipes.load(run)), panel)


def _open_trained(recipe: Recipe, trained: Recipe) -> Panel:
    """The tasks that a run was trained on, opened as those of its evaluation."""
    env = replace(recipe.env, id=trained.env.id, data=trained.env.data)
    panel = make_rollouts(replace(recipe, env=env), trained.env.split).panel
    return evaluation.draw_panel(panel, trained.env.games, "env.games")


def evaluate_model(recipe: Recipe, run: Path | None = None) -> Evaluation:
    """Evaluate a recipe's model, or the newest checkpoint of a run, on the recipe's panel.

    Raises:
        CheckpointError: The run has no checkpoint yet, or none is valid.
        RecipeError: The run was trained on what the panel evaluates.
        LimitError: The environment failed in more tasks than `sampling.failures` allows.
    """
    torch.set_num_threads(recipe.run.threads or cores())
    source = None if run is None else find_latest(run)
    problems = Problems()
    with problems.note():
        pretrained.open_model(str(source or recipe.policy.model))
    with problems.note():
        held_out = make_held_out(recipe)
        panel = evaluation.draw_panel(held_out.panel, recipe.eval.tasks)
        check_untrained(recipe, panel, source)
    problems.refuse()
    policy = load_policy(recipe.policy, source)
    with (
        TemporaryDirectory() as folder,
        closing(make_engine(recipe.engine, policy, Path(folder))) as engine,
    ):
        sampler = make_sampler(recipe, engine, policy, recipe.eval.temperature)
        result, failed = evaluate_policy(recipe, sampler, held_out, panel)
    failures.warn_of_lost(failed, len(panel.task_ids), recipe.sampling.failures)
    return result
