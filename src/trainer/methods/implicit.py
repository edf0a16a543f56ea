"""iStar and PRIME: a model beside the policy whose log-ratio to a reference is the reward.

The model starts as the policy and is an adapter of its own or a second model. Each step it first
rewards the new rollouts, then takes one step on its preference loss, then the policy is updated
(iStar, Algorithm 1). iStar's reference is the sampling policy, whose log-probabilities are
recorded; PRIME's is the start of training. No third model is in memory.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from pydantic.dataclasses import dataclass

import credit
from credit.losses import k3, segment_sum
from credit.methods import istar
from trainer.engine.own import OwnEngine
from trainer.errors import RecipeError
from trainer.learn.batch import credit_rows
from trainer.learn.learner import Learner, NotFiniteError
from trainer.learn.update import recompute_logprobs, token_logprobs
from trainer.methods.method import Credited, Method, average_by_turn, pair_accuracy
from trainer.options import STRICT, AboveZero, Count, NonNegative
from trainer.play.failures import split_attempts
from trainer.play.records import Task
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from credit import Turns
    from trainer.learn.batch import Batch, Row
    from trainer.learn.update import Update
    from trainer.methods.method import Experience
    from trainer.model.policy import Policy
    from trainer.play.records import Episode

STATE = "prm.pt"
_WORSE = 0.2
"""By how much fewer turns of the model are valid than of the policy before a warning."""


@dataclass(frozen=True, config=STRICT)
class ImplicitOptions:
    """The model of implicit rewards of credit.name istar or prime; it starts as the policy.

    Attributes:
        learning_rate: Learning rate of the model, 0 for no model.
        beta: β, scale of the rewards.
        threshold: The better outcome of a pair lies above it, the worse one does not.
        level: Rewards of whole turns ("turn"), or of each token ("token", ablation).
        play: Play a task of each group with the model every so many steps, to see whether it is
            still a policy; 0 for never.
    """

    learning_rate: NonNegative = 0.0
    beta: AboveZero = 0.05
    threshold: float = 0.0
    level: Literal["turn", "token"] = "turn"
    play: Count = 0


class WithPRM(Method):
    """Advantages from the implicit rewards of a model that is trained on the same rollouts."""

    learner: Learner[Policy]

    def __init__(
        self,
        estimator: credit.Estimator,
        options: ImplicitOptions,
        update: Update,
        temperature: float,
    ) -> None:
        super().__init__(estimator)
        if not isinstance(estimator, credit.IStar | credit.Prime):
            raise RecipeError(
                f"prm.learning_rate is set, but {type(estimator).__name__} reads no "
                "implicit rewards: use credit.name istar or prime, or set prm.learning_rate=0"
            )
        if not options.learning_rate:
            raise RecipeError(
                f"{type(estimator).__name__} needs a model of rewards: set prm.learning_rate, in "
                "iStar to twice that of the policy"
            )
        if options.play and parallel.size() > 1:
            raise RecipeError(
                f"prm.play={options.play} works with one process, but torchrun started "
                f"{parallel.size()}; set prm.play=0"
            )
        self.options, self.update, self.temperature = options, update, temperature
        self.estimator: credit.IStar | credit.Prime = estimator
        self.start: dict[str, Tensor] = {}
        self.lost = False

    def begin(self, policy: Policy, folder: Path) -> None:
        """Make the model, a copy of the policy."""
        super().begin(policy, folder)
        options = replace(self.update, learning_rate=self.options.learning_rate)
        self.learner = Learner(policy.twin("prm"), options, folder=folder)
        if isinstance(self.estimator, credit.Prime):
            self.start = policy.weights()

    def credit(self, experience: Experience) -> Credited:
        """Advantages from the model's rewards; then the model is trained on the same rows."""
        logprobs, reference = self._logprobs(experience.rows), self._reference(experience.rows)
        if not self.lost and not torch.isfinite(logprobs).all():
            self._lose("its log-probabilities are not finite")
        if self.lost:  # rewards of 0 leave the trajectory's advantage
            logprobs = reference
        turn = torch.tensor([t for row in experience.rows for t in row.turn], dtype=torch.long)
        token = istar.token_rewards(logprobs, reference, beta=self.options.beta)
        rewards = segment_sum(token, turn, len(experience.turns)).numpy()
        turns = replace(
            experience.turns,
            turn_reward=rewards[:, None],
            turn_reward_names=("implicit",),
            outcome_in_reward=False,
        )
        if self.options.level == "token":
            rows = assign_token_advantages(
                experience.rows, self._compute_token_advantages(turns, token.numpy(), turn.numpy())
            )
            advantage = average_by_turn(rows, len(turns))
        else:
            advantage = credit.estimate(self.estimator, turns, experience.rng)
            rows = credit_rows(experience.rows, advantage)
        if self.lost:
            return Credited(rows, advantage, {"prm_lost": 1.0})
        figures = {"prm_kl": float(k3(reference, logprobs).mean()), **self._play_model(experience)}
        return Credited(rows, advantage, figures | self._learn(experience, rewards))

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
                "policy, not what is better; lower prm.learning_rate",
                stacklevel=2,
            )
        success = float(np.mean([one.success for one in played]))
        return {"prm_success": success, "prm_valid": valid}

    def _compute_token_advantages(
        self, turns: Turns, rewards: NDArray[np.float64], turn: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        if isinstance(self.estimator, credit.Prime):
            return self.estimator.advantage(turns, rewards, turn)
        return self.estimator.token_advantage(turns, rewards, turn)

    def _logprobs(self, rows: list[Row]) -> Tensor:
        """Log-probabilities of all reply tokens under the model: -> [P]."""
        known = recompute_logprobs(
            self.learner.model,
            rows,
            tokens=self.learner.options.tokens,
            packed=self.learner.options.packed,
            temperature=self.temperature,
        )
        return torch.tensor([value for row in known for value in row], dtype=torch.float64)

    def _reference(self, rows: list[Row]) -> Tensor:
        """Log-probabilities under the reference, recorded at sampling or of the start: -> [P]."""
        if not self.start:
            recorded = [value for row in rows for value in row.logprobs]
            return torch.tensor(recorded, dtype=torch.float64)
        now = self.learner.model.weights()
        self.learner.model.set_weights(self.start)
        logprobs = self._logprobs(rows)
        self.learner.model.set_weights(now)
        return logprobs

    def _learn(self, experience: Experience, rewards: NDArray[np.float64]) -> dict[str, float]:
        """One step on the preference loss; returns values to log, e.g. the pair accuracy before it.

        The gradient of the loss by the return of each trajectory is computed first. The rest is
        linear in the log-probabilities of tokens and runs in microbatches.
        """
        turns = experience.turns
        returns = torch.tensor(
            np.bincount(turns.trajectory, rewards, len(turns.group)), requires_grad=True
        )
        pairs = istar.preference_pairs(turns, threshold=self.options.threshold)
        figures = {"prm_pairs": float(len(pairs))}
        if isinstance(self.estimator, credit.Prime):
            loss = istar.prime_loss(returns, torch.from_numpy(turns.outcome.copy()))
        elif len(pairs):
            loss = istar.dpo_loss(returns, pairs)
        else:
            return figures  # all groups have equal outcomes: no preference
        if len(pairs):
            figures["prm_accuracy"] = pair_accuracy(returns.detach().numpy(), pairs)
        (slope,) = torch.autograd.grad(loss, returns)
        pull = -self.options.beta * slope.numpy()[turns.trajectory]
        rows = [row for row in credit_rows(experience.rows, pull) if any(row.advantage or ())]
        objective = partial(self._weigh_logprobs, self.learner.model)
        try:
            step = self.learner.step(rows, objective, aggregate="sum")
        except NotFiniteError as error:
            self._lose(str(error))
            return figures | {"prm_lost": 1.0}
        return figures | {"prm_loss": loss.item(), "prm_grad_norm": step["grad_norm"]}

    def _lose(self, why: str) -> None:
        """Continue without the model; a step that is not finite is never taken."""
        self.lost = True
        warnings.warn(
            f"the model of implicit rewards diverged: {why}. The run continues with the "
            "trajectory's advantage alone; to keep the model, lower prm.learning_rate and resume "
            "from an earlier checkpoint",
            stacklevel=2,
        )

    def _weigh_logprobs(self, policy: Policy, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if batch.advantage is None:
            raise ValueError("rows without advantages; see trainer.learn.batch.credit_rows")
        return batch.advantage * token_logprobs(policy, batch, temperature=self.temperature), {}

    def save(self, folder: Path) -> None:
        """Write the model, its optimiser, and the start if that is the reference."""
        state = {
            "weights": self.learner.model.weights(),
            "learner": self.learner.state_dict(),
            "start": self.start,
            "lost": self.lost,
        }
        sharding.save(state, folder / STATE)

    def restore(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        state = sharding.load(folder / STATE)
        self.learner.model.set_weights(state["weights"])
        self.learner.load_state_dict(state["learner"])
        self.start, self.lost = state["start"], state["lost"]


def assign_token_advantages(rows: list[Row], advantage: NDArray[np.float64]) -> list[Row]:
    """The rows with these advantages of their reply tokens, in order: [P]."""
    ends = np.cumsum([len(row.at) for row in rows])[:-1]
    parts = np.split(advantage, ends)
    return [replace(row, advantage=p.tolist()) for row, p in zip(rows, parts, strict=True)]
