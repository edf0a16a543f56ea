"""Sketches of each turn's policy gradient, with which the noise of estimators is compared.

A policy gradient is the sum over turns of advantage times ∇ log π(reply). A sketch projects the
gradient of a turn to SIZE numbers, such that inner products keep their expectation: every weight
has a random sign, and the signed gradients are added up in SIZE sums (a count sketch, Charikar et
al. 2002). The relative error of a squared length is about √(2 / SIZE), and much the same for all
estimators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from trainer.learn.batch import collate, make_rows
from trainer.learn.update import token_logprobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from credit.stats import Array
    from trainer.model.policy import Policy
    from trainer.play.records import Episode

SIZE = 64
"""Numbers of a sketch."""
_SEED = 20_260_924


def sketches(policy: Policy, episodes: Sequence[Episode], *, temperature: float) -> Array:
    """A sketch of ∇ log π(reply) of each of N turns: -> [N, SIZE].

    The policy must not be frozen. A turn without reply tokens has a sketch of zeros.
    """
    found = np.zeros((sum(len(episode.steps) for episode in episodes), SIZE))
    weights = policy.parameters()
    signs = _signs(weights)
    for row in make_rows(episodes):
        with policy.training():
            logprobs = token_logprobs(
                policy, collate([row], policy.device), temperature=temperature
            )
            turns = torch.tensor(row.turn, device=logprobs.device)
            each = sorted(set(row.turn))
            for turn in each:
                gradients = torch.autograd.grad(
                    logprobs[turns == turn].sum(), weights, retain_graph=turn != each[-1]
                )
                found[turn] = _sketch(gradients, signs).cpu().numpy()
    return found


def _signs(weights: Sequence[Tensor]) -> list[Tensor]:
    """Random signs of all weights, the same on every machine."""
    rng = np.random.default_rng(_SEED)
    drawn = (rng.integers(0, 2, one.numel(), dtype=np.int8) * 2 - 1 for one in weights)
    return [
        torch.from_numpy(signs).to(one.device) for signs, one in zip(drawn, weights, strict=True)
    ]


def _sketch(gradients: Sequence[Tensor], signs: Sequence[Tensor]) -> Tensor:
    """Sums of signed gradients: the i-th weight of a tensor belongs to sum i modulo SIZE."""
    total = torch.zeros(SIZE, device=gradients[0].device)
    for gradient, sign in zip(gradients, signs, strict=True):
        signed = gradient.flatten().float() * sign
        padded = torch.nn.functional.pad(signed, (0, -len(signed) % SIZE))
        total += padded.view(-1, SIZE).sum(0)
    return total
