"""The policy update: recomputed log-probabilities, the clipped surrogate, optimiser steps.

Old log-probabilities are those recorded at sampling. Rows have an advantage for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from credit import losses
from trainer.learn.batch import annotate_rows
from trainer.learn.learner import Optimizer
from trainer.learn.rows import minibatches, set_values
from trainer.model import logprobs
from trainer.model.logprobs import Replies
from trainer.options import STRICT, Count, NonNegative, Positive, Share
from trainer.scale import parallel

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from trainer.learn.batch import Batch
    from trainer.learn.learner import Learner
    from trainer.learn.rows import Row
    from trainer.model.logprobs import Head
    from trainer.model.policy import Policy


def token_logprobs(policy: Policy, batch: Batch, *, temperature: float = 1.0) -> Tensor:
    """Log-probabilities of the reply tokens: -> [P], nats.

    The distribution is the one they were sampled from: logits divided by the temperature, over the
    allowed tokens if decoding was constrained. Memory is that of `logprobs.CHUNK` logits, however
    many tokens there are.
    """
    return evaluate_replies(policy, batch, logprobs.logprobs, temperature)


def token_logprobs_and_entropies(
    policy: Policy, batch: Batch, *, temperature: float = 1.0, gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """The log-probabilities, and the entropies of their distributions: -> [P], [P], nats.

    The entropies have gradients if `gradient` is true.
    """
    value = logprobs.with_entropy_gradients if gradient else logprobs.with_entropies
    found, entropies = evaluate_replies(policy, batch, value, temperature).unbind(-1)
    return found, entropies


def token_scores(policy: Policy, batch: Batch, *, temperature: float = 1.0) -> Tensor:
    """Logits of the distributions that the reply tokens were sampled from: [P, V].

    Memory is O(P V), so this is for few tokens.
    """
    replies = Replies(batch.target, policy.vocabulary, temperature, batch.allowed)
    return replies.scores(policy.logits(batch.ids, batch.keep, **policy.prepare_inputs(batch)))


def evaluate_replies(
    policy: Policy,
    batch: Batch,
    value: Callable[[Replies, Tensor, Head], Tensor],
    temperature: float,
) -> Tensor:
    """A value of each reply token by a function of `trainer.model.logprobs`: -> [P] or more."""
    replies = Replies(batch.target, policy.vocabulary, temperature, batch.allowed)
    inputs = policy.prepare_inputs(batch)
    return policy.apply_head(batch.ids, batch.keep, partial(value, replies), **inputs)


@dataclass(frozen=True, config=STRICT)
class Update(Optimizer):
    """PPO's clipped objective as in GRPO, DAPO and GSPO, minus KL, plus an entropy bonus.

    Attributes:
        epochs: Passes over the rollouts of a step.
        minibatch: At most so many rows in an optimiser step: trajectories, or turns with context
            "turn"; 0 for all. The steps of an epoch have equally many, up to one.
        clip_low: Ratios below 1 - clip_low are clipped.
        clip_high: Ratios above 1 + clip_high are clipped.
        ratio: Importance ratio of each token, or its geometric mean over a turn or sequence (row).
        aggregate: Mean over all tokens, or mean over sequences of their token means.
        kl: Penalty for the distance from the reference, the policy at the start of this stage. On
            average over what the policy samples, "k2" descends KL(π‖reference) and "k3"
            KL(reference‖π). k1 is no penalty: the mean of its gradient is 0.
        kl_coefficient: Weight of the KL; its initial value if kl_target is set.
        kl_target: KL to hold by adapting the weight, to at most 1000 times its initial value and at
            least a thousandth of it; 0 keeps the weight fixed.
        entropy: Weight of the entropy bonus.
        skip_dead_groups: Leave out groups whose advantages are all 0.
    """

    unread: ClassVar[dict[str, str]] = {
        "kl=none": "kl_coefficient kl_target",
        "kl_coefficient=0": "kl_target",
    }

    epochs: Positive = 1
    minibatch: Count = 0
    clip_low: Share = 0.2
    clip_high: NonNegative = 0.2
    ratio: Literal["token", "turn", "sequence"] = "token"
    aggregate: Literal["token-mean", "sequence-mean"] = "token-mean"
    kl: Literal["none", "k2", "k3"] = "none"
    kl_coefficient: NonNegative = 0.0
    kl_target: NonNegative = 0.0
    entropy: NonNegative = 0.0
    skip_dead_groups: bool = True

    def __call__(
        self,
        learner: Learner[Policy],
        rows: Sequence[Row],
        *,
        rng: np.random.Generator,
        temperature: float = 1.0,
        kl_coefficient: float = 0.0,
        more: Callable[[Sequence[Row]], float] | None = None,
    ) -> dict[str, float]:
        """Update the policy on rows with advantages; returns values to log.

        They are means over optimiser steps of `loss`, `clip_fraction`, `approx_kl` (from the
        sampling policy), `grad_norm`, with a reference `kl`, and with a bonus `entropy`; further
        `logprob_gap`, the largest |recomputed - recorded| log-probability of the first step,
        `learning_rate`, and `kl_coefficient` for the next call. Without rows nothing is updated.
        `temperature` is that of sampling. `more` adds gradients for the rows of each step and
        returns its loss.

        Raises:
            NotFiniteError: A loss or a gradient is NaN or infinite.
        """
        if not rows:
            return {"kl_coefficient": kl_coefficient}
        if self.kl != "none":
            size, packed = learner.options.tokens, self.packed
            rows = with_reference(
                learner.model, rows, tokens=size, packed=packed, temperature=temperature
            )
        gaps, figures = list[float](), list[dict[str, float]]()
        for minibatch in minibatches(rows, size=self.minibatch, epochs=self.epochs, rng=rng):
            step = learner.step(
                minibatch,
                partial(self._objective, learner.model, temperature, kl_coefficient, gaps),
                aggregate=self.aggregate,
                more=None if more is None else partial(more, minibatch),
            )
            figures.append({"logprob_gap": max(gaps), **step})
        means = {name: sum(f[name] for f in figures) / len(figures) for name in figures[0]}
        if self.kl_target:
            kl_coefficient = losses.adapt_kl_coefficient(
                kl_coefficient, means["kl"], target=self.kl_target, initial=self.kl_coefficient
            )
        return means | {
            "logprob_gap": parallel.find_largest(figures[0]["logprob_gap"]),
            "learning_rate": figures[-1]["learning_rate"],
            "kl_coefficient": kl_coefficient,
        }

    def _objective(
        self,
        policy: Policy,
        temperature: float,
        kl_coefficient: float,
        gaps: list[float],
        batch: Batch,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if self.entropy > 0:
            now, entropies = token_logprobs_and_entropies(
                policy, batch, temperature=temperature, gradient=True
            )
        else:
            now, entropies = token_logprobs(policy, batch, temperature=temperature), None
        gaps.append((now - batch.logprobs).abs().max().item())
        advantage: Any = batch.advantage
        gain, report = self.gain(batch, now, advantage)
        if batch.weight is not None:
            gain = gain * batch.weight
        if entropies is not None:
            report["entropy"] = entropies
            gain = gain + self.entropy * entropies
        if self.kl != "none" and batch.reference is not None:
            report["kl"] = losses.KL_ESTIMATORS[self.kl](now, batch.reference)
            gain = gain - kl_coefficient * report["kl"]
        return gain, report

    def gain(
        self, batch: Batch, logprobs: Tensor, advantage: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The clipped surrogate of each reply token, and values to report: [P], [P] -> [P]."""
        segment = {"turn": batch.turn, "sequence": batch.row}.get(self.ratio)
        ratio = losses.importance_ratio(logprobs, batch.logprobs, segment)
        gain = losses.clipped_surrogate(ratio, advantage, low=self.clip_low, high=self.clip_high)
        report = {
            "clip_fraction": (gain < ratio * advantage).float(),
            "approx_kl": losses.k3(batch.logprobs, logprobs),
        }
        return gain, report


def recompute_logprobs(
    policy: Policy,
    rows: Sequence[Row],
    *,
    tokens: int,
    packed: bool = False,
    temperature: float = 1.0,
) -> NDArray[np.float64]:
    """Log-probability of each reply token of all rows under the current policy: -> [P]."""
    measure = partial(token_logprobs, policy, temperature=temperature)
    return annotate_rows(rows, measure, tokens=tokens, packed=packed, device=policy.device)


def with_reference(policy: Policy, rows: Sequence[Row], **how: Any) -> list[Row]:
    """The rows with the log-probabilities of their reply tokens under the reference.

    `how` are keywords of `recompute_logprobs`.
    """
    with policy.as_reference():
        known = recompute_logprobs(policy, rows, **how)
    return set_values(rows, reference=known)
