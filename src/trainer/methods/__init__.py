"""Methods: what turns the rollouts of a step into rows with advantages, and learns beside it.

The loop knows `Method` alone. A method with a model of its own trains it inside `credit`, and saves
and restores it with the policy's checkpoint. Left out: anything about the policy's own update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import credit
from trainer.methods.base import Method, Play
from trainer.methods.critic import WithCritic
from trainer.methods.dpo import WithPreference
from trainer.methods.implicit import WithPRM
from trainer.methods.judge import WithJudge
from trainer.methods.selective import Selective
from trainer.methods.turnrd import WithTurnRD
from trainer.recipe import RecipeError

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
    try:
        estimator = credit.make(name, **options)
    except TypeError as error:
        raise RecipeError(f"credit.options of {name}: {error}") from error
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
