"""Where a run comes from: the versions that trained it and the hashes of its tasks.

`provenance.json` in the run folder. A run that was continued by another version lists both.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

import agent_envs
from trainer.options import STRICT
from trainer.run.checkpoint import read_json, write_text

if TYPE_CHECKING:
    from pathlib import Path

    from agent_envs.panels import Panel

FILE = "provenance.json"
_PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "peft")


@dataclass(frozen=True, config=STRICT)
class Tasks:
    """A panel in short: split, source and number of its tasks, and their hash."""

    split: str
    source: str
    count: int
    hash: str


@dataclass(frozen=True, config=STRICT)
class Provenance:
    """Versions of agent-envs that trained the run, of Python and packages; its panels."""

    versions: Annotated[list[str], Field(min_length=1)]
    python: str
    packages: dict[str, str]
    training: Tasks
    evaluation: Tasks


def write(folder: Path, training: Panel, evaluation: Panel) -> None:
    """Write the provenance of a run that this process starts or continues.

    Raises:
        ValueError: The file of before is damaged.
    """
    path = folder / FILE
    before = read_json(path, Provenance).versions if path.is_file() else []
    made = Provenance(
        versions=list(dict.fromkeys([*before, agent_envs.__version__])),
        python=platform.python_version(),
        packages={name: version(name) for name in _PACKAGES},
        training=_describe_panel(training),
        evaluation=_describe_panel(evaluation),
    )
    write_text(path, json.dumps(asdict(made), indent=1))


def _describe_panel(panel: Panel) -> Tasks:
    return Tasks(panel.split, panel.source, len(panel), panel.hash)
