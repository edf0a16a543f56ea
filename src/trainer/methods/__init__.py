"""Methods: give the rollouts of a step their advantages, and may train a model of their own.

The training loop only uses `Method`. A method with a model of its own trains it in `credit` and
saves it with the policy's checkpoint. Left out: the update of the policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.imports import load_object
from trainer.methods.method import Experience, Method

if TYPE_CHECKING:
    from trainer.recipe import Recipe

__all__ = ["METHODS", "Experience", "Method", "make_method"]

METHODS = {
    "none": "trainer.methods.method:Method",
    "critic": "trainer.methods.critic:WithCritic",
    "prm": "trainer.methods.implicit:WithPRM",
    "turnrd": "trainer.methods.turnrd:WithTurnRD",
    "judge": "trainer.methods.judge:WithJudge",
    "istar": "trainer.methods.implicit:WithPRM",
    "prime": "trainer.methods.implicit:WithPRM",
    "stapo": "trainer.methods.stapo:WithSTAPO",
    "stapo_dynamic": "trainer.methods.stapo:WithSTAPO",
    "dpo": "trainer.methods.dpo:WithPreference",
}
"""Class by `credit.model`, or else by `credit.name`; any other estimator needs no model."""


def make_method(recipe: Recipe) -> Method:
    """The method of a recipe.

    Raises:
        ValueError: The estimator, the model or an option is unknown or does not fit the others.
    """
    name, model = recipe.credit.name, recipe.credit.model
    path = METHODS.get(model or name, name if ":" in name else METHODS["none"])
    found: Any = load_object(path, option="credit.name")
    made = found if isinstance(found, type) and issubclass(found, Method) else Method
    return made(dict(recipe.credit.options), recipe)
