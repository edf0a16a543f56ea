"""Packages that commands need beyond the base installation, by the extra that installs them."""

from __future__ import annotations

from importlib.util import find_spec

_CLI = ("rich", "tomlkit", "typer")
_REPORT = ("jinja2", "matplotlib", "pyarrow", "pydantic", "scipy")
PACKAGES = {
    "cli": _CLI,
    "report": _REPORT,
    "train": (*_CLI, *_REPORT, "peft", "safetensors", "tensorboard", "torch", "transformers"),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
}
"""Import names of what each extra installs."""


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
    if missing := sorted(name for name in PACKAGES[extra] if find_spec(name) is None):
        raise MissingExtraError(
            f"{what} needs packages that are not installed ({', '.join(missing)}): "
            f"pip install 'agent-envs[{extra}]', or pip install '.[{extra}]' in a clone"
        )
