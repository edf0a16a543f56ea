"""The interface of methods, its default with an estimator, and the estimator of a recipe.

An estimator is one of `credit` by its name, or a user's own by an import string.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from inspect import isclass, signature
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

import credit
import credit.validation
from agent_envs.imports import describe_error, load_object
from credit.turns import OPTIONAL
from trainer.errors import RecipeError
from trainer.learn.batch import credit_rows
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from credit import Estimator, Turns
    from trainer.engine import Sampler
    from trainer.learn.batch import Row
    from trainer.model.policy import Policy
    from trainer.play.failures import Failure
    from trainer.play.records import Episode
    from trainer.play.rollout import Rollouts
    from trainer.recipe import Recipe

_CALLED = "(turns, rng) -> advantage of each turn [N]; see credit.Estimator"


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


class Method:
    """A method that only uses an estimator; base class of methods with a model of their own.

    Attributes:
        estimator: The estimator.
        blind: Blind prompts that rollouts must record, see `Rollouts.blind`.
        needs: Optional columns of `Turns` that the environment must report.
        needs_reference: Whether it uses the reference policy.
    """

    blind: tuple[str, ...] = ()
    needs_reference: bool = False
    needs: tuple[str, ...] = ()
    policy: Policy
    folder: Path

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.needs = tuple(getattr(estimator, "needs", ()))

    def begin(self, policy: Policy, folder: Path) -> None:
        """Start reinforcement learning from this policy in the run folder `folder`."""
        self.policy, self.folder = policy, folder

    def credit(self, experience: Experience) -> Credited:
        """Credit of the rollouts of a step; a model of the method is trained on them, too."""
        advantage = parallel.run_on_first(
            lambda: credit.estimate(self.estimator, experience.turns, experience.rng)
        )
        return Credited(credit_rows(experience.rows, advantage), advantage, {})

    def save(self, folder: Path) -> None:
        """Write the state of the method into a checkpoint."""

    def restore(self, folder: Path) -> None:
        """Restore what `save` wrote; called after `begin`."""


def pair_accuracy(returns: NDArray[np.float64], pairs: NDArray[np.intp]) -> float:
    """Share of (better, worse) pairs [K, 2] with the returns [M] in that order; ties count half."""
    lead = returns[pairs[:, 0]] - returns[pairs[:, 1]]
    return float(np.mean((lead > 0) + 0.5 * (lead == 0)))


def average_by_turn(rows: Sequence[Row], count: int) -> NDArray[np.float64]:
    """Mean advantage of the reply tokens of each turn: -> [N], 0 for a turn without tokens."""
    turn = np.array([t for row in rows for t in row.turn], dtype=np.intp)
    values = np.array([a for row in rows for a in row.advantage or ()], dtype=np.float64)
    total = np.bincount(turn, values, count)
    return total / np.maximum(np.bincount(turn, minlength=count), 1)


def find_method(name: str) -> Callable[[dict[str, Any], Recipe], Method] | None:
    """The `Method` that an import string names; None for an estimator.

    It is called with `credit.options` and the recipe.

    Raises:
        RecipeError: It does not exist.
    """
    if ":" not in name:
        return None
    try:
        found: Any = load_object(name, option="credit.name")
    except ValueError as error:
        raise RecipeError(str(error)) from error
    return found if isclass(found) and issubclass(found, Method) else None


def make_estimator(name: str, options: dict[str, Any]) -> credit.Estimator:
    """An estimator of `credit`, or of a user's own by "package.module:Name".

    A class is called with the options once; a function gets them at each call.

    Raises:
        RecipeError: It does not exist, or its options do not fit.
    """
    try:
        if ":" not in name:
            own = "give your own as module:Name"
            credit.validation.check_known("unknown credit method", [name], credit.names(), own)
            return credit.make(name, **options)
        made = _bind_options(load_object(name, option="credit.name"), options)
    except TypeError as error:
        raise RecipeError(f"credit.options of {name}: {error}") from error
    except ValueError as error:
        raise RecipeError(str(error)) from error
    except Exception as error:
        raise RecipeError(
            f"credit.name={name!r} cannot be made: {describe_error(error)}"
        ) from error
    if not callable(made):
        raise RecipeError(f"credit.name={name!r} must be, or make, something callable: {_CALLED}")
    needs = getattr(made, "needs", ())
    if not isinstance(needs, tuple | list) or not set(needs) <= set(OPTIONAL):
        raise RecipeError(
            f"needs of credit.name={name!r} must be a tuple of columns, of "
            f"{', '.join(map(repr, OPTIONAL))}, got {needs!r:.200}"
        )
    return cast("credit.Estimator", made)


def _bind_options(found: Any, options: dict[str, Any]) -> Any:
    """A user's own estimator with its options."""
    if isclass(found) or not callable(found):
        return found(**options) if isclass(found) else found
    signature(found).bind_partial(**options)
    made = partial(found, **options)
    for name in ("needs", "reads_success"):
        if hasattr(found, name):
            setattr(made, name, getattr(found, name))
    return made
