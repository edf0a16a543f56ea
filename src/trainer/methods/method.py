"""The interface of methods, and its default: the advantages of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

import credit
from trainer.learn.rows import credit_rows
from trainer.methods.estimators import check_fit, make_estimator
from trainer.methods.gold import score_answers
from trainer.options import make_options
from trainer.scale import parallel

if TYPE_CHECKING:
    from credit import Turns
    from trainer.engine import Sampler
    from trainer.learn.rows import Row
    from trainer.model.policy import Policy
    from trainer.play.failures import Failure
    from trainer.play.records import Episode
    from trainer.play.rollout import Rollouts
    from trainer.recipe import BesidePolicy, Recipe

_Options = TypeVar("_Options")


@dataclass(frozen=True)
class Experience:
    """The rollouts of one step.

    Attributes:
        step: Step of the run.
        episodes: The M trajectories.
        turns: Their N turns as columns.
        rows: Their token rows.
        rng: Generator for the method.
        rollouts: What played them.
        sampler: What gave their replies.
    """

    step: int
    episodes: Sequence[Episode]
    turns: Turns
    rows: list[Row]
    rng: np.random.Generator
    rollouts: Rollouts
    sampler: Sampler


class Credited(NamedTuple):
    """Rows with advantages, made by a method.

    Attributes:
        rows: The rows with advantages.
        advantage: Mean advantage of each turn, [N].
        figures: Values to log.
        more: Adds further gradients for the rows of one optimiser step and returns their loss.
        failures: Environments that failed in further rollouts of the method.
    """

    rows: list[Row]
    advantage: NDArray[np.float64]
    figures: dict[str, float]
    more: Callable[[Sequence[Row]], float] | None = None
    failures: tuple[Failure, ...] = ()


def describe_turns(estimator: Any, turns: Turns) -> dict[str, float]:
    """What an estimator with a method `describe(turns)` tells of a batch, by name, for the log."""
    return dict(estimator.describe(turns)) if hasattr(estimator, "describe") else {}


class Method:
    """A method that only uses an estimator; base class of methods with a model of their own.

    Args:
        options: `credit.options`.
        recipe: The recipe.

    Attributes:
        estimator: The estimator.
        fits: What estimators the method is for.
        blind: Blind prompts that rollouts must record, see `Rollouts.blind`.
        needs: Optional columns of `Turns` that the environment must report.
        reads_reward: Whether it reads the rewards of turns.
        needs_reference: Whether it uses the reference policy.
        has_twin: Whether it trains a second model of the policy's size.
    """

    fits: tuple[type, ...] = (object,)
    blind: tuple[str, ...] = ()
    needs_reference: bool = False
    has_twin: bool = False
    needs: tuple[str, ...] = ()
    reads_reward: bool = False
    policy: Policy
    folder: Path

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        self.recipe = recipe
        self.estimator: Any = make_estimator(recipe.credit.name, options)
        check_fit(self.estimator, self.fits, recipe.credit)
        self.needs = tuple(getattr(self.estimator, "needs", ()))
        self.reads_reward = getattr(self.estimator, "reads_reward", False)
        self.needs_reference = getattr(self.estimator, "reads_reference", False)

    def read_options(self, kind: type[_Options], model: BesidePolicy) -> _Options:
        """The options of a model beside the policy.

        Raises:
            RecipeError: One is unknown or invalid.
        """
        given = self.recipe.credit.models.get(model, {})
        return make_options(kind, given, f"credit.models.{model}")

    def begin(self, policy: Policy, folder: Path) -> None:
        """Start reinforcement learning from this policy in the run folder `folder`."""
        self.policy, self.folder = policy, folder

    def credit(self, experience: Experience) -> Credited:
        """Credit of the rollouts of a step; a model of the method is trained on them, too."""
        turns = experience.turns
        figures = describe_turns(self.estimator, turns)
        if "gold_logprob" in self.needs:
            gold = score_answers(
                self.policy, experience.episodes, self.recipe.update, reference=self.needs_reference
            )
            turns = replace(turns, gold_logprob=gold)
            figures["gold_probability"] = float(np.exp(gold).mean())
        advantage = parallel.run_on_first(
            lambda: credit.estimate(self.estimator, turns, experience.rng)
        )
        return Credited(credit_rows(experience.rows, advantage), advantage, figures)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the method: numbers and tensors, in tables by their names."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned; called after `begin`."""
