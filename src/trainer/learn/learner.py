"""Optimiser steps: gradients accumulated over microbatches, clipped, and refused if not finite.

The loss of a step is one weighted sum over reply tokens. Microbatches add to it, so their size
changes only the memory; several processes divide them. Weights, gradients and moments are float32,
whatever the dtype of the model's matrix products, unless `Optimizer.optimizer` is another than
AdamW of torch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from agent_envs.assets import require
from trainer.errors import RecipeError
from trainer.learn.batch import Batch, collate, passes
from trainer.options import STRICT, AboveZero, Count, NonNegative, Positive, Section
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trainer.learn.rows import Row

Objective: TypeAlias = "Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]"
"""Batch -> objective to maximise at each reply token [P], and values [P] whose means to report."""


class NotFiniteError(FloatingPointError):
    """A loss or a gradient was NaN or infinite; the message names the file with its batch."""


class Trained(Protocol):
    """A model to train: the policy, or a model that learns beside it."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""

    def parameters(self) -> list[torch.nn.Parameter]:
        """The trained parameters."""

    def training(self) -> AbstractContextManager[None]:
        """Context in which gradients are computed."""

    def store_in_bfloat16(self) -> None:
        """Store trained matrices in bfloat16."""


_Model = TypeVar("_Model", bound=Trained)


@dataclass(frozen=True, config=STRICT)
class Optimizer(Section):
    """AdamW with linear warm-up.

    The 8-bit optimisers are torchao's (extra `optim`). They save memory, but a step differs from
    that of AdamW: moments are rounded to 8 bits in blocks of 256 (tensors of fewer than 4,096
    weights, or of a number that 256 does not divide, keep theirs). Their first step compiles
    kernels, for about 15 s per shape of weights on a CPU.

    Attributes:
        optimizer: "adamw" has float32 weights, gradients and moments: 16 bytes per trained weight.
            "adamw8bit" has 8-bit moments: 10 bytes. "adamw8bit-sr" also stores the matrices between
            embeddings and output layer, and their gradients, in bfloat16: 6 bytes. It rounds
            stochastically, so that small updates count on average, with noise that exceeds them,
            and gradients of microbatches are summed in bfloat16. It needs policy.dtype "bfloat16".
        learning_rate: Peak, constant after the warm-up.
        warmup: Optimiser steps of linear warm-up.
        weight_decay: Weight decay of AdamW.
        grad_norm: Gradients are clipped to this norm.
        tokens: Maximum tokens of one forward pass, padding included; gradients accumulate over
            several passes.
        packed: Rows follow each other without padding. Faster where attention skips other rows
            (flash attention); others compute it for all pairs of tokens and mask it.
    """

    optimizer: Literal["adamw", "adamw8bit", "adamw8bit-sr"] = "adamw"
    learning_rate: NonNegative = 1e-6
    warmup: Count = 0
    weight_decay: NonNegative = 0.0
    grad_norm: AboveZero = 1.0
    tokens: Positive = 8192
    packed: bool = False


class Learner(Generic[_Model]):
    """Takes optimiser steps: gradients accumulated over microbatches, clipped and applied.

    Attributes:
        model: What is trained.
        options: Options of the optimiser.
        folder: Where a batch with a NaN or infinite loss or gradient is saved.
        steps: Optimiser steps taken.

    Raises:
        ValueError: The optimiser stores matrices in bfloat16, and the model multiplies them in
            float32.
        ImportError: The optimiser needs a package that is not installed.
    """

    def __init__(self, model: _Model, options: Optimizer, *, folder: Path) -> None:
        self.model, self.options, self.folder = model, options, folder
        self.steps = 0
        self.optimizer = _optimizer(model, options)

    def state_dict(self) -> dict[str, Any]:
        """State of the optimiser, for a checkpoint."""
        return {"steps": self.steps, "optimizer": self.optimizer.state_dict()["state"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.steps = state["steps"]
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        moments = {
            number: {name: sharding.like(value, parameters[number]) for name, value in kept.items()}
            for number, kept in state["optimizer"].items()
        }
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})

    def step(
        self,
        rows: Sequence[Row],
        objective: Objective,
        *,
        aggregate: str = "token-mean",
        more: Callable[[], float] | None = None,
    ) -> dict[str, float]:
        """Take one optimiser step; returns means over reply tokens of the reported values.

        The loss is minus the weighted sum of the objective over reply tokens. `aggregate` sets the
        weights: equal for all tokens ("token-mean"), equal for all rows and within each row
        ("sequence-mean"), or 1 ("sum"). `more` adds further gradients before the step and returns
        its loss. In several processes each takes a part of the same rows; sums and
        gradients are those of all rows, and `more` returns this process's part of its loss.

        Raises:
            NotFiniteError: A loss or the gradient is NaN or infinite. No weight has changed.
        """
        packed, total = self.options.packed, sum(len(row.at) for row in rows)
        sums: dict[str, float] = defaultdict(float)
        with self.model.training():
            for part, counts in passes(rows, self.options.tokens, packed=packed):
                batch = collate([rows[i] for i in part], self.model.device, packed=packed)
                weight = torch.full_like(batch.logprobs, 1.0 if aggregate == "sum" else 1 / total)
                if aggregate == "sequence-mean":
                    weight = 1 / (len(rows) * torch.bincount(batch.row)[batch.row])
                gain, report = objective(batch)
                loss = -(weight * counts * gain).sum()
                torch.autograd.backward(loss)
                sums["loss"] += loss.item()
                for name, values in report.items():
                    sums[name] += counts * values.sum().item() / total
            if more is not None:
                sums["loss"] += more()
        figures = parallel.sum_totals(sums)
        self._guard(figures["loss"], "loss", rows)
        return figures | self._apply(rows)

    def _apply(self, rows: Sequence[Row]) -> dict[str, float]:
        """Apply the gradients; returns `grad_norm` before clipping, and `learning_rate`."""
        norm = sharding.clip(self.model.parameters(), self.options.grad_norm).item()
        self._guard(norm, "gradient", rows)
        options = self.options
        rate = options.learning_rate * min(1.0, (self.steps + 1) / max(options.warmup, 1))
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if options.optimizer == "adamw8bit-sr":
            device = self.model.device
            with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
                torch.manual_seed(self.steps)  # of the rounding, so that a resumed run is equal
                self.optimizer.step()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        return {"grad_norm": norm, "learning_rate": rate}

    def _guard(self, value: float, what: str, rows: Sequence[Row]) -> None:
        """Refuse a value that is not finite; all processes have the same."""
        if math.isfinite(value):
            return
        self.optimizer.zero_grad()
        file = self.folder / f"not_finite_step_{self.steps}.pt"
        if parallel.rank() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save({"what": what, "rows": [asdict(row) for row in rows]}, file)
        raise NotFiniteError(
            f"the {what} of optimiser step {self.steps} is {value}; its batch is in {file} "
            "(torch.load), no weight has changed. Look at its log-probabilities and advantages, "
            "and continue from the last checkpoint with --resume and a lower learning_rate"
        )


def _optimizer(model: Trained, options: Optimizer) -> torch.optim.Optimizer:
    """The optimiser of these options, for the weights of the model."""
    rate, decay = options.learning_rate, options.weight_decay
    if options.optimizer == "adamw":
        return torch.optim.AdamW(sharding.groups(model.parameters()), lr=rate, weight_decay=decay)
    if parallel.size() > 1:
        raise RecipeError(
            f"update.optimizer={options.optimizer!r} works in one process, but torchrun started "
            f'{parallel.size()}; use update.optimizer="adamw", whose moments they divide'
        )
    torchao = require("torchao.optim", "optim")
    rounds = options.optimizer == "adamw8bit-sr"
    if rounds:
        model.store_in_bfloat16()
    made: torch.optim.Optimizer = torchao.AdamW8bit(
        model.parameters(), lr=rate, weight_decay=decay, bf16_stochastic_round=rounds
    )
    return made
