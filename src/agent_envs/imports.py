"""Import strings: `package.module:Name` names an object, `package:Id-v0` an environment."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import Parameter, isclass, signature
from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from agent_envs.contract import encodable
from agent_envs.panels import nearest

FOREIGN = ("gem", "openenv", "reasoning_gym", "textarena")
"""Packages with worlds that `agent_envs.foreign` lifts, named as `gem:game:Sudoku-v0-easy`."""
LONGEST = 2000
"""Most characters of an error's message that are quoted."""


def load_object(path: str, kind: type | None = None, *, option: str = "an import string") -> Any:
    """The object that an import string names.

    Args:
        path: `package.module:Name`.
        kind: the required class of the object, if any; `type` if the object must be a class.
        option: name of the import string in error messages.

    Raises:
        ValueError: wrong form, no such module, a module that fails while it is imported, no such
            name in it, or another class.
    """
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ValueError(f"{option} must have the form package.module:Name, got {path!r:.200}")
    made = load_module(module, path, option=option)
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


def load_module(module: str, path: str, *, option: str) -> ModuleType:
    """The module of the import string or id `path`.

    Raises:
        ValueError: no such module, or it fails while it is imported; the message has option,
            place and error.
    """
    try:
        return import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{option} names {path!r}, but there is no module {error.name!r}; install it, or "
                "put its folder on PYTHONPATH"
            ) from None
        raise ValueError(
            f"{option} names {path!r}, but the module {module} fails when it is imported: "
            f"{describe_error(error)}"
        ) from error


def find_creator(path: str, *, option: str) -> Callable[..., Any]:
    """The function or class that makes an environment.

    Args:
        path: A registered id, `package:Id-v0`, `package.module:Class`, or a name in one of the
            packages `FOREIGN`.
        option: name of the path in error messages.

    Raises:
        ValueError: no such id, module or class; or what the id is registered with does not exist.
    """
    package, _, world = path.partition(":")
    if package in FOREIGN:
        return partial(import_module(f"agent_envs.foreign.{package}").make, world)
    module, _, name = path.rpartition(":")
    if module:
        load_module(module, path, option=option)
    if name in gym.registry:
        entry: Any = gym.registry[name].entry_point
        try:
            return load_env_creator(entry) if isinstance(entry, str) else entry
        except (AttributeError, ModuleNotFoundError) as error:
            raise ValueError(
                f"{option} is {path!r}, registered with the entry point {entry!r}, which does not "
                f"exist: {error}"
            ) from error
    near = nearest(name, gym.registry)
    if not module:
        raise ValueError(
            f"no environment {name!r} is registered{near}; your own is given as package:Id-v0 or "
            "package.module:Class"
        )
    if re.search(r"-v\d+$", name):
        raise ValueError(
            f"{option} is {path!r}, but {module} registers no environment {name!r}{near}; an "
            "environment that is not registered is given as package.module:Class"
        )
    found: type = load_object(path, type, option=option)
    if not issubclass(found, gym.Env):
        raise ValueError(  # noqa: TRY004 - wrong value, not wrong type
            f"{option} names {path!r}, a class that is no gymnasium.Env; derive it "
            "from that, or from agent_envs.AgentEnv"
        )
    return found


def message_of(error: BaseException) -> str:
    """The message of an error in one line that can be encoded, of at most `LONGEST` characters."""
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    line = encodable(" ".join(text[: 2 * LONGEST].split()))
    more = max(0, len(text) - 2 * LONGEST) + max(0, len(line) - LONGEST)
    return f"{line[:LONGEST]}... ({more} more characters)" if more else line


def describe_error(error: BaseException) -> str:
    """An error of a user's code in one line that can be encoded: class, message, file and line."""
    message, name = message_of(error), type(error).__name__
    described = f"{name}: {message}" if message else name
    place = _find_place(error)
    return encodable(f"{described} ({place})" if place else described)


def _find_place(error: BaseException) -> str:
    """File and line of an error; "" if there is none."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}" if error.filename and error.lineno else ""
    calls = [
        call
        for call in traceback.extract_tb(error.__traceback__)
        if not call.filename.startswith("<frozen ")
        and call.filename != __file__
        and call.name != "__getattr__"  # what reads a missing attribute is of interest
    ]
    return f"{calls[-1].filename}:{calls[-1].lineno}" if calls else ""


def has_option(creator: Callable[..., Any], option: str) -> bool:
    """Whether a creator has an option, or accepts any option."""
    known = list_parameters(creator)
    return option in known or any(p.kind is Parameter.VAR_KEYWORD for p in known.values())


def list_parameters(creator: Any) -> dict[str, Parameter]:
    """Parameters of a function or class, with those of the bases that it passes `**kwargs` to."""
    known: dict[str, Parameter] = {}
    for one in creator.__mro__ if isclass(creator) else (creator,):
        own = signature(one).parameters.values()
        rest = [p for p in own if p.kind is Parameter.VAR_KEYWORD]
        known.update({p.name: p for p in own if p not in rest})
        if not rest:
            return known
    return known if isclass(creator) else known | {p.name: p for p in rest}
