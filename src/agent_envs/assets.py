"""Files that the environments read: where the shipped files are, and the errors about files."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


class MissingAsset(FileNotFoundError):
    """A required file is missing; the message names it and the command that gets it."""


class BadAsset(ValueError):
    """A file is damaged or has the wrong content; the message names it and what is wrong."""


def asset(path: str) -> Traversable:
    """The file or folder `path` of the data shipped with the package, in a checkout or a wheel.

    Raises:
        MissingAsset: it is not installed.
    """
    found = resources.files("env_assets").joinpath(*path.split("/"))
    if not (found.is_file() or found.is_dir()):
        raise MissingAsset(
            f"{found} is not in this installation; run `pip install --force-reinstall agent-envs`"
        )
    return found


def find_data(given: str | os.PathLike[str], variable: str) -> Path | None:
    """The folder of public data; "auto" is that of an environment variable, "embedded" is None."""
    named = os.fspath(given)
    if named == "auto":
        named = os.environ.get(variable) or "embedded"
    return None if named == "embedded" else expand_path(named)


def expand_path(given: str | os.PathLike[str]) -> Path:
    """The absolute path, with the home folder of a user for `~`.

    Raises:
        MissingAsset: There is no such user, or the user has no home folder.
    """
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise MissingAsset(
            f"{given}: there is no home folder for the ~; set HOME, or give the path without ~"
        ) from error


def table(path: str) -> dict[str, Any]:
    """The TOML file `path` of this package, such as `sotopia/people.toml`."""
    file = resources.files("agent_envs").joinpath(*path.split("/"))
    return tomllib.loads(file.read_text(encoding="utf-8"))


def require(module: str, extra: str) -> Any:
    """The package `module`, which the extra `extra` installs.

    Raises:
        ImportError: It is not installed; the message has the command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {module} ({error}): pip install 'agent-envs[{extra}]'"
        ) from error


def refuse_damaged(source: str, rules: Mapping[str, Any]) -> None:
    """Refuse what breaks a rule; `rules` has what each says, and whether it is broken.

    Raises:
        BadAsset: one is; the message has the `source` and the first.
    """
    for said, is_broken in rules.items():
        if is_broken:
            raise BadAsset(f"{source}: {said}")
