"""Estimators of a recipe: those of `credit` by name, and a user's own by import string."""

from __future__ import annotations

from functools import partial, update_wrapper
from inspect import isclass, signature
from typing import TYPE_CHECKING, Any, cast

import credit
from agent_envs.imports import load_object
from credit.validation import check_known
from trainer.errors import RecipeError

if TYPE_CHECKING:
    from credit import Estimator
    from trainer.recipe import Credit


def check_fit(estimator: Any, kinds: tuple[type, ...], chosen: Credit) -> None:
    """Refuse an estimator that the chosen model beside the policy does nothing for.

    Raises:
        RecipeError: It is of none of these kinds.
    """
    if not isinstance(estimator, kinds):
        raise RecipeError(
            f"credit.model={chosen.model!r} is for {' or '.join(k.__name__ for k in kinds)}, got "
            f"credit.name={chosen.name!r}; change one of them, or set credit.model=none"
        )


def make_estimator(name: str, options: dict[str, Any]) -> Estimator:
    """An estimator of `credit`, or of a user's own by "package.module:Name".

    A class is called with the options once; a function gets them at each call.

    Raises:
        ValueError: It does not exist, or its options do not fit.
    """
    try:
        if ":" not in name:
            own = "give your own as module:Name"
            check_known("unknown credit method", [name], credit.names(), own)
            return credit.make(name, **options)
        made = _bind_options(load_object(name, option="credit.name"), options)
    except TypeError as error:
        raise RecipeError(f"credit.options of {name}: {error}") from error
    if not callable(made):
        raise RecipeError(
            f"credit.name={name!r} must be, or make, something callable: (turns, rng) -> advantage "
            "of each turn [N]; see credit.Estimator"
        )
    return cast("Estimator", made)


def _bind_options(found: Any, options: dict[str, Any]) -> Any:
    """A user's own estimator with its options."""
    if isclass(found):
        return found(**options)
    if not callable(found) or not options:
        return found
    signature(found).bind_partial(**options)
    return update_wrapper(partial(found, **options), found)  # with its attributes, e.g. `needs`
