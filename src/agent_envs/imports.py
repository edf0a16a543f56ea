"""Import strings: `package.module:Name` names an object in an importable module."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agent_envs.panels import nearest


def named(path: str, kind: type | None = None, *, option: str = "an import string") -> Any:
    """The object that an import string names.

    Errors that the module raises while it is imported are passed on unchanged.

    Args:
        path: `package.module:Name`.
        kind: the required class of the object, if any; `type` if the object must be a class.
        option: name of the import string in error messages.

    Raises:
        ValueError: wrong form, no such module, no such name in it, or another class.
    """
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ValueError(f"{option} must have the form package.module:Name, got {path!r:.200}")
    try:
        made = import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # a module that this one imports is missing
        raise ValueError(
            f"{option} names {path!r}, but there is no module {error.name!r}; install it, or put "
            "its folder on PYTHONPATH"
        ) from None
    if not hasattr(made, name):
        raise ValueError(
            f"{option} names {path!r}, but {module} has no {name!r}{nearest(name, dir(made))}"
        )
    found = getattr(made, name)
    if kind is not None and not isinstance(found, kind):
        raise ValueError(
            f"{option} must name an object of class {kind.__name__}, and {path!r} is of class "
            f"{type(found).__name__}"
        )
    return found
