"""Import strings: `package.module:Name` names an object of a module that can be imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agent_envs.panels import nearest


def named(path: str, kind: type | None = None, *, option: str = "an import string") -> Any:
    """The object that an import string names.

    An error that the module itself raises while it is imported is raised as it is.

    Args:
        path: `package.module:Name`.
        kind: the class that the object must be of, if any; `type` for a class.
        option: what the messages call the import string.

    Raises:
        ValueError: not of that form, no such module, no such name in it, or not of that class.
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
