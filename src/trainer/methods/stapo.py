"""STAPO: the two selective KL terms on turns of unusual confidence. STAPO Eq. 4-10.

These outliers are scored again: with the full and with the blind prompt, with gradients, and with
the blind prompt under the reference. The exact KL needs whole distributions, so a microbatch has at
most `logprobs.CHUNK` logits, or one turn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credit.methods import stapo
from trainer.learn.batch import collate, passes
from trainer.learn.prompts import make_scored_row, prompts
from trainer.learn.rows import credit_rows
from trainer.learn.update import token_logprobs, token_scores
from trainer.methods.method import Credited, Method, describe_turns
from trainer.model.logprobs import CHUNK
from trainer.scale import parallel

if TYPE_CHECKING:
    from trainer.learn.batch import Batch
    from trainer.learn.rows import Row
    from trainer.methods.method import Experience
    from trainer.play.records import Episode
    from trainer.recipe import Recipe


class WithSTAPO(Method):
    """GiGPO's advantage plus the selective terms on outliers."""

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(options, recipe)
        masking = self.estimator.masking
        self.needs_reference, self.blind = True, () if masking == "none" else (masking,)

    def credit(self, experience: Experience) -> Credited:
        """The advantage, and a function that adds the selective terms to the update."""
        advantage = self.estimator(experience.turns, experience.rng)
        chosen = np.flatnonzero(self.estimator.mask(experience.turns))
        turns = experience.turns
        figures = {
            **describe_turns(self.estimator, turns),
            "outliers": len(chosen) / len(turns),
            "selective_seconds": 0.0,
        }
        weights = np.stack(self.estimator.weights(turns), axis=1)
        terms = _Terms(self, self._pairs(experience.episodes, chosen.tolist()), weights, figures)
        return Credited(
            credit_rows(experience.rows, advantage),
            advantage,
            figures,
            terms if len(chosen) else None,
        )

    def _pairs(self, episodes: Sequence[Episode], chosen: list[int]) -> dict[int, tuple[Row, Row]]:
        """Rows with full and with blind prompt of each chosen turn, counted over all episodes."""
        picked, turn = set(chosen), 0
        found: dict[int, tuple[Row, Row]] = {}
        for episode in episodes:
            for step, prompt in zip(episode.steps, prompts(episode), strict=True):
                if turn in picked:
                    found[turn] = (
                        make_scored_row(prompt[""], step, turn),
                        make_scored_row(prompt[self.estimator.masking], step, turn),
                    )
                turn += 1
        return found


@dataclass(frozen=True)
class _Terms:
    """M (α R_TA - γ P_TI) of the outliers in some rows, as mean over all turns of the rows."""

    method: WithSTAPO
    outliers: dict[int, tuple[Row, Row]]
    weights: NDArray[np.float64]
    figures: dict[str, float]
    seen: list[list[float]] = field(default_factory=list)

    def __call__(self, rows: Sequence[Row]) -> float:
        """Add the gradients of minus the terms; returns their loss in this process."""
        began = time.monotonic()
        turns = {turn for row in rows for turn in row.turn}
        here = sorted(turns & self.outliers.keys())
        blind = [self.outliers[turn][1] for turn in here]
        aware = [self.outliers[turn][0] for turn in here]
        longer = [a if len(a.ids) > len(b.ids) else b for a, b in zip(aware, blind, strict=True)]
        total = 0.0
        few = CHUNK // self.method.policy.vocabulary
        for part, counts in passes(longer, self.method.recipe.update.tokens, replies=few):
            full, less = (collate([side[i] for i in part], self.device) for side in (aware, blind))
            weights = torch.from_numpy(self.weights[[here[i] for i in part]]).to(self.device)
            reward, penalty = self._compute_terms(full, less, len(part))
            each = counts * weights
            gain = stapo.selective_objective(reward, penalty, (each[:, 0], each[:, 1]))
            loss = -gain.sum() / len(turns)
            torch.autograd.backward(loss)
            total += loss.item()
            self.seen.extend(torch.stack([reward, penalty], 1).tolist() if counts else [])
        self.figures["selective_seconds"] += time.monotonic() - began
        parts = parallel.gather(lambda: self.seen)
        if seen := [one for part in parts for one in part]:
            means = np.mean(seen, axis=0).tolist()
            self.figures.update(trajectory_reward=means[0], trajectory_penalty=means[1])
        return total

    @property
    def device(self) -> torch.device:
        """Device of the policy."""
        return self.method.policy.device

    def _compute_terms(self, aware: Batch, blind: Batch, count: int) -> tuple[Tensor, Tensor]:
        """R_TA and P_TI of each row: -> [B], [B]."""
        policy = self.method.policy
        exact = self.method.estimator.estimator == "exact"
        temperature = self.method.recipe.sampling.temperature
        score = partial(token_scores if exact else token_logprobs, policy, temperature=temperature)
        divergence = stapo.kl_from_logits if exact else stapo.kl_from_samples
        with torch.no_grad(), policy.as_reference():  # before any gradient is recorded
            reference = score(blind)
        seeing, guessing = score(aware), score(blind)
        reward = divergence(seeing, guessing, aware.row, count)
        return reward, divergence(guessing, reference, aware.row, count)
