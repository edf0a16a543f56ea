"""Files the environments read: where the shipped ones are, and the errors when one is not right."""

from __future__ import annotations

import tomllib
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


class MissingAsset(FileNotFoundError):
    """A file that is needed is not there; the message names it and says what to run."""


class BadAsset(ValueError):
    """A file is damaged or not what it should be; the message names it and what is wrong."""


def asset(path: str) -> Traversable:
    """The file `path` of the worlds shipped with the package, from a checkout or a wheel.

    Raises:
        MissingAsset: the installation lacks it.
    """
    found = resources.files("env_assets").joinpath(*path.split("/"))
    if not (found.is_file() or found.is_dir()):
        raise MissingAsset(
            f"{found} is not in this installation; run `pip install --force-reinstall agent-envs`"
        )
    return found


def table(path: str) -> dict[str, Any]:
    """The TOML file `path` of this package, such as `sotopia/people.toml`."""
    file = resources.files("agent_envs").joinpath(*path.split("/"))
    return tomllib.loads(file.read_text(encoding="utf-8"))


def require(module: str, extra: str) -> Any:
    """The package `module`, which installing `extra` brings.

    Raises:
        ImportError: It is not installed; the message has the command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {module} ({error}): pip install 'agent-envs[{extra}]'"
        ) from error
