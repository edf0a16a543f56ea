"""The policy update: log-probabilities once more, the clipped surrogate, one optimiser step.

The loss of a minibatch is one weighted sum over its reply tokens; microbatches add their parts, so
that how it is split changes memory and nothing else. Old log-probabilities are the ones recorded
at sampling. Left out: a critic with GAE, and mixed precision beyond the dtype of the weights.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from credit import kl, surrogate
from trainer.batch import Batch, Row, collate, microbatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import ArrayLike
    from torch import Tensor

    from trainer.policy import Policy

_CHOICES = {
    "ratio": ("token", "turn", "sequence"),
    "aggregate": ("token-mean", "sequence-mean"),
    "kl": ("none", *kl.ESTIMATORS),
}

Objective: TypeAlias = "Callable[[Batch, Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]"
"""(batch, log-probabilities [P], entropies [P]) -> what to maximise [P], values [P] to report."""


class NotFiniteError(FloatingPointError):
    """A loss or a gradient was NaN or infinite; the message names the file with its batch."""


def token_logprobs(
    policy: Policy, batch: Batch, *, temperature: float = 1.0, entropy_gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the reply tokens and entropies of their distributions: [P], [P], nats.

    The distribution is the one they were drawn from: logits divided by the temperature, over the
    allowed tokens where decoding was constrained. Memory is O(P V); gradients through the
    entropies double it.
    """
    scores = policy.logits(batch.ids, batch.keep)
    if temperature != 1:
        scores = scores / temperature
    if batch.allowed is not None:
        scores = scores + _out_of_reach(batch.allowed, scores)
    total = scores.logsumexp(-1)
    logprobs = scores.gather(-1, batch.target[:, None])[:, 0] - total
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        p = (scores - total[:, None]).exp()
        entropies = total - torch.linalg.vecdot(p, scores)
    return logprobs, entropies


def _out_of_reach(allowed: Tensor, scores: Tensor) -> Tensor:
    """What keeps all but the allowed tokens from being drawn: [Q, 2], [P, V] -> [P, V]."""
    constrained = torch.zeros(len(scores), 1, dtype=torch.bool, device=scores.device)
    constrained[allowed[:, 0]] = True
    away = torch.zeros_like(scores).masked_fill_(constrained, -1e9)
    away[allowed[:, 0], allowed[:, 1]] = 0.0
    return away


class Learner:
    """Takes optimiser steps: AdamW with linear warm-up, gradients accumulated and clipped.

    Attributes:
        policy: What is trained.
        tokens: Tokens of one forward pass at most; a minibatch is split accordingly.
        temperature: That replies were sampled at.
        folder: Where a batch goes that made a loss or gradient NaN or infinite.
        steps: Optimiser steps taken.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        folder: Path,
        learning_rate: float,
        warmup: int = 0,
        weight_decay: float = 0.0,
        grad_norm: float = 1.0,
        tokens: int = 8192,
        temperature: float = 1.0,
    ) -> None:
        self.policy = policy
        self.folder = folder
        self.learning_rate = learning_rate
        self.warmup = warmup
        self.grad_norm = grad_norm
        self.tokens = tokens
        self.temperature = temperature
        self.steps = 0
        self.optimizer = torch.optim.AdamW(
            policy.parameters(), lr=learning_rate, weight_decay=weight_decay
        )

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs besides the weights."""
        return {"steps": self.steps, "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.steps = state["steps"]
        self.optimizer.load_state_dict(state["optimizer"])

    def batches(self, rows: Sequence[Row]) -> Iterable[tuple[list[int], Batch]]:
        """Microbatches of some rows, each with the indices of its rows."""
        for part in microbatches(rows, self.tokens):
            yield part, collate([rows[i] for i in part], self.policy.device)

    def step(
        self,
        rows: Sequence[Row],
        objective: Objective,
        *,
        aggregate: str = "token-mean",
        entropy_gradient: bool = False,
        advantage: Tensor | None = None,
    ) -> dict[str, float]:
        """One optimiser step on some rows; means over their reply tokens of what it reports.

        The loss is minus the weighted sum of the objective; weights sum to 1 over the rows, equal
        for every token ("token-mean"), or for every row and inside it for every token
        ("sequence-mean"). `logprob_gap` is the largest |recomputed - recorded| log-probability.
        `advantage` only goes into the file of a batch that is not finite.

        Raises:
            NotFiniteError: A loss or the gradient is NaN or infinite. No weight has changed.
        """
        total = sum(len(row.at) for row in rows)
        gap = 0.0
        sums: dict[str, float] = defaultdict(float)
        self.policy.model.train(self.policy.gradient_checkpointing)
        for _, batch in self.batches(rows):
            weight = torch.full_like(batch.logprobs, 1 / total)
            if aggregate == "sequence-mean":
                weight = 1 / (len(rows) * torch.bincount(batch.row)[batch.row])
            logprobs, entropies = token_logprobs(
                self.policy, batch, temperature=self.temperature, entropy_gradient=entropy_gradient
            )
            gain, report = objective(batch, logprobs, entropies)
            value = -(weight * gain).sum()
            self._guard(value, "loss", rows, advantage)
            torch.autograd.backward(value)
            sums["loss"] += value.item()
            gap = max(gap, (logprobs - batch.logprobs).abs().max().item())
            for name, values in {"entropy": entropies, **report}.items():
                sums[name] += values.sum().item()
        self.policy.model.eval()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.grad_norm)
        self._guard(norm, "gradient", rows, advantage)
        rate = self.learning_rate * min(1.0, (self.steps + 1) / max(self.warmup, 1))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        means = {k: v if k == "loss" else v / total for k, v in sums.items()}
        return means | {"logprob_gap": gap, "grad_norm": norm.item(), "learning_rate": rate}

    def _guard(
        self, value: Tensor, what: str, rows: Sequence[Row], advantage: Tensor | None
    ) -> None:
        if torch.isfinite(value):
            return
        self.optimizer.zero_grad()
        self.policy.model.eval()
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"not_finite_step_{self.steps}.pt"
        given = None if advantage is None else advantage.tolist()
        batch = {"what": what, "rows": [asdict(row) for row in rows], "advantage": given}
        torch.save(batch, file)
        raise NotFiniteError(
            f"the {what} of optimiser step {self.steps} is {value.item()}; its batch is in {file} "
            "(torch.load), no weight has changed. Lower the learning rate or look at its log-"
            "probabilities and advantages, and resume from the last checkpoint"
        )


@dataclass(frozen=True, kw_only=True)
class Update:
    """PPO's clipped objective in the forms of GRPO, DAPO and GSPO, minus KL, plus entropy.

    Attributes:
        clip_low: Ratios below 1 - clip_low are clipped.
        clip_high: Ratios above 1 + clip_high are clipped.
        ratio: Of a token, or the geometric mean over its turn or its sequence (row).
        aggregate: "token-mean", or "sequence-mean": mean over rows of their token means.
        kl: Estimator of the divergence from the reference, or "none".
        kl_target: Divergence to hold by adapting the coefficient, 0 keeps the coefficient.
        entropy: Weight of the entropy bonus.
        epochs: Passes over the rows.
        minibatch: Rows of an optimiser step, 0 for all of them.

    Raises:
        ValueError: A setting out of its range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    ratio: str = "token"
    aggregate: str = "token-mean"
    kl: str = "none"
    kl_target: float = 0.0
    entropy: float = 0.0
    epochs: int = 1
    minibatch: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if (given := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}, got {given!r}")
        if not 0 <= self.clip_low <= 1 or min(self.clip_high, self.epochs - 1, self.minibatch) < 0:
            raise ValueError(
                "0 <= clip_low <= 1, clip_high >= 0, epochs >= 1 and minibatch >= 0 must hold, "
                f"got {self}"
            )

    def __call__(
        self,
        learner: Learner,
        rows: Sequence[Row],
        advantage: ArrayLike,
        *,
        rng: np.random.Generator,
        kl_coefficient: float = 0.0,
    ) -> dict[str, float]:
        """Update the policy on rows whose turns have advantages [N]; figures of the update.

        Means over optimiser steps of `loss`, `entropy`, `clip_fraction`, `approx_kl` (from the
        policy that sampled), `grad_norm`, and `kl` (from the reference) where there is one; beside
        them `logprob_gap` of the first step, `learning_rate`, and `kl_coefficient` for the next
        call. Without rows nothing happens.

        Raises:
            ValueError: An advantage is not finite or missing, or a KL target without a coefficient.
            NotFiniteError: A loss or a gradient is NaN or infinite.
        """
        values = self._checked(advantage, rows, kl_coefficient).to(learner.policy.device)
        if not rows:
            return {"kl_coefficient": kl_coefficient}
        if self.kl != "none":
            rows = _with_reference(learner, rows)
        figures = [
            learner.step(
                minibatch,
                partial(self._objective, values, kl_coefficient),
                aggregate=self.aggregate,
                entropy_gradient=self.entropy > 0,
                advantage=values,
            )
            for minibatch in self._minibatches(rows, rng)
        ]
        means = {name: sum(f[name] for f in figures) / len(figures) for name in figures[0]}
        return means | {
            "logprob_gap": figures[0]["logprob_gap"],
            "learning_rate": figures[-1]["learning_rate"],
            "kl_coefficient": self.adapted(kl_coefficient, means.get("kl", 0.0)),
        }

    def _checked(self, advantage: ArrayLike, rows: Sequence[Row], kl_coefficient: float) -> Tensor:
        values = torch.as_tensor(advantage, dtype=torch.float32)
        bad = (~torch.isfinite(values)).nonzero().flatten().tolist()
        if bad:
            raise ValueError(
                f"the advantage of turn {bad[0]} is {values[bad[0]]}; it must be finite"
            )
        if (last := max((row.turn[-1] for row in rows), default=-1)) >= len(values):
            raise ValueError(f"the rows have turns up to {last}, got {len(values)} advantages")
        if self.kl_target and not (kl_coefficient > 0 and self.kl != "none"):
            raise ValueError(
                f"kl_target={self.kl_target} adapts a coefficient above 0 of a divergence, got "
                f"kl={self.kl!r} with kl_coefficient={kl_coefficient}"
            )
        return values

    def _objective(
        self,
        values: Tensor,
        kl_coefficient: float,
        batch: Batch,
        logprobs: Tensor,
        entropies: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        gain, report = self.gain(batch, logprobs, values[batch.turn])
        if self.entropy > 0:
            gain = gain + self.entropy * entropies
        if batch.reference is not None:
            report["kl"] = kl.ESTIMATORS[self.kl](logprobs, batch.reference)
            gain = gain - kl_coefficient * report["kl"]
        return gain, report

    def gain(
        self, batch: Batch, logprobs: Tensor, advantage: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The clipped surrogate of each reply token, and what to report of it: [P], [P] -> [P]."""
        segment = {"turn": batch.turn, "sequence": batch.row}.get(self.ratio)
        ratio = surrogate.ratio(logprobs, batch.logprobs, segment)
        gain = surrogate.clipped(ratio, advantage, low=self.clip_low, high=self.clip_high)
        report = {
            "clip_fraction": (gain < ratio * advantage).float(),
            "approx_kl": kl.k3(batch.logprobs, logprobs),
        }
        return gain, report

    def adapted(self, coefficient: float, divergence: float) -> float:
        """The next KL coefficient, nearer to what holds the target, if there is one."""
        if not self.kl_target:
            return coefficient
        return kl.adapted(coefficient, divergence, target=self.kl_target)

    def _minibatches(self, rows: Sequence[Row], rng: np.random.Generator) -> Iterable[list[Row]]:
        size = self.minibatch or len(rows)
        for _ in range(self.epochs):
            order = rng.permutation(len(rows))
            for start in range(0, len(rows), size):
                yield [rows[i] for i in order[start : start + size]]


@torch.no_grad()
def _with_reference(learner: Learner, rows: Sequence[Row]) -> list[Row]:
    """The rows with the reference's log-probabilities of their reply tokens."""
    known = list(rows)
    with learner.policy.as_reference():
        for part, batch in learner.batches(rows):
            logprobs, _ = token_logprobs(learner.policy, batch, temperature=learner.temperature)
            values = iter(logprobs.tolist())
            for i in part:
                known[i] = replace(rows[i], reference=[next(values) for _ in rows[i].at])
    return known
