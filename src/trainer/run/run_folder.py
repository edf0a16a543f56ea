"""The files of a run folder, read for people: what is damaged is left out and named."""

from __future__ import annotations

import os
import tomllib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import BaseModel

from agent_envs.imports import message_of
from trainer.play import episode_files
from trainer.run import evaluate, metrics
from trainer.run.checkpoint import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from trainer.play.records import Episode
    from trainer.run.evaluate import Evaluation

_Read = TypeVar("_Read")
_NEEDED = dict.fromkeys(
    ("name", "about", "env.id", "policy.model", "credit.name", "sampling.decode"), str
) | dict.fromkeys(("run.seed", "run.steps", "sft.steps"), int)
"""Options that every version's `config.toml` has, and their types."""
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
    options = flat(tree)
    wrong = [key for key, kind in _NEEDED.items() if type(options.get(key)) is not kind]
    if wrong:
        given = ", ".join(f"{key}={options.get(key)!r:.60}" for key in wrong[:3])
        raise ValueError(f"{config} is damaged or incomplete: {given}; restore it")
    return text, tree


def total_steps(tree: dict[str, Any]) -> int:
    """Steps of a run, warm start and reinforcement learning, by its `config.toml`."""
    return int(tree["sft"]["steps"]) + int(tree["run"]["steps"])


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= (
            flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return found


def readable(
    paths: Iterable[Path], read: Callable[[Path], _Read]
) -> tuple[list[tuple[Path, _Read]], list[str]]:
    """The files that can be read with their content, and what is wrong with the others."""
    found, damaged = [], []
    for path in paths:
        try:
            found.append((path, read(path)))
        except _UNREADABLE as error:
            of_system = isinstance(error, OSError) and error.strerror
            said = of_system or message_of(error) or type(error).__name__
            damaged.append(said if str(path) in said else f"{path} cannot be read ({said})")
    return found, damaged


def list_files(folder: Path, pattern: str) -> tuple[list[Path], list[str]]:
    """The paths of a folder with such names, in order; why it cannot be listed."""

    def names(place: Path) -> list[Path]:
        return sorted(path for path in place.iterdir() if fnmatchcase(path.name, pattern))

    found, damaged = readable([folder] if os.path.lexists(folder) else [], names)
    return (found[0][1] if found else []), damaged


def list_steps(folder: Path, ending: str) -> tuple[list[Path], list[str]]:
    """The files `step_N` of a folder, by increasing step; why it cannot be listed."""
    paths, damaged = list_files(folder, f"step_*{ending}")
    steps = {path: int(path.stem[5:]) for path in paths if path.stem[5:].isdecimal()}
    return sorted(steps, key=steps.__getitem__), damaged


def read_evaluations(folder: Path) -> tuple[list[tuple[int, Evaluation]], list[str]]:
    """(step, evaluation) of a run folder by increasing step, and which files are damaged."""
    paths, hidden = list_steps(folder / "eval", ".json")
    found, damaged = readable(paths, evaluate.load)
    return [(int(path.stem[5:]), one) for path, one in found], hidden + damaged


def evaluations_of(folder: Path) -> tuple[list[tuple[int, Evaluation]], list[str]]:
    """(step, evaluation) of the panel of the last one, and which files are damaged or of others."""
    found, damaged = read_evaluations(folder)
    kept = [
        (step, one)
        for step, one in found
        if (one.panel_hash, one.task_ids) == (found[-1][1].panel_hash, found[-1][1].task_ids)
    ]
    for step in dict(found).keys() - dict(kept).keys():
        damaged.append(f"{folder / 'eval' / f'step_{step}.json'} has another panel than the last")
    return kept, damaged


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


def read_warnings(path: Path) -> list[dict[str, Any]]:
    """Step and text of each warning of a run.

    Raises:
        MetricsError: A line is damaged.
    """
    return metrics.read_log(path, WarningRecord.model_validate)


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
