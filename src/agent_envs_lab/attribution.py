"""How much a policy's decisions depend on goal, history and observation, by ablation.

The attribution of a turn to a part of its prompt is the log-probability of the reply with the
whole prompt minus that without the part (feature ablation, by Captum). Left out: parts within
parts. A goal that the history repeats counts as history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import credit
from agent_envs import evaluation
from trainer.build import attempt_panel, load_policy, make_rollouts, make_sampler
from trainer.engine.own import OwnEngine
from trainer.errors import RecipeError
from trainer.learn.prompts import make_scored_row, prompts
from trainer.learn.rows import split_values
from trainer.learn.update import recompute_logprobs
from trainer.play.failures import require_episodes

if TYPE_CHECKING:
    from rich.table import Table

    from trainer.model.policy import Policy
    from trainer.play.records import Episode
    from trainer.recipe import Recipe

PARTS = ("goal", "history", "observation")


@dataclass(frozen=True)
class Attribution:
    """Attribution of N turns to the parts of their prompts.

    Attributes:
        gains: Log-probability that each reply loses without each of `PARTS`, [N, 3], nats.
        outliers: Share of turns whose entropy is an outlier on the panel, by STAPO's fences.
    """

    gains: NDArray[np.float64]
    outliers: float

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean gain of each part, [3], nats a reply."""
        mean: NDArray[np.float64] = self.gains.mean(0)
        return mean

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
    """Attribution of the turns of episodes that recorded the prompts without each part.

    Raises:
        RecipeError: The package captum is not installed.
    """
    try:
        from captum.attr import FeatureAblation
    except ImportError as error:
        raise RecipeError(
            'attribution needs captum: pip install "agent-envs[attribution]"'
        ) from error
    turns = [
        (prompt, step)
        for episode in episodes
        for step, prompt in zip(episode.steps, prompts(episode), strict=True)
    ]

    def score(kept: Tensor) -> Tensor:
        """Log-probability of each turn's reply, given the parts whose flag is 1: [N, 3] -> [N]."""
        rows = []
        for turn, ((given, step), flags) in enumerate(zip(turns, kept.tolist(), strict=True)):
            without = [part for part, flag in zip(PARTS, flags, strict=True) if not flag]
            rows.append(make_scored_row(given["".join(without)], step, turn))
        logprobs = split_values(rows, recompute_logprobs(policy, rows, tokens=tokens))
        return torch.tensor([row.sum() for row in logprobs], dtype=torch.float64)

    gains = FeatureAblation(score).attribute(torch.ones(len(turns), len(PARTS)))
    columns = credit.Turns.from_episodes(episodes)
    # One episode for each task has no states to compare, hence plain entropy.
    unusual = credit.STAPO(entropy="shannon").mask(columns)
    return Attribution(gains.double().numpy(), float(unusual.mean()))


def attribute_model(recipe: Recipe, source: Path | None = None) -> Attribution:
    """Attribution of a recipe's model, or of a checkpoint, over the evaluation panel."""
    held_out = make_rollouts(recipe, recipe.eval.split, blind=PARTS)
    panel = evaluation.draw_panel(held_out.panel, recipe.eval.tasks)
    policy = load_policy(recipe.policy, source)
    sampler = make_sampler(recipe, OwnEngine(policy), policy, recipe.eval.temperature)
    played = require_episodes(attempt_panel(recipe, sampler, held_out, panel))
    return attribute(policy, played, tokens=recipe.update.tokens)


def table(results: dict[str, Attribution]) -> Table:
    """Attributions of several policies side by side."""
    from agent_envs.cli.console import DataTable

    made = DataTable(title="log-probability a reply loses without", title_justify="left", box=None)
    made.add_column("")
    for name in results:
        made.add_column(f"{name}, nats (share)", no_wrap=True)
    for i, part in enumerate(PARTS):
        cells = [f"{r.mean[i]:+.2f} ({r.share[i]:.0%})" for r in results.values()]
        made.add_row(part, *cells)
    made.add_row("unusual entropy", *[f"{r.outliers:.1%} of turns" for r in results.values()])
    return made
