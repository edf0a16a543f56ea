"""iStar and PRIME: a model beside the policy whose log-ratio to a reference is the reward.

The model starts as the policy, or as another one of its vocabulary, and is an adapter of its own or
a second model. Each step it first
rewards the new rollouts, then learns from its preference loss, then the policy is updated
(iStar, Algorithm 1). iStar's reference is the policy that sampled, PRIME's the start of training.
Its log-probabilities are computed by the same pass as the model's, so that two equal models have
rewards of exactly 0. No third model is in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass
from torch import Tensor

import credit
from credit.losses import k3, segment_sum
from credit.methods import istar
from credit.rows import average_advantage
from trainer.build import load_policy
from trainer.engine.own import OwnEngine
from trainer.errors import RecipeError
from trainer.learn.learner import Learner
from trainer.learn.rows import credit_rows, join_values, set_values
from trainer.learn.update import recompute_logprobs, token_logprobs
from trainer.methods.method import Credited, Method
from trainer.model import pretrained
from trainer.options import STRICT, AboveZero, Count, refuse_broken
from trainer.play.failures import split_attempts
from trainer.play.records import Task
from trainer.scale import parallel

if TYPE_CHECKING:
    from credit import Turns
    from trainer.learn.batch import Batch
    from trainer.learn.rows import Row
    from trainer.methods.method import Experience
    from trainer.model.policy import Policy
    from trainer.play.records import Episode
    from trainer.recipe import Recipe

_WORSE = 0.2
"""By how much fewer turns of the model are valid than of the policy before a warning."""


@dataclass(frozen=True, config=STRICT)
class ImplicitOptions:
    """The model of implicit rewards of credit.name istar or prime.

    Attributes:
        model: What it starts as, named as `policy.model` and with the policy's other options; ""
            for the policy itself. It must have the policy's vocabulary. A model that reads no
            images gets only the tokens in their place.
        learning_rate: Learning rate of the model.
        beta: β, scale of the rewards.
        threshold: The better outcome of a pair lies above it, the worse one does not.
        level: Rewards of whole turns ("turn"), or of each token ("token", ablation).
        minibatch: Rows of an optimiser step, as of `update.minibatch` (iStar Sec. 4.1 has one
            batch size for both models and does not say of what); 0 for one step on everything.
        play: Play a task of each group with the model every so many steps, to see whether it is
            still a policy; 0 for never.
    """

    model: str = ""
    learning_rate: AboveZero = 1e-6
    beta: AboveZero = 0.05
    threshold: float = 0.0
    level: Literal["turn", "token"] = "turn"
    minibatch: Count = 0
    play: Count = 0


class WithPRM(Method):
    """Advantages from the implicit rewards of a model that is trained on the same rollouts."""

    learner: Learner[Policy]
    has_twin = True
    fits = (credit.IStar, credit.Prime)

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(options, recipe)
        self.options = self.read_options(ImplicitOptions, "prm")
        self.needs_reference = isinstance(self.estimator, credit.Prime)
        play, model = self.options.play, self.options.model
        own, variant = self.options.level == "token", getattr(self.estimator, "variant", "step")
        rules = {
            f"credit.models.prm.play={play} tells whether a copy of the policy still plays, and "
            f"credit.models.prm.model={model!r} is none; set the first to 0, or the second to "
            '""': play and model,
            f"credit.models.prm.play={play} works with one process, but torchrun "
            f"started {parallel.size()}; set it to 0": play and parallel.size() > 1,
            "level=token of credit.models.prm is an ablation of its own, which does not read "
            "credit.options.variant; leave out one of them": own and variant != "step",
        }
        refuse_broken(rules)
        if model:
            self._check_model(model, recipe.policy.model)

    def _check_model(self, name: str, policy: str) -> None:
        """Refuse a model that does not read the policy's tokens."""
        own, other = (
            pretrained.open_model(each).config.get_text_config().vocab_size
            for each in (policy, name)
        )
        if own != other:
            raise RecipeError(
                f"credit.models.prm.model={name!r} has a vocabulary of {other:,} tokens and "
                f"policy.model={policy!r} one of {own:,}, but it must read the policy's tokens; "
                'name a model with the same vocabulary, or set it to "" for a copy of the policy'
            )

    def begin(self, policy: Policy, folder: Path) -> None:
        """Make the model, a copy of the policy unless the options name another."""
        super().begin(policy, folder)
        options = replace(self.recipe.update, learning_rate=self.options.learning_rate)
        if self.options.model:
            model = load_policy(replace(self.recipe.policy, model=self.options.model))
            if policy.is_sharded:
                model.shard()
        else:
            model = policy.twin("prm")
        self.learner = Learner(model, options, folder=folder)

    def credit(self, experience: Experience) -> Credited:
        """Advantages from the model's rewards; then the model is trained on the same rows."""
        reference = self._reference(experience.rows)
        scored = set_values(experience.rows, reference=reference.numpy())
        logprobs = self._logprobs(self.learner.model, scored)
        turn = torch.from_numpy(join_values(experience.rows, "turn"))
        token = istar.token_rewards(logprobs, reference, beta=self.options.beta)
        rewards = segment_sum(token, turn, len(experience.turns)).numpy()
        turns = replace(
            experience.turns, turn_reward=rewards[:, None], turn_reward_names=("implicit",)
        )
        if self.options.level == "token":
            prime = isinstance(self.estimator, credit.Prime)
            compute = self.estimator.advantage if prime else self.estimator.token_advantage
            found = compute(turns, token.numpy(), turn.numpy())
            rows = set_values(experience.rows, advantage=found)
            advantage = average_advantage(found, turn.numpy(), len(turns))
        else:
            advantage = credit.estimate(self.estimator, turns, experience.rng)
            rows = credit_rows(experience.rows, advantage)
        figures = {
            "implicit_reward": float(rewards.mean()),
            "prm_kl": float(k3(reference, logprobs).mean()),
            **self._play_model(experience),
        }
        return Credited(rows, advantage, figures | self._learn(experience, scored, rewards))

    def _play_model(self, experience: Experience) -> dict[str, float]:
        """How the model plays a task of each group, if it is its turn; warns if it cannot."""
        every = self.options.play
        if not every or experience.step % every:
            return {}
        first: dict[int, Episode] = {}
        for one in experience.episodes:
            first.setdefault(one.group, one)
        tasks = [Task(one.task_id, one.group, one.seed) for one in first.values()]
        model = self.learner.model
        sampler = replace(experience.sampler, engine=OwnEngine(model), policy=model)
        seed = int(experience.rng.integers(2**31))
        played, _ = split_attempts(experience.rollouts.attempt(tasks, sampler, seed))
        if not played:
            return {}
        valid = float(np.mean([step.valid for one in played for step in one.steps]))
        if valid < (usual := float(experience.turns.valid.mean())) - _WORSE:
            warnings.warn(
                f"the model of implicit rewards no longer plays: {valid:.0%} of its turns are "
                f"valid, {usual:.0%} of the policy's. Its rewards then tell its distance from the "
                "policy, not what is better; lower credit.models.prm.learning_rate",
                stacklevel=2,
            )
        return {"prm_success": float(np.mean([one.success for one in played])), "prm_valid": valid}

    def _logprobs(self, policy: Policy, rows: list[Row]) -> Tensor:
        """Log-probabilities of all reply tokens under a policy: -> [P]."""
        known = recompute_logprobs(
            policy,
            rows,
            tokens=self.learner.options.tokens,
            packed=self.learner.options.packed,
            temperature=self.recipe.sampling.temperature,
        )
        return torch.from_numpy(known)

    def _reference(self, rows: list[Row]) -> Tensor:
        """Log-probabilities under the policy before its update, or of the start: -> [P].

        They are computed as those of the model are: of two ways to compute one number, rounding
        would be the reward, and standardized as large as any.
        """
        with self.policy.as_reference() if self.needs_reference else nullcontext():
            return self._logprobs(self.policy, rows)

    def _learn(
        self, experience: Experience, scored: list[Row], rewards: NDArray[np.float64]
    ) -> dict[str, float]:
        """Steps on the preference loss; returns values to log, e.g. the pair accuracy before them.

        The gradient of the loss by the return of each trajectory is computed first. The rest is
        linear in the log-probabilities of tokens and runs in microbatches.
        """
        turns, prime = experience.turns, isinstance(self.estimator, credit.Prime)
        owner = turns.trajectory[[row.turn[0] for row in scored]]
        returns = np.bincount(turns.trajectory, rewards, len(turns.group)).astype(np.float64)
        pairs = istar.preference_pairs(turns, threshold=self.options.threshold)
        figures = {"prm_pairs": float(len(pairs))}
        if len(pairs):
            figures["prm_accuracy"] = istar.measure_accuracy(returns, pairs)
        units = np.arange(len(turns.group))[:, None] if prime else pairs
        steps: list[tuple[float, float]] = []
        for part in cut_units(
            units, turns.group, owner, size=self.options.minibatch, rng=experience.rng
        ):
            rows = [scored[i] for i in np.flatnonzero(np.isin(owner, part))]
            if steps:  # the model has changed
                returns = self._measure_returns(rows, turns)
            known = torch.tensor(returns, requires_grad=True)
            if prime:
                here = torch.from_numpy(part[:, 0])
                loss = istar.prime_loss(known[here], torch.from_numpy(turns.outcome[part[:, 0]]))
            else:
                loss = istar.dpo_loss(known, part)
            (slope,) = torch.autograd.grad(loss, known)
            pull = -self.options.beta * slope.numpy()[turns.trajectory]
            rows = [row for row in credit_rows(rows, pull) if any(row.advantage or ())]
            objective = partial(self._weigh_logprobs, self.learner.model)
            step = self.learner.step(rows, objective, aggregate="sum")
            steps.append((loss.item(), step["grad_norm"]))
        if steps:
            figures["prm_loss"], figures["prm_grad_norm"] = np.mean(steps, 0).tolist()
        return figures

    def _measure_returns(self, rows: list[Row], turns: Turns) -> NDArray[np.float64]:
        """Sum of the model's rewards over each trajectory, 0 for those without a row: -> [M]."""
        reference = torch.from_numpy(join_values(rows, "reference"))
        known = self._logprobs(self.learner.model, rows)
        token = istar.token_rewards(known, reference, beta=self.options.beta).numpy()
        owner = turns.trajectory[join_values(rows, "turn")]
        return np.bincount(owner, token, len(turns.group)).astype(np.float64)

    def _weigh_logprobs(self, policy: Policy, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        logprobs = token_logprobs(policy, batch, temperature=self.recipe.sampling.temperature)
        return cast("Tensor", batch.advantage) * logprobs, {}

    def state(self) -> dict[str, Any]:
        """The model and its optimiser."""
        return {"weights": self.learner.model.weights(), "learner": self.learner.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the model and its optimiser."""
        self.learner.model.set_weights(state["weights"])
        self.learner.load_state_dict(state["learner"])


def cut_units(
    units: NDArray[np.intp],
    group: NDArray[np.int64],
    owner: NDArray[np.int64],
    *,
    size: int,
    rng: np.random.Generator,
) -> Iterator[NDArray[np.intp]]:
    """The trajectories, or the pairs of them, of each optimiser step: [K, 1 or 2] -> parts.

    Those of a group follow each other, in random order, so that few rows are read in two steps.
    There are as many parts as `size` rows a part need, and they are about equally long. No part
    has more than `size` rows, unless one unit alone has.

    Args:
        units: Trajectories of each unit.
        group: Group of each trajectory, [M].
        owner: Trajectory of each row.
        size: Rows of a step; 0 for all units at once, in their order.
        rng: Generator of the order.
    """
    if size and len(units):
        names, place = np.unique(group, return_inverse=True)
        of_group = rng.permutation(len(names))[place[units[:, 0]]]
        units = units[np.lexsort((rng.random(len(units)), of_group))]
    rows = np.bincount(owner, minlength=len(group))
    known, first = np.unique(units, return_index=True)
    done = np.bincount(first // units.shape[1], rows[known], minlength=len(units)).cumsum()
    start, cut, parts = 0, 1, -(-rows[known].sum() // size) if size else 1
    for end in range(1, len(units)):
        due = done[end - 1] * parts >= done[-1] * cut and done[end] > done[end - 1]
        if size and (due or rows[np.unique(units[start : end + 1])].sum() > size):
            yield units[start:end]
            start, cut = end, cut + 1
    if len(units):
        yield units[start:]
