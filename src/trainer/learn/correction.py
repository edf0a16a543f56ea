"""Importance weights between the engine that sampled and the policy that is trained.

An engine with other kernels, or with earlier weights, gives a sampled token another probability
than the policy has at the start of the update. The surrogate's ratio starts from the policy's own
log-probabilities, and each token's gain is multiplied by a truncated importance weight

    w = min(exp(log π_policy - log π_engine), cap)

of the token, or of all reply tokens of its row. It is a constant in the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from credit.losses import truncate_ratios
from trainer.learn.batch import annotate_rows
from trainer.learn.rows import join_values, set_values
from trainer.learn.update import recompute_logprobs, token_logprobs_and_entropies
from trainer.options import STRICT, Section

if TYPE_CHECKING:
    from trainer.learn.rows import Row
    from trainer.model.policy import Policy
    from trainer.play.records import Episode


@dataclass(frozen=True, config=STRICT)
class Correction(Section):
    """Importance weights between engine and policy.

    Attributes:
        level: One weight for each "token", one for each "sequence" (row), "none", or "auto": "none"
            with the own engine, which samples from the policy itself, and "token" with others.
        above: What becomes of a weight above the cap: "truncate" sets it to the cap, "mask" to 0.
        cap: Largest weight, at least 1.
    """

    unread: ClassVar[dict[str, str]] = {"level=none": "above cap"}

    level: Literal["auto", "none", "token", "sequence"] = "auto"
    above: Literal["truncate", "mask"] = "truncate"
    cap: Annotated[float, Field(ge=1)] = 2.0


def correct_rows(
    policy: Policy,
    rows: Sequence[Row],
    correction: Correction,
    *,
    tokens: int,
    temperature: float = 1.0,
) -> tuple[list[Row], dict[str, float]]:
    """Rows whose ratio starts from the policy, with weights; and values to log.

    The values are `logprob_gap`, the largest |log π_policy - log π_engine|, and of the weights
    `correction_mean`, `correction_max` and `correction_cut`, the share above the cap.

    Args:
        policy: The policy before its update.
        rows: Rows with the engine's log-probabilities.
        correction: How weights are made; level "auto" gives those of tokens.
        tokens: Maximum tokens of one forward pass.
        temperature: Temperature of sampling.
    """
    own = recompute_logprobs(policy, rows, tokens=tokens, temperature=temperature)
    gap = own - join_values(rows, "logprobs")
    owner = np.repeat(np.arange(len(rows)), np.array([len(row.at) for row in rows], int))
    weight, above = truncate_ratios(
        torch.from_numpy(gap),
        torch.from_numpy(owner) if correction.level == "sequence" else None,
        cap=correction.cap,
        drop=correction.above == "mask",
    )
    known = len(gap) > 0
    return set_values(rows, logprobs=own, weight=weight.numpy()), {
        "logprob_gap": float(np.abs(gap).max(initial=0.0)),
        "correction_mean": float(weight.mean()) if known else 1.0,
        "correction_max": float(weight.max()) if known else 0.0,
        "correction_cut": float(above.double().mean()) if known else 0.0,
    }


def fill_entropies(
    policy: Policy,
    episodes: Sequence[Episode],
    rows: Sequence[Row],
    *,
    tokens: int,
    temperature: float = 1.0,
) -> None:
    """Give turns without entropies, in nats, those of the policy; for engines that report none."""
    steps = [step for episode in episodes for step in episode.steps]
    missing = [row for row in rows if any(not steps[turn].entropies for turn in row.turn)]
    found = annotate_rows(
        missing,
        lambda batch: token_logprobs_and_entropies(policy, batch, temperature=temperature)[1],
        tokens=tokens,
        device=policy.device,
    )
    for turn, value in zip(join_values(missing, "turn").tolist(), found.tolist(), strict=True):
        steps[turn].entropies.append(value)
