"""Where a run comes from: the versions that trained it and the hashes of its tasks.

`provenance.json` in the run folder. A run that was continued by another version lists both.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from trainer.run.checkpoint import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from agent_envs.panels import Panel

FILE = "provenance.json"
_PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "peft")


@dataclass(frozen=True)
class Tasks:
    """A panel in short: split, source and number of its tasks, and their hash."""

    split: str
    source: str
    count: int
    hash: str


@dataclass(frozen=True)
class Provenance:
    """Versions of agent-envs that trained the run, of Python and packages; its panels."""

    versions: list[str]
    python: str
    packages: dict[str, str]
    training: Tasks
    evaluation: Tasks


def write(folder: Path, training: Panel, evaluation: Panel) -> None:
    """Write the provenance of a run that this process starts or continues."""
    before = read(folder)
    made = Provenance(
        versions=list(dict.fromkeys([*(before.versions if before else ()), own_version()])),
        python=platform.python_version(),
        packages={name: _version(name) for name in _PACKAGES},
        training=_tasks(training),
        evaluation=_tasks(evaluation),
    )
    write_text(folder / FILE, json.dumps(asdict(made), indent=1))


def read(folder: Path) -> Provenance | None:
    """The provenance of a run; None if its version wrote none.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        training, evaluation = (Tasks(**tree.pop(name)) for name in ("training", "evaluation"))
        return _whole(Provenance(training=training, evaluation=evaluation, **tree))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it") from error


def _whole(found: Provenance) -> Provenance:
    """The provenance, if every field has its type.

    Raises:
        ValueError: It has not.
    """
    panels = found.training, found.evaluation
    texts: list[Any] = [found.python, *(x for one in panels for x in (one.split, one.source))]
    texts += [one.hash for one in panels]
    if not isinstance(found.versions, list) or not found.versions:
        raise ValueError("versions must be a list")
    if not isinstance(found.packages, dict):
        raise ValueError("packages must be an object")  # noqa: TRY004 - of a file
    texts += [*found.versions, *found.packages.values()]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("it has other values than text")
    if not all(type(one.count) is int for one in panels):
        raise ValueError("count must be a number of tasks")
    return found


def own_version() -> str:
    """The version of agent-envs that runs."""
    return _version("agent-envs")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _tasks(panel: Panel) -> Tasks:
    return Tasks(panel.split, panel.source, len(panel), panel.hash)
