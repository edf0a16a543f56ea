"""PPO's critic: state values before every reply token, and advantages by GAE on turn rewards.

The reward of a turn is at its last reply token; tokens of the environment are skipped. MGR's main
form uses R_final (Sec. 4.2) of each turn alone, plain PPO the environment's reward plus the
outcome. The value head reads the policy's last hidden states without training them, or those of a
trunk of its own.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

import credit
from credit import gae
from credit.losses import value_loss
from credit.rows import average_advantage
from trainer.learn.batch import annotate_rows
from trainer.learn.learner import Learner
from trainer.learn.prompts import make_end_row
from trainer.learn.rows import join_values, minibatches, set_values
from trainer.methods.method import Credited, Method, describe_turns
from trainer.options import STRICT, AboveZero, Positive, Share, refuse_broken

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from credit import Turns
    from trainer.learn.batch import Batch
    from trainer.learn.rows import Row
    from trainer.methods.method import Experience
    from trainer.model.policy import Policy
    from trainer.recipe import Recipe


@dataclass(frozen=True, config=STRICT)
class CriticOptions:
    """A critic for PPO. credit.name then gives rewards: mgr, or reinforce for plain PPO.

    Attributes:
        learning_rate: Learning rate of the critic.
        trunk: Hidden states of the value head: those of the "policy", which it does not train, or
            of an "own" copy (an adapter if the policy is one).
        gamma: Discount for each token.
        lam: λ of GAE.
        value_clip: The loss is clipped if a value moves further than this from the old one.
        epochs: Passes over the rollouts of a step.
        span: What GAE runs over: a "turn" as a sample of its own (MGR, Algorithm 1, l. 30-32), or
            the "trajectory", whose later turns then pay an earlier one; "auto" is the turn for mgr.
        cut_off: The value after an episode that a limit on turns or tokens has cut off: 0 as after
            an "end", or the critic's "value" of what was seen then.
    """

    learning_rate: AboveZero = 1e-5
    trunk: Literal["policy", "own"] = "policy"
    gamma: Share = 1.0
    lam: Share = 0.95
    value_clip: AboveZero = 0.2
    epochs: Positive = 1
    span: Literal["auto", "turn", "trajectory"] = "auto"
    cut_off: Literal["end", "value"] = "end"


class Critic:
    """Value before each reply token: a linear head on hidden states, initialised to 0.

    Attributes:
        policy: Provides the hidden states: the policy itself, or a twin that is trained.
        own: Whether it is a twin.
        head: Linear layer [D] -> [1].
    """

    def __init__(self, policy: Policy, *, own: bool) -> None:
        self.policy = policy.twin("critic") if own else policy
        self.own = own
        width = policy.model.config.get_text_config().hidden_size
        self.head = nn.Linear(width, 1, device=policy.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.policy.device

    def parameters(self) -> list[nn.Parameter]:
        """The trained parameters: the head, and the trunk if it is its own."""
        return [*self.head.parameters(), *(self.policy.parameters() if self.own else ())]

    def training(self) -> AbstractContextManager[None]:
        """Context in which gradients are computed."""
        return self.policy.training() if self.own else nullcontext()

    def store_in_bfloat16(self) -> None:
        """Store the matrices of a trunk of its own in bfloat16."""
        if self.own:
            self.policy.store_in_bfloat16()

    def values(self, batch: Batch) -> Tensor:
        """Value before each reply token: -> [P]."""
        with torch.set_grad_enabled(self.own and torch.is_grad_enabled()):
            states = self.policy.states(batch.ids, batch.keep, **self.policy.prepare_inputs(batch))
        values: Tensor = self.head(states)[:, 0]
        return values

    def loss(self, clip: float, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Minus the clipped squared error at each reply token: -> [P], nothing to report."""
        returns, before = cast("Tensor", batch.returns), cast("Tensor", batch.value)
        return -value_loss(self.values(batch), returns, before, clip=clip), {}


class WithCritic(Method):
    """PPO: advantages by GAE; the critic is then trained on the returns."""

    learner: Learner[Critic]
    fits = (credit.MGR, credit.Reinforce)  # a critic needs rewards, others return advantages

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(options, recipe)
        self.options, self.update = self.read_options(CriticOptions, "critic"), recipe.update
        self.has_twin = self.options.trunk == "own"
        self.reads_reward = isinstance(self.estimator, credit.Reinforce)
        self.each_turn = self.options.span in {"turn", *(() if self.reads_reward else ("auto",))}
        rules = {
            "a critic reads rewards and no row_penalty of credit.options; set "
            "env.invalid_penalty=-0.1": getattr(self.estimator, "row_penalty", 0.0),
            "cut_off of credit.models.critic needs sequences that go on after a turn; set its span "
            'to "trajectory"': self.each_turn and self.options.cut_off == "value",
        }
        refuse_broken(rules)

    def begin(self, policy: Policy, folder: Path) -> None:
        """Make the critic of this policy."""
        super().begin(policy, folder)
        options = self.options
        critic = Critic(policy, own=options.trunk == "own")
        learning = replace(self.update, learning_rate=options.learning_rate, warmup=0)
        self.learner = Learner(critic, learning, folder=folder)

    def credit(self, experience: Experience) -> Credited:
        """Advantages by GAE; then the critic is trained on the same rows."""
        options, update, rows = self.options, self.update, experience.rows
        rewards = compute_turn_rewards(self.estimator, experience.turns, experience.rng)
        if options.cut_off == "value":
            rewards = rewards + options.gamma * self._value_ends(experience)
        critic, values = self.learner.model, self._value(experience.rows)
        turn = torch.from_numpy(join_values(experience.rows, "turn"))
        owner = np.arange(len(rewards)) if self.each_turn else experience.turns.trajectory
        advantage, returns = compute_gae(
            turn, values, rewards, owner, gamma=options.gamma, lam=options.lam
        )
        rows = set_values(rows, value=values, advantage=advantage, returns=returns)
        loss = partial(critic.loss, options.value_clip)
        parts = minibatches(rows, size=update.minibatch, epochs=options.epochs, rng=experience.rng)
        figures = {
            **describe_turns(self.estimator, experience.turns),
            "explained_variance": gae.explain_variance(returns, values),
            "value_loss": float(np.mean([self.learner.step(p, loss)["loss"] for p in parts])),
        }
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        each = average_advantage(advantage, turn.numpy(), len(experience.turns))
        return Credited(set_values(rows, advantage=advantage), each, figures)

    def _value(self, rows: list[Row]) -> NDArray[np.float64]:
        """Value before each reply token: -> [P]."""
        critic, update = self.learner.model, self.update
        how: dict[str, Any] = {"packed": update.packed, "device": critic.device}
        return annotate_rows(rows, critic.values, tokens=update.tokens, **how)

    def _value_ends(self, experience: Experience) -> NDArray[np.float64]:
        """Value after the last turn of each trajectory that was cut off, 0 at all other turns: [N].

        Gymnasium separates such ends, `truncated`, from those of a task, where nothing follows.
        """
        cut = {i: one for i, one in enumerate(experience.episodes) if one.after}
        after = np.zeros(len(experience.episodes))
        after[[*cut]] = self._value([make_end_row(one) for one in cut.values()])
        return np.where(experience.turns.last, after[experience.turns.trajectory], 0.0)

    def state(self) -> dict[str, Any]:
        """The critic and its optimiser."""
        critic = self.learner.model
        return {
            "head": critic.head.state_dict(),
            "trunk": critic.policy.weights() if critic.own else {},
            "learner": self.learner.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the critic and its optimiser."""
        critic = self.learner.model
        critic.head.load_state_dict(state["head"])
        if critic.own:
            critic.policy.set_weights(state["trunk"])
        self.learner.load_state_dict(state["learner"])


def compute_turn_rewards(
    estimator: credit.Estimator, turns: Turns, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Reward of each turn: R_final of MGR, else the environment's plus the outcome: -> [N]."""
    return estimator.rewards(turns, rng) if isinstance(estimator, credit.MGR) else turns.read_paid()


def compute_gae(
    turn: Tensor,
    values: NDArray[np.float64],
    rewards: NDArray[np.float64],
    owner: NDArray[np.int64],
    *,
    gamma: float,
    lam: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """GAE advantages and returns of reply tokens: [P], [P], [N], [N] -> [P], [P].

    The reply tokens of turns with the same owner are one sequence through all their rows.

    Args:
        turn: Turn of each token.
        values: Value before each token.
        rewards: Reward of each turn.
        owner: Id of each turn's sequence, such as its trajectory.
        gamma: Discount for each token.
        lam: λ of GAE.
    """
    reward = gae.place_rewards(torch.from_numpy(rewards), turn)
    of_token, value = torch.from_numpy(owner[turn.numpy()]), torch.from_numpy(values)
    advantage = gae.compute_ragged(reward, value, of_token, gamma=gamma, lam=lam).numpy()
    return advantage, advantage + values
