"""Packages that commands need beyond the base installation, by the extra that installs them."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = {
    "cli": ("rich", "tomlkit", "typer"),
    "report": ("jinja2", "matplotlib", "pyarrow", "pydantic", "scipy"),
    "train": ("peft", "safetensors", "tensorboard", "torch", "transformers"),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
}
"""Import names of what each extra adds."""
INCLUDES = {"cli": (), "report": (), "train": ("cli", "report"), "wandb": (), "trackio": ()}
"""Other extras that an extra installs as well."""


class MissingExtraError(ImportError):
    """Required packages are missing; the message names them and the extra that installs them."""


def require_extra(extra: str, what: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Args:
        extra: A key of `PACKAGES`.
        what: The command that needs them, for the message.

    Raises:
        MissingExtraError: A package is not installed.
    """
    needed = [name for part in (extra, *INCLUDES[extra]) for name in PACKAGES[part]]
    if missing := sorted(name for name in needed if find_spec(name) is None):
        raise MissingExtraError(
            f"{what} needs packages that are not installed ({', '.join(missing)}): "
            f"pip install 'agent-envs[{extra}]', or pip install '.[{extra}]' in a clone"
        )
