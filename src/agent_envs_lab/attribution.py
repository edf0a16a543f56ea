"""How much a policy's decisions depend on goal, history and observation, and on which turns.

What STAPO analyses after training (Sec. 3, 5.4, App. D, I, K), on any policy. The attribution of a
turn to a part of its prompt is the log-probability of the reply with the whole prompt minus that
without the part (feature ablation, by Captum). Left out: parts within parts. A goal that the
history repeats counts as history.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import credit
from agent_envs import evaluation
from agent_envs.machine import write_text
from agent_envs_lab.truth import Truth
from credit.methods import stapo
from trainer.build import (
    attempt,
    check_untrained,
    derive,
    load_policy,
    make_held_out,
    make_sampler,
)
from trainer.engine.own import OwnEngine
from trainer.errors import RecipeError
from trainer.learn.batch import collate, passes
from trainer.learn.prompts import make_scored_row, prompts
from trainer.learn.rows import split_values
from trainer.learn.update import recompute_logprobs, token_scores
from trainer.model.logprobs import CHUNK
from trainer.play.failures import require_episodes
from trainer.play.records import Task

if TYPE_CHECKING:
    from rich.table import Table

    from trainer.learn.prompts import PromptTokens
    from trainer.learn.rows import Row
    from trainer.model.policy import Policy
    from trainer.play.records import Episode, Step
    from trainer.recipe import Recipe

PARTS = ("goal", "history", "observation")
BLIND = (*PARTS, "both")
"""Prompts that are recorded; the last, STAPO's trajectory-blind one, lacks goal and history."""


@dataclass(frozen=True)
class Attribution:
    """Attribution of N turns to the parts of their prompts, and what else is known of each.

    Attributes:
        gains: Log-probability that each reply loses without each of `PARTS`, [N, 3], nats.
        trajectory: What it loses without goal and history, a token, [N], nats.
        divergence: KL from the whole to the trajectory-blind prompt, a token, [N], nats (Eq. 4).
        unusual: -1 and +1 where the entropy is below and above STAPO's fences (Eq. 2-3), else 0,
            [N]; it is normalised within states if tasks have several rollouts.
        advantage: Step-level advantage of each turn, [N] (Eq. 7); 0 where a state occurs once.
        success: Whether the episode of each turn succeeded, [N].
        task: Number of the task of each turn, [N]; turns of a task are dependent.
    """

    gains: NDArray[np.float64]
    trajectory: NDArray[np.float64]
    divergence: NDArray[np.float64]
    unusual: NDArray[np.int64]
    advantage: NDArray[np.float64]
    success: NDArray[np.bool_]
    task: NDArray[np.int64]

    def list_measures(self) -> dict[str, NDArray[np.float64]]:
        """Values of turns by name: of all, and of outliers and inliers where there are both."""
        out = self.unusual != 0
        made = dict(zip(PARTS, self.gains.T, strict=True))
        made |= {"kl": self.divergence, "attribution": self.trajectory, "outliers": out * 1.0}
        if out.any():
            made["outliers_low"] = (self.unusual[out] < 0) * 1.0
            made["outliers_high"] = (self.unusual[out] > 0) * 1.0
        columns = {
            "advantage": self.advantage,
            "attribution": self.trajectory,
            "kl": self.divergence,
            "success": self.success * 1.0,
        }
        return made | _split(columns, out)

    def list_tasks(self, name: str) -> list[int]:
        """The task of each value of a measure."""
        kept = [0, -1, 1]
        if name.endswith("_inliers"):
            kept = [0]
        elif name.endswith("_outliers") or name.startswith("outliers_"):
            kept = [-1, 1]
        tasks: list[int] = self.task[np.isin(self.unusual, kept)].tolist()
        return tasks

    @property
    def share(self) -> NDArray[np.float64]:
        """Mean share of each part in a turn's sum of |gain|, [3]; turns with gain 0 are skipped."""
        size = np.abs(self.gains)
        total = size.sum(1)
        counted = total > 0
        if not counted.any():
            return np.zeros(len(PARTS))
        share: NDArray[np.float64] = (size[counted] / total[counted, None]).mean(0)
        return share


def attribute(policy: Policy, episodes: Sequence[Episode], *, tokens: int) -> Attribution:
    """Attribution of the turns of episodes that recorded the prompts `BLIND`.

    Raises:
        RecipeError: The package captum is not installed.
    """
    try:
        from captum.attr import FeatureAblation
    except ImportError as error:
        raise RecipeError(
            'attribution needs captum: pip install "agent-envs[attribution]"'
        ) from error
    turns: dict[Hashable, tuple[dict[str, PromptTokens], Step]] = {}
    keys = []  # equal turns of several rollouts are scored once
    for episode in episodes:
        for step, given in zip(episode.steps, prompts(episode), strict=True):
            parts = [(name, *one.ids, *map(id, one.images)) for name, one in given.items()]
            keys.append((*parts, *step.reply_ids, *map(tuple, step.allowed or ())))
            turns.setdefault(keys[-1], (given, step))
    numbers = {key: number for number, key in enumerate(turns)}
    at = [numbers[key] for key in keys]

    def make_scored(part: str) -> list[Row]:
        """Rows of all different replies, after the prompts without a part."""
        pairs = enumerate(turns.values())
        return [make_scored_row(given[part], step, turn) for turn, (given, step) in pairs]

    @cache
    def score(part: str) -> list[NDArray[np.float64]]:
        rows = make_scored(part)
        return split_values(rows, recompute_logprobs(policy, rows, tokens=tokens))

    def score_without(kept: Tensor) -> Tensor:
        """Log-probability of each reply, given the parts whose flag is 1: [n, 3] -> [n]."""
        (flags,) = {tuple(one) for one in kept.tolist()}
        without = [part for part, flag in zip(PARTS, flags, strict=True) if not flag]
        return torch.tensor([one.sum() for one in score("".join(without))], dtype=torch.float64)

    gains = FeatureAblation(score_without).attribute(torch.ones(len(turns), len(PARTS)))
    lost = [float((a - b).mean()) for a, b in zip(score(""), score("both"), strict=True)]
    divergence = measure_divergence(policy, make_scored(""), make_scored("both"), tokens=tokens)
    columns = credit.Turns.from_episodes(episodes)
    # One rollout for each task has no states to compare, hence plain entropy.
    several = len(set(columns.group.tolist())) < len(episodes)
    method = credit.STAPO(entropy="normalized" if several else "shannon")
    values = method.outlier_score(columns)
    low, high = stapo.fences(values, method.lam)
    return Attribution(
        gains=gains.double().numpy()[at],
        trajectory=np.array(lost)[at],
        divergence=divergence[at],
        unusual=(values > high).astype(int) - (values < low),
        advantage=method.step_advantage(columns),
        success=np.array([one.success for one in episodes])[columns.trajectory],
        task=columns.group_of_turn,
    )


def measure_divergence(
    policy: Policy, whole: Sequence[Row], blind: Sequence[Row], *, tokens: int
) -> NDArray[np.float64]:
    """Exact KL of each reply after the whole prompt from that after the blind one: -> [N].

    Source: STAPO Eq. 4, a mean over tokens, in nats.
    """
    made = np.zeros(len(whole))
    longer = [a if len(a.ids) > len(b.ids) else b for a, b in zip(whole, blind, strict=True)]
    few = CHUNK // policy.vocabulary
    with torch.no_grad():
        for part, _ in passes(longer, tokens, replies=few):
            full, less = (
                collate([side[n] for n in part], policy.device) for side in (whole, blind)
            )
            scores = token_scores(policy, full), token_scores(policy, less)
            made[part] = stapo.kl_from_logits(*scores, full.row, len(part)).cpu().numpy()
    return made


def attribute_model(
    recipe: Recipe, source: Path | None = None, *, rollouts: int = 1
) -> Attribution:
    """Attribution of a recipe's model, or of a checkpoint, over the evaluation panel.

    With several rollouts a task they are drawn at the temperature of training.
    """
    policy, played = play_panel(recipe, source, rollouts=rollouts)
    return attribute(policy, played, tokens=recipe.update.tokens)


def play_panel(
    recipe: Recipe, source: Path | None = None, *, rollouts: int = 1
) -> tuple[Policy, list[Episode]]:
    """The policy, and its episodes on the evaluation panel, which recorded the prompts `BLIND`."""
    held_out = make_held_out(recipe, blind=BLIND)
    panel = evaluation.draw_panel(held_out.panel, recipe.eval.tasks)
    check_untrained(recipe, panel, source)
    policy = load_policy(recipe.policy, source)
    chosen = recipe.eval.temperature if rollouts == 1 else recipe.sampling.temperature
    sampler = make_sampler(recipe, OwnEngine(policy), policy, chosen)
    tasks = [
        Task(task_id, group, seed=0)
        for group, task_id in enumerate(panel.task_ids)
        for _ in range(rollouts)
    ]
    seed = derive(recipe.run.seed, 0, "evaluation")
    return policy, require_episodes(attempt(held_out, tasks, sampler, seed, group=rollouts))


def split_truth(path: Path) -> dict[str, NDArray[np.float64]]:
    """True and estimated advantages and tasks of outliers and inliers of a truth, by name.

    Raises:
        FileNotFoundError: There is no such file.
    """
    truth = Truth.load(path)
    method = credit.STAPO()
    columns = {
        "true_advantage": truth.value_after - truth.value_before,
        "advantage": method.step_advantage(truth.turns),
        "task": truth.turns.group_of_turn,
    }
    return _split(columns, method.mask(truth.turns))


def _split(columns: dict[str, Any], out: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Values of outliers and of inliers, by name; nothing where there are not both."""
    if not out.any() or out.all():
        return {}
    return {
        f"{name}_{kind}": values[mask]
        for name, values in columns.items()
        for kind, mask in (("outliers", out), ("inliers", ~out))
    }


def save(found: dict[str, NDArray[np.float64]], path: Path) -> None:
    """Write the mean of each measure as JSON, which `agent-envs paper` reads."""
    write_text(path, json.dumps({name: float(values.mean()) for name, values in found.items()}))


def table(results: dict[str, Attribution]) -> Table:
    """Attributions of several policies side by side; intervals are Student's, 95%, over turns."""
    from agent_envs.cli.console import DataTable

    made = DataTable(box=None)
    made.add_column("log-probability a reply loses without")
    for name in results:
        made.add_column(f"{name}, nats (share)", no_wrap=True)
    measured = [(one, one.list_measures()) for one in results.values()]
    for name in dict.fromkeys(name for _, values in measured for name in values):
        cells = [
            evaluation.describe_mean(values[name], one.list_tasks(name)) if name in values else "–"
            for one, values in measured
        ]
        if name in PARTS:
            shares = (one.share[PARTS.index(name)] for one, _ in measured)
            cells = [f"{cell} ({share:.0%})" for cell, share in zip(cells, shares, strict=True)]
        elif name == "kl":
            made.add_row("of each turn")
        made.add_row(name, *cells)
    return made
