"""The files of a run folder, read for people: what is damaged is left out and named."""

from __future__ import annotations

import platform
import re
import tomllib
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, JsonValue

import agent_envs
from agent_envs import evaluation
from agent_envs.imports import message_of
from agent_envs.machine import read_json, write_text
from trainer.options import flatten
from trainer.play import episode_files

if TYPE_CHECKING:
    from agent_envs.evaluation import Evaluation
    from agent_envs.panels import Panel
    from trainer.play.records import Episode

PROVENANCE = "provenance.json"
_Read = TypeVar("_Read")
_NEEDED = (
    *("name", "about", "env.id", "policy.model", "credit.name", "sampling.decode"),
    *("run.seed", "run.steps", "sft.steps"),
)
"""Options that every version's `config.toml` has."""
_PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "peft")
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, EOFError, MemoryError, RecursionError)
"""What reading a damaged file, or one of another program, may raise."""


class FailureRecord(BaseModel, strict=True):
    """A failure of an environment, as `trainer.play.failures.Failure` writes it."""

    step: int
    part: str
    task_id: str
    turn: int
    error: str
    traceback: str


class WarningRecord(BaseModel, strict=True):
    """A line of the warnings of a run."""

    step: int
    text: str


class TruthRecord(BaseModel, strict=True, allow_inf_nan=False):
    """What `agent-envs truth` measured."""

    turns: int
    groups: int
    reliability: float
    policy: str


class LadderRecord(BaseModel, strict=True, allow_inf_nan=False):
    """What `agent-envs audit --ladder --json` found; success has share, low and high end."""

    env: str
    split: str
    tasks: int
    options: dict[str, JsonValue]
    success: dict[str, tuple[float, float, float]]

    @property
    def levels(self) -> dict[str, float]:
        """The success of the best rung and of the best expert, by name."""
        ordered = sorted(self.success, key=self.success.__getitem__)
        best = {name.startswith("expert: "): name for name in ordered}
        return {best[kind]: self.success[best[kind]][0] for kind in sorted(best)}


class Tasks(BaseModel, strict=True, extra="forbid"):
    """A panel in short: split, source and number of its tasks, and their hash."""

    split: str
    source: str
    count: int
    hash: str


class Provenance(BaseModel, strict=True, extra="forbid"):
    """Versions of agent-envs that trained the run, of Python and packages; its panels."""

    versions: Annotated[list[str], Field(min_length=1)]
    python: str
    packages: dict[str, str]
    training: Tasks
    evaluation: Tasks


class RunFolder:
    """The files of a run; those that cannot be read are left out.

    Attributes:
        path: The folder.
        damaged: What is wrong with each file that was left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged: list[str] = []

    def list_files(self, pattern: str) -> list[Path]:
        """The paths of such names, by increasing step."""
        return sorted(self.path.glob(pattern), key=lambda path: (step_of(path), path))

    def read(self, pattern: str | Path, read: Callable[[Path], _Read]) -> list[_Read]:
        """What the files of such a name, or the file of a path, hold, by increasing step."""
        found = []
        for path in self.list_files(pattern) if isinstance(pattern, str) else [pattern]:
            try:
                found.append(read(path))
            except _UNREADABLE as error:
                of_system = isinstance(error, OSError) and error.strerror
                said = of_system or message_of(error) or type(error).__name__
                said = said if str(path) in said else f"{path} cannot be read ({said})"
                if said not in self.damaged:  # some files are read twice
                    self.damaged.append(said)
        return found

    def read_evaluations(self) -> list[tuple[int, Evaluation]]:
        """(step, evaluation) on the panel of the last one."""
        found = self.read(
            "eval/step_[0-9]*.json", lambda path: (step_of(path), evaluation.load(path))
        )
        kept = [
            (step, one)
            for step, one in found
            if (one.panel_hash, one.task_ids) == (found[-1][1].panel_hash, found[-1][1].task_ids)
        ]
        for step in dict(found).keys() - dict(kept).keys():
            path = self.path / "eval" / f"step_{step}.json"
            self.damaged.append(f"{path} has another panel than the last")
        return kept

    def read_provenance(self) -> Provenance | None:
        """Where the run comes from, None if that was not recorded."""
        found = self.read(PROVENANCE, partial(read_json, kind=Provenance))
        return found[0] if found else None


def write_provenance(folder: Path, training: Panel, evaluation: Panel) -> None:
    """Write where a run comes from that this process starts or continues with these panels.

    A run that was continued by another version lists both.

    Raises:
        ValueError: The file of before is damaged.
    """
    path = folder / PROVENANCE
    before = read_json(path, Provenance).versions if path.is_file() else []
    tasks, held_out = (
        Tasks(split=one.split, source=one.source, count=len(one), hash=one.hash)
        for one in (training, evaluation)
    )
    made = Provenance(
        versions=list(dict.fromkeys([*before, agent_envs.__version__])),
        python=platform.python_version(),
        packages={name: version(name) for name in _PACKAGES},
        training=tasks,
        evaluation=held_out,
    )
    write_text(path, made.model_dump_json(indent=1))


def step_of(path: Path) -> int:
    """The step in the name of a file; 0 if it has none."""
    found = re.match(r"step_(\d+)", path.name)
    return int(found[1]) if found else 0


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """The text of `config.toml`, and its tables.

    Raises:
        FileNotFoundError: The folder holds no run.
        ValueError: The file is damaged.
    """
    config = folder / "config.toml"
    if not config.is_file():
        raise FileNotFoundError(
            f"{folder} holds no run: config.toml is missing; train with --out {folder}"
        )
    try:
        text = config.read_text(encoding="utf-8")
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not UTF-8, or not TOML
        raise ValueError(f"{config} is damaged: {error}; restore it") from error
    if lacking := [key for key in _NEEDED if key not in dict(flatten(tree))]:
        raise ValueError(f"{config} is damaged: it lacks {', '.join(lacking)}; restore it")
    return text, tree


def total_steps(tree: dict[str, Any]) -> int:
    """Steps of a run, warm start and reinforcement learning, by its `config.toml`."""
    return int(tree["sft"]["steps"]) + int(tree["run"]["steps"])


def read_step(path: Path) -> list[Episode]:
    """The episodes of a step.

    Raises:
        ValueError: The file holds none.
    """
    if played := episode_files.read_episodes(path):
        return played
    raise ValueError("it has no episodes")


def read_credit(path: Path, turns: int) -> NDArray[np.float64]:
    """The advantage of each of so many turns.

    Raises:
        ValueError: The file holds something else.
    """
    credit: NDArray[np.float64] = np.load(path, allow_pickle=False)
    if credit.shape != (turns,) or credit.dtype.kind != "f" or not np.isfinite(credit).all():
        raise ValueError(f"it needs {turns} finite numbers, one for each turn")
    return credit


def read_truth(ranking: Path) -> dict[str, Any]:
    """What `agent-envs truth` found of the run's policy, beside its table.

    Raises:
        ValueError: A file is damaged.
    """
    return {
        "about": read_json(ranking.with_name("truth.json"), TruthRecord),
        "table": ranking.read_text(encoding="utf-8"),
        "ranking": ranking.with_name("ranking.svg").read_text(encoding="utf-8"),
        "episode": ranking.with_name("episode.svg").read_text(encoding="utf-8"),
    }


def read_ladder(path: Path, *, env: str, split: str) -> LadderRecord:
    """The ladder that is drawn below the run's learning curve.

    Raises:
        ValueError: The file is damaged, or of another environment or split than the evaluations.
    """
    found = read_json(path, LadderRecord)
    if (found.env, found.split) != (env, split):
        raise ValueError(
            f"{path} is of {found.env}, split {found.split}, and the run is evaluated on {env}, "
            f"split {split}: make it by `agent-envs audit {env} split={split} --ladder --json`"
        )
    return found
