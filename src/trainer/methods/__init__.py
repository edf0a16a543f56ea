"""Methods: what turns the rollouts of a step into rows with advantages, and learns beside it.

The loop knows `Method` alone. A method with a model of its own trains it inside `credit`, and saves
and restores it with the policy's checkpoint. Left out: anything about the policy's own update.
"""

from __future__ import annotations

from functools import partial
from inspect import isclass
from typing import TYPE_CHECKING, Any, cast

import credit
from agent_envs.imports import named
from trainer.methods.base import Method, Play
from trainer.methods.critic import WithCritic
from trainer.methods.dpo import WithPreference
from trainer.methods.implicit import WithPRM
from trainer.methods.judge import WithJudge
from trainer.methods.selective import Selective
from trainer.methods.turnrd import WithTurnRD
from trainer.recipes import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.recipe import Recipe

__all__ = ["Method", "Play", "make"]

_DECOMPOSERS: dict[str, Callable[[credit.HAS, Recipe], Method]] = {
    "turnrd": WithTurnRD,
    "judge": WithJudge,
}


def make(recipe: Recipe) -> Method:
    """The method of a recipe.

    Raises:
        RecipeError: Sections that do not fit together, or an option of another type.
        ValueError: An unknown estimator or option of it.
    """
    name, options = recipe.credit.name, dict(recipe.credit.options)
    if recipe.critic.learning_rate and recipe.prm.learning_rate:
        raise RecipeError(
            "critic.learning_rate and prm.learning_rate are set, but one model gives credit; "
            "set the other to 0"
        )
    if name == "dpo":
        return WithPreference(recipe)
    asked = str(options.get("decomposer")) if name == "has" else ""
    if asked in _DECOMPOSERS:
        del options["decomposer"]
    estimator = _estimator(name, options)
    if isinstance(estimator, credit.HAS) and asked in _DECOMPOSERS:
        return _DECOMPOSERS[asked](estimator, recipe)
    if recipe.critic.learning_rate:
        return WithCritic(estimator, recipe)
    rated = isinstance(estimator, credit.IStar) and estimator.variant != "environment"
    if recipe.prm.learning_rate or rated or isinstance(estimator, credit.Prime):
        return WithPRM(estimator, recipe)
    if isinstance(estimator, credit.STAPO):
        return Selective(estimator, recipe)
    return Method(estimator)


def _estimator(name: str, options: dict[str, Any]) -> credit.Estimator:
    """An estimator of `credit`, or of a user's own by "package.module:Name".

    A class is made with the options, a function is the estimator and gets them at each call.
    """
    try:
        if ":" not in name:
            return credit.make(name, **options)
        found: Any = named(name, option="credit.name")
        if not callable(found):
            raise RecipeError(
                f"credit.name={name!r} must be callable: (turns, rng) -> advantage of each turn "
                "[N]; see credit.Estimator"
            )
        made: Any = found(**options) if isclass(found) else partial(found, **options)
    except TypeError as error:
        raise RecipeError(f"credit.options of {name}: {error}") from error
    except ValueError as error:
        raise RecipeError(str(error)) from error
    if not callable(made):
        raise RecipeError(
            f"credit.name={name!r} makes objects that cannot be called: (turns, rng) -> advantage "
            "of each turn [N]; see credit.Estimator"
        )
    return cast("credit.Estimator", made)
