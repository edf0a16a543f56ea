"""Functions of a user's own: how they are found by name, and with how many arguments."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def imported(what: str, name: str) -> Any:
    """The function or class of "package.module:Name".

    Args:
        what: What it is used as, for messages.
        name: Name of the module, a colon and the name in the module.

    Raises:
        ValueError: There is no such module, it fails when it is imported, or it has no such
            name.
    """
    module, _, attribute = name.partition(":")
    try:
        loaded = import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{what} {name}: there is no module {error.name!r}; install it, or put its folder "
                "on PYTHONPATH"
            ) from None
        raise ValueError(
            f"{what} {name}: the module {module} fails when it is imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not hasattr(loaded, attribute):
        raise ValueError(f"{what} {name}: {module} has no {attribute!r}")
    return getattr(loaded, attribute)


def refusal(function: Callable[..., Any], arguments: int) -> str:
    """Why a function cannot be called with so many arguments; "" if it can.

    A function without a signature, which is one written in C, is taken to accept them.
    """
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass
    return ""
