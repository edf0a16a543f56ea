"""Options on the command line: `key=value`, where the value is TOML, and environments of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym


_PYTHON = {"True": "true", "False": "false"}


def parse_assignment(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`; a value that is not valid TOML is a string.

    True and False are also taken as Python writes them, which errors of constructors advise.

    Raises:
        ValueError: There is no equals sign.
    """
    key, equals, literal = map(str.strip, text.partition("="))
    if not equals:
        raise ValueError(f"an option is key=value, e.g. run.seed=1, got {text!r}")
    try:
        values = tomllib.loads(f"value = {_PYTHON.get(literal, literal)}")
    except tomllib.TOMLDecodeError:
        return key, literal
    return key, values["value"] if len(values) == 1 else literal


def check_not_own(given: Mapping[str, Any], *own: str) -> None:
    """Check that no option of the environment is one of the command's `own`.

    Raises:
        ValueError: One is.
    """
    for name in own:
        if name in given:
            value = given[name]
            flag = f"--{name}" if value is True else f"--{name} {value}"
            raise ValueError(
                f"{name} is an option of the command, not of the environment: write {flag} instead "
                f"of {name}={value}"
            )


def make_env(env_id: str, options: Mapping[str, Any], **how: Any) -> gym.Env[Any, Any]:
    """The environment of an id or class with options of the command line; `how` is for `gym.make`.

    Args:
        env_id: A registered id, `package:Id-v0`, or `package.module:Class`.
        options: Arguments of the environment.
        how: Arguments of `gym.make`, which makes what is registered.

    Raises:
        ValueError: There is no such environment, or an option is unknown (the messages have the
            nearest) or does not fit.
    """
    import gymnasium as gym

    from agent_envs.imports import find_creator, has_option, list_parameters
    from agent_envs.panels import nearest

    creator = find_creator(env_id, option="the environment")
    registered = env_id.rpartition(":")[2] in gym.registry
    arguments = list_parameters(creator) | (list_parameters(gym.make) if registered else {})
    known = [name for name, one in arguments.items() if one.kind is not Parameter.VAR_KEYWORD]
    for name in options:
        if name not in known and not has_option(creator, name):
            raise ValueError(f"{env_id} has no option {name!r}{nearest(name, known)}")
    try:
        return gym.make(env_id, **how, **options) if registered else creator(**options)
    except TypeError as error:  # an option of a wrong type
        raise ValueError(f"the options of {env_id} do not fit: {error}") from error
