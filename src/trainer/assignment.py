"""Options on the command line: `key=value`, where the value is TOML, and environments of them."""

from __future__ import annotations

import tomllib
from inspect import Parameter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import gymnasium as gym


def assignment(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`; a value that is not valid TOML is a string.

    Raises:
        ValueError: There is no equals sign.
    """
    key, equals, literal = map(str.strip, text.partition("="))
    if not equals:
        raise ValueError(f"an option is key=value, e.g. run.seed=1, got {text!r}")
    try:
        values = tomllib.loads(f"value = {literal}")
    except tomllib.TOMLDecodeError:
        return key, literal
    return key, values["value"] if len(values) == 1 else literal


def made(env_id: str, options: Mapping[str, Any], **how: Any) -> gym.Env[Any, Any]:
    """The environment of a registered id with options of the command line; `how` is for `gym.make`.

    Raises:
        ValueError: An option is unknown (the message has the nearest) or does not fit.
        gymnasium.error.Error: There is no such environment.
    """
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    from agent_envs.imports import imported, parameters, takes
    from agent_envs.panels import nearest

    module, _, last = env_id.rpartition(":")
    if module:
        imported(module, env_id, option="the environment")
    if last in gym.registry:
        entry: Any = gym.registry[last].entry_point
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
        known = [
            name
            for name, one in (parameters(gym.make) | parameters(creator)).items()
            if one.kind is not Parameter.VAR_KEYWORD
        ]
        for name in options:
            if name not in known and not takes(creator, name):
                raise ValueError(f"{env_id} has no option {name!r}{nearest(name, known)}")
    try:
        return gym.make(env_id, **how, **options)
    except TypeError as error:  # an option of a wrong type
        raise ValueError(f"the options of {env_id} do not fit: {error}") from error
