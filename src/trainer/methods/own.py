"""The estimator of a recipe: one of `credit` by its name, or a user's own by an import string."""

from __future__ import annotations

from functools import partial
from inspect import isclass, signature
from typing import TYPE_CHECKING, Any, cast

import credit
import credit.validation
from agent_envs.imports import describe_error, load_object
from credit.turns import OPTIONAL
from trainer.errors import RecipeError
from trainer.methods.method import Method

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.recipe import Recipe

_CALLED = "(turns, rng) -> advantage of each turn [N]; see credit.Estimator"


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
        made = _own(load_object(name, option="credit.name"), options)
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


def _own(found: Any, options: dict[str, Any]) -> Any:
    """A user's own estimator with its options."""
    if isclass(found) or not callable(found):
        return found(**options) if isclass(found) else found
    signature(found).bind_partial(**options)
    made = partial(found, **options)
    for name in ("needs", "reads_success"):
        if hasattr(found, name):
            setattr(made, name, getattr(found, name))
    return made
