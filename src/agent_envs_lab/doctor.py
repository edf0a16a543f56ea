"""Checks of a recipe before it costs hours: data, template, memory, precision, engine, signal.

A few rollouts of the first step are played, and their log-probabilities recomputed. Nothing is
trained or written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import torch

from agent_envs.evaluation import draw_panel
from agent_envs.net.web import ServerError
from agent_envs_lab import memory
from credit.filters import is_dead
from trainer.build import (
    check_apart,
    derive,
    load_policy,
    make_engine,
    make_held_out,
    make_rollouts,
    make_sampler,
)
from trainer.learn.rows import join_values, make_rows
from trainer.learn.update import recompute_logprobs
from trainer.methods import make_method
from trainer.play.source import draw_tasks
from trainer.run.checks import check_columns, find_unmet_states
from trainer.run.diagnosis import Evidence, diagnose
from trainer.run.needs import GIB

if TYPE_CHECKING:
    from trainer.model.policy import Policy
    from trainer.play.records import Episode
    from trainer.recipe import Recipe

_Result = TypeVar("_Result")
_TASKS = 4  # groups that are played
_PASSES = 3.0  # a step of the update costs about three forward passes
_FULL = 0.9  # of the memory


class Finding(NamedTuple):
    """The result of one check: "ok", "warning" or "error", what was checked, and the details."""

    state: Literal["ok", "warning", "error"]
    what: str
    said: str


def examine(recipe: Recipe) -> Iterator[Finding]:
    """Check a recipe part by part; ends after a part without which the next cannot be checked."""
    method = make_method(recipe)
    rollouts = make_rollouts(recipe, recipe.env.split, blind=method.blind)
    try:
        panel, held_out = rollouts.panel, make_held_out(recipe).panel
        check_apart(
            draw_panel(panel, recipe.env.games, "env.games"),
            draw_panel(held_out, recipe.eval.tasks),
        )
        check_columns(recipe.credit.name, method, rollouts)
    except (ValueError, OSError, ImportError) as error:
        yield Finding("error", "environment", str(error))
        return
    yield Finding(
        "ok",
        "environment",
        f"{len(panel.task_ids)} training tasks from {panel.source}, "
        f"{len(held_out.task_ids)} for evaluation",
    )
    if unmet := find_unmet_states(recipe.credit.name, method, rollouts):
        yield Finding("warning", "anchors", unmet)
    try:
        policy = load_policy(recipe.policy)
    except (ValueError, OSError, ImportError) as error:
        yield Finding("error", "model", str(error))
        return
    yield _model(policy)
    compares = recipe.update.kl != "none" or method.needs_reference
    compares &= not policy.has_adapter
    yield _memory(policy, recipe, reference=compares, twin=method.has_twin)
    yield _resolution(policy, recipe.update.learning_rate)
    with TemporaryDirectory() as folder:
        try:
            engine = make_engine(recipe.engine, policy, Path(folder))
        except (ValueError, ServerError, ImportError) as error:
            yield Finding("error", "engine", str(error))
            return
        try:
            sampler = make_sampler(recipe, engine, policy, recipe.sampling.temperature)
            tasks = draw_tasks(
                panel,
                tasks=min(_TASKS, recipe.sampling.tasks),
                rollouts=recipe.sampling.rollouts,
                seed=recipe.run.seed,
                step=recipe.sft.steps + 1,
            )
            seed = derive(recipe.run.seed, recipe.sft.steps + 1, "play")
            yield Finding("ok", "rollouts", f"now {len(tasks)} are played")
            played, seconds = _time_call(lambda: rollouts.play(tasks, sampler, seed))
        except (ValueError, ServerError) as error:
            yield Finding("error", "rollouts", str(error))
            return
        finally:
            engine.close()
    yield _signal(recipe, played)
    yield from _costs(policy, recipe, played, seconds)


def _model(policy: Policy) -> Finding:
    trained = sum(p.numel() for p in policy.parameters())
    whole = sum(p.numel() for p in policy.model.parameters())
    sees = f", {len(policy.vision.marks)} tokens mark images" if policy.vision else ""
    chat = policy.chat
    ends = " or ".join(repr(chat.tokenizer.decode([i])) for i in sorted(chat.ends))
    begun = f" follows {chat.form.prefill!r} and" if chat.form.prefill else ""
    parts = " has a channel for its thought and" if chat.form.channels else ""
    return Finding(
        "ok",
        "model",
        f"{policy.name}: {whole / 1e6:,.1f} million weights, {trained / 1e6:,.1f} million trained, "
        f"products in {str(policy.dtype).removeprefix('torch.')} on {policy.device}; its chat "
        f"template can grow turn by turn, a reply{begun}{parts} ends with {ends}{sees}",
    )


def _memory(policy: Policy, recipe: Recipe, *, reference: bool, twin: bool) -> Finding:
    parts = memory.estimate_memory(policy, recipe, reference=reference, twin=twin)
    there, needed = memory.read_total(policy.device), sum(parts.values())
    share = f"about {needed / GIB:.2g} of {there / GIB:.2g} GiB"
    said = f"{share}: {memory.describe_parts(parts)}"
    if needed <= _FULL * there:
        return Finding("ok", "memory", said)
    return Finding("error", "memory", f"{said}; {memory.suggest_remedy(parts)}")


def _resolution(policy: Policy, rate: float) -> Finding:
    """Whether an update at this learning rate would change weights kept in bfloat16."""
    total, moved = 0, 0.0
    for weight in policy.parameters():
        size = weight.detach().abs().float().flatten()[:100_000]
        step = torch.exp2(torch.floor(torch.log2(size.clamp(min=1e-30))) - 8)  # half a last place
        moved += float((rate >= step).float().mean()) * weight.numel()
        total += weight.numel()
    share = moved / max(total, 1)
    said = (
        f"weights and moments are kept in float32; in bfloat16 an update at learning rate {rate:g} "
        f"could change {share:.1%} of them"
    )
    return Finding("ok", "precision", said)


def _signal(recipe: Recipe, played: list[Episode]) -> Finding:
    dead = is_dead([one.outcome for one in played], [one.group for one in played])
    alive = float(np.mean(~dead))
    success = float(np.mean([episode.success for episode in played]))
    valid = float(np.mean([step.valid for episode in played for step in episode.steps]))
    cut = float(np.mean([episode.truncated for episode in played]))
    said = (
        f"{len(played)} rollouts: success {success:.0%}, valid turns {valid:.0%}, cut {cut:.0%}; "
        f"{alive:.0%} are in groups whose outcomes differ"
    )
    found = diagnose(Evidence(recipe, played))
    if found is None:
        return Finding("ok", "signal", said)
    if recipe.sft.steps:
        return Finding(
            "ok", "signal", f"{said}. As it is before the warm start (sft.steps): {found}"
        )
    return Finding("warning", "signal", f"{said}. {found}")


def _costs(
    policy: Policy, recipe: Recipe, played: list[Episode], seconds: float
) -> Iterator[Finding]:
    rows = make_rows(played, max_tokens=recipe.sampling.max_tokens)
    tokens, temperature = recipe.update.tokens, recipe.sampling.temperature
    own, passed = _time_call(
        lambda: recompute_logprobs(policy, rows, tokens=tokens, temperature=temperature)
    )
    gap = float(np.abs(own - join_values(rows, "logprobs")).max())
    fine = policy.dtype == torch.float32
    state: Literal["ok", "warning"] = "ok" if gap < (1e-3 if fine else 1.0) else "warning"
    yield Finding(
        state,
        "log-probabilities",
        f"engine {recipe.engine.name!r} and update differ by at most {gap:.1g} nats"
        + ("" if state == "ok" else "; look at policy.dtype and engine.correction"),
    )
    share = recipe.sampling.tasks * recipe.sampling.rollouts / len(played)
    sampling, update = seconds * share, passed * share * _PASSES * recipe.update.epochs
    played_tokens = sum(episode.tokens for episode in played) * share
    hours = (sampling + update) * recipe.run.steps / 3600
    yield Finding(
        "ok",
        "costs",
        f"a step of {played_tokens:,.0f} tokens takes about {sampling:,.0f} s of sampling and "
        f"{update:,.0f} s of updating here; {recipe.run.steps} steps {hours:,.1f} h, without warm "
        "start, evaluations and other models",
    )


def _time_call(call: Callable[[], _Result]) -> tuple[_Result, float]:
    began = time.monotonic()
    return call(), time.monotonic() - began
