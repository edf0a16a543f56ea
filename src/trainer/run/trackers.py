"""Copies of a run's log in Weights & Biases or trackio, beside TensorBoard's.

Both libraries have `init`, and runs with `log` and `finish`. Where they write and whether they need
a network is up to their own settings, e.g. WANDB_MODE=offline. A resumed run continues its copy.
"""

from __future__ import annotations

import secrets
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainer.run.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = ("wandb", "trackio")
PROJECT = "agent-envs"
_HELP = {
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "trackio": "see the trackio documentation, or leave --track trackio out",
}
_FILE = "tracker_id.txt"


class TrackerError(ValueError):
    """A library refused to start; the message has its reason."""


class Tracker:
    """The copy of one run's log in one library.

    Args:
        name: A name of `NAMES`, whose library is imported.
        folder: Run folder, with a file for the id of the run there.
        config: Options of the run, with its `name`.

    Raises:
        TrackerError: The library refused to start.
    """

    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        run_id = _run_id(folder)
        more = {"id": run_id, "dir": str(folder)} if name == "wandb" else {}
        try:
            self._run = import_module(name).init(
                project=PROJECT,
                name=f"{config['name']}-{run_id}",
                config=dict(config),
                resume="allow",
                **more,
            )
        except Exception as error:  # the libraries have no common class of errors
            said = " ".join(str(error).split())
            raise TrackerError(f"{name} did not start ({said}); {_HELP[name]}") from error

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step; steps increase."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is left, and end."""
        self._run.finish()


def _run_id(folder: Path) -> str:
    """The id of the run in all libraries, which a resumed run has again."""
    path = folder / _FILE
    if not path.is_file():
        write_text(path, secrets.token_hex(4) + "\n")
    return path.read_text(encoding="utf-8").strip()
