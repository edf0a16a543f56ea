"""Multi-turn DPO of the policy on its own or on recorded rollouts: a baseline.

The loss of a pair of trajectories is -log σ of the difference of their returns. A return is β times
the sum of log π - log π_start over the agent's tokens (iStar Eq. 2 and App. D, with the policy as
its own model). Its gradient is that of the surrogate at ratio 1 with the slope of the loss as
advantage, so the ordinary policy update takes the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from credit.losses import segment_sum
from credit.methods import istar
from trainer.learn.rows import credit_rows, set_values
from trainer.learn.update import recompute_logprobs, with_reference
from trainer.methods.method import Credited, Method
from trainer.options import STRICT, AboveZero, make_options

if TYPE_CHECKING:
    from trainer.learn.rows import Row
    from trainer.methods.method import Experience
    from trainer.recipe import Recipe


@dataclass(frozen=True, config=STRICT)
class DPOOptions:
    """Options of multi-turn DPO.

    Attributes:
        beta: β > 0, scale of a return.
        threshold: The better outcome of a pair lies above it, the worse one does not.
    """

    beta: AboveZero = 0.1
    threshold: float = 0.0


class WithPreference(Method):
    """DPO of the policy with its start as reference; `credit.options` are `DPOOptions`."""

    needs_reference = True

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        self.options = make_options(DPOOptions, options, "credit.options")
        self.recipe = recipe

    def credit(self, experience: Experience) -> Credited:
        """Advantages from the slope of the loss at the current policy."""
        update = self.recipe.update
        how: dict[str, Any] = {
            "tokens": update.tokens,
            "packed": update.packed,
            "temperature": self.recipe.sampling.temperature,
        }
        now = recompute_logprobs(self.policy, experience.rows, **how)
        rows = with_reference(self.policy, set_values(experience.rows, logprobs=now), **how)
        returns = self._returns(rows, experience)
        pairs = istar.preference_pairs(experience.turns, threshold=self.options.threshold)
        loss = istar.dpo_loss(returns, pairs)
        (slope,) = torch.autograd.grad(loss, returns)
        # times the number of trajectories, since the update takes the mean
        balance = -self.options.beta * len(returns) * slope.numpy()
        advantage = balance[experience.turns.trajectory]
        figures = {"dpo_pairs": float(len(pairs)), "dpo_loss": loss.item()}
        if len(pairs):
            figures["dpo_accuracy"] = istar.measure_accuracy(returns.detach().numpy(), pairs)
        return Credited(credit_rows(rows, advantage), advantage, figures)

    def _returns(self, rows: list[Row], experience: Experience) -> Tensor:
        """β times the sum of log π - log π_start of each trajectory: -> [M]."""
        lead = torch.tensor(
            [sum(row.logprobs) - sum(row.reference or ()) for row in rows], dtype=torch.float64
        )
        owner = torch.from_numpy(experience.turns.trajectory[[row.turn[0] for row in rows]].copy())
        returns = self.options.beta * segment_sum(lead, owner, len(experience.turns.group))
        return returns.requires_grad_()
