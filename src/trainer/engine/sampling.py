"""What is sampled in a step, and how a reply is drawn.

Left out: top-k and top-p, which sample from a distribution that the update does not compute.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from trainer.options import STRICT, AboveZero, Count, NonNegative, Positive, Share

FORM = "<think>{thought}</think><action>{action}</action>"


@dataclass(frozen=True, config=STRICT)
class Decoding:
    """How a reply is drawn.

    Attributes:
        temperature: Divides the logits; 0 is greedy (log-probabilities are those of temperature 1).
        max_reply_tokens: Longer replies are cut, but admissible actions are written in full.
        decode: "free", or "admissible": the reply is `FORM` with an empty thought and one of the
            admissible actions.
    """

    temperature: NonNegative = 1.0
    max_reply_tokens: Positive = 64
    decode: Literal["free", "admissible"] = "free"


@dataclass(frozen=True, config=STRICT)
class Sampling(Decoding):
    """Rollouts of one step.

    Attributes:
        temperature: Above 0.
        tasks: Task groups of a step.
        rollouts: Rollouts of each task, K.
        rows: Episodes played at the same time, 0 for all; with `actors`, in each of them.
        actors: Actors of Ray that play the episodes (extra [ray]), 0 for this process; needs
            engine.urls.
        max_tokens: An episode ends as truncated if prompt and reply would exceed this length.
        redraws: How often groups with equal outcomes are replaced by other tasks (DAPO's dynamic
            sampling).
        ahead: 1 samples the next step during this step's update, with the weights before it; needs
            an engine with weights of its own.
        failures: Share of the episodes of a step that may be lost because their environment failed;
            more end the run. One is always allowed, unless this is 0.
        recorded: With credit.name "dpo", folder of episode files (`episodes/` of a run) to learn
            from instead of new rollouts; "" for new rollouts.
    """

    temperature: AboveZero = 1.0
    tasks: Positive = 16
    rollouts: Positive = 8
    rows: Count = 0
    actors: Count = 0
    max_tokens: Positive = 4096
    redraws: Count = 0
    ahead: Annotated[int, Field(ge=0, le=1)] = 0
    failures: Share = 0.05
    recorded: str = ""
