"""The files of a run folder, read for people: what is damaged is left out and named."""

from __future__ import annotations

import json
import os
import re
import tomllib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agent_envs.imports import message_of
from trainer.play import episode_files as recorded
from trainer.run import evaluate, metrics
from trainer.run.metrics import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from trainer.play.records import Episode
    from trainer.run.evaluate import Evaluation

_Read = TypeVar("_Read")
_STEP = re.compile("[0-9]{1,15}")
_NEEDED = (
    *("name", "about", "env.id", "policy.model", "credit.name", "run.seed", "run.steps"),
    *("sft.steps", "sampling.decode"),
)
"""Options that every version's `config.toml` has."""
_FAILURE = {
    "step": int, "part": str, "task_id": str, "turn": int, "error": str, "traceback": str,
}  # fmt: skip
_ABOUT = {"turns": int, "groups": int, "reliability": float, "policy": str}
_UNREADABLE = (
    *(OSError, ValueError, TypeError, LookupError, EOFError, RecursionError, ArithmeticError),
    MemoryError,
)
"""What reading a damaged file, or one of another program, may raise."""


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
    if lacks := [key for key in _NEEDED if key not in options]:
        raise ValueError(f"{config} is incomplete: it lacks {', '.join(lacks[:3])}; restore it")
    for key in _NEEDED:
        kind = int if key.endswith(("steps", "seed")) else str
        if type(options[key]) is not kind:
            raise ValueError(f"{config} is damaged: {key}={options[key]!r:.60}; restore it")
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

    exists = os.path.lexists(folder)
    found, damaged = readable([folder] if exists else [], names)
    return (found[0][1] if found else []), damaged


def list_steps(folder: Path, ending: str) -> tuple[list[Path], list[str]]:
    """The files `step_N` of a folder, by increasing step; why it cannot be listed."""
    paths, damaged = list_files(folder, f"step_*{ending}")
    steps = {path: path.stem[5:] for path in paths}
    numbers = {path: int(step) for path, step in steps.items() if _STEP.fullmatch(step)}
    return sorted(numbers, key=numbers.__getitem__), damaged


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


def read_episodes(
    paths: Sequence[Path],
) -> tuple[Path | None, list[Episode], NDArray[np.float64] | None, list[str]]:
    """The first file that can be read, its episodes, the credit of each turn; what is damaged."""
    damaged: list[str] = []
    for path in paths:
        found, wrong = readable([path], recorded.read_episodes)
        damaged += wrong
        if found and not found[0][1]:
            damaged.append(f"{path} has no episodes")
        if found and (played := found[0][1]):
            credit, wrong = _credit(path, sum(len(episode.steps) for episode in played))
            return path, played, credit, damaged + wrong
    return None, [], None, damaged


def _credit(path: Path, turns: int) -> tuple[NDArray[np.float64] | None, list[str]]:
    """The credit of each turn of a file of episodes, None without; what is wrong with it."""
    saved = path.with_suffix(".npy")

    def read_credit(file: Path) -> NDArray[np.float64]:
        credit: NDArray[np.float64] = np.load(file, allow_pickle=False)
        if credit.shape != (turns,) or credit.dtype.kind != "f" or not np.isfinite(credit).all():
            raise ValueError(f"it needs {turns} finite numbers, one for each turn of {path.name}")
        return credit

    found, damaged = readable([saved] if os.path.lexists(saved) else [], read_credit)
    return (found[0][1] if found else None), damaged


def read_truth(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """What `agent-envs truth` found of the run's policy, None before; what is damaged."""
    ranking, hidden = list_files(folder, "ranking.txt")
    found, damaged = readable(ranking, _truth)
    return (found[0][1] if found else None), hidden + damaged


def _truth(ranking: Path) -> dict[str, Any]:
    from markupsafe import Markup

    drawn = {
        name: ranking.with_name(f"{name}.svg").read_text(encoding="utf-8")
        for name in ("ranking", "episode")
    }
    about = json.loads(ranking.with_name("truth.json").read_text(encoding="utf-8"))
    return {
        "about": _check_types(about, _ABOUT),
        "table": ranking.read_text(encoding="utf-8"),
        **{name: Markup(text[text.index("<svg") :]) for name, text in drawn.items()},  # noqa: S704
    }


def read_failures(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The failures of environments by increasing step, and which files are damaged."""

    def read_failure(path: Path) -> dict[str, Any]:
        return _check_types(json.loads(path.read_text(encoding="utf-8")), _FAILURE)

    paths, hidden = list_files(folder, "*.json")
    found, damaged = readable(paths, read_failure)
    return sorted((one for _, one in found), key=lambda one: one["step"]), hidden + damaged


def _check_types(tree: Any, kinds: dict[str, type]) -> dict[str, Any]:
    """The values of an object that have these types.

    Raises:
        ValueError: One is missing or has another type, or a number is not finite.
    """
    for name, kind in kinds.items():
        value = tree.get(name) if isinstance(tree, dict) else None
        fits = is_number(value) if kind is float else type(value) is kind
        if not fits:
            raise ValueError(f"{name} must be {kind.__name__}, got {value!r:.60}")
    return {name: tree[name] for name in kinds}


def read_warnings(path: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """(step, text) of each warning of a run, and what is damaged."""

    def check(line: dict[str, Any]) -> None:
        if type(line.get("step")) is not int or not isinstance(line.get("text"), str):
            raise ValueError(f"it needs a step and a text, got {line!r:.60}")

    found, damaged = readable([path], lambda file: metrics.read_log(file, check))
    return [(line["step"], line["text"]) for _, lines in found for line in lines], damaged
