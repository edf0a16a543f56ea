"""The files of a run folder, read for people: what is damaged is left out and named."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from trainer import episodes as recorded
from trainer import evaluate, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from trainer.episodes import Episode
    from trainer.evaluate import Evaluation

_Read = TypeVar("_Read")
_NEEDED = (
    *("name", "about", "env.id", "policy.model", "credit.name", "run.seed", "run.steps"),
    *("sft.steps", "sampling.decode"),
)
"""Options that every version's `config.toml` has."""
_FAILURE = ("step", "part", "task_id", "turn", "error", "traceback")


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
    except ValueError as error:  # not UTF-8, or not TOML
        raise ValueError(f"{config} is damaged: {error}; restore it") from error
    options = flat(tree)
    if lacks := [key for key in _NEEDED if key not in options]:
        raise ValueError(f"{config} is incomplete: it lacks {', '.join(lacks[:3])}; restore it")
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
        except (OSError, ValueError, TypeError, KeyError, EOFError, RecursionError) as error:
            said = " ".join(str(error).split())
            damaged.append(said if str(path) in said else f"{path} cannot be read ({said})")
    return found, damaged


def numbered(folder: Path, ending: str) -> list[Path]:
    """The files `step_N` of a folder, by increasing step."""
    found = [path for path in folder.glob(f"step_*{ending}") if path.stem[5:].isdecimal()]
    return sorted(found, key=lambda path: int(path.stem[5:]))


def read_evaluations(folder: Path) -> tuple[list[tuple[int, Evaluation]], list[str]]:
    """(step, evaluation) of a run folder by increasing step, and which files are damaged."""
    found, damaged = readable(numbered(folder / "eval", ".json"), evaluate.load)
    return [(int(path.stem[5:]), one) for path, one in found], damaged


def evaluations_of(folder: Path) -> list[tuple[int, Evaluation]]:
    """(step, evaluation) of a run folder by increasing step; damaged files are left out."""
    return read_evaluations(folder)[0]


def read_episodes(
    paths: Sequence[Path],
) -> tuple[Path | None, list[Episode], NDArray[np.float64] | None, list[str]]:
    """The first file that can be read, its episodes, the credit of each turn; what is damaged."""
    damaged: list[str] = []
    for path in paths:
        found, wrong = readable([path], recorded.read)
        damaged += wrong
        if found and (played := found[0][1]):
            credit, wrong = _credit(path, sum(len(episode.steps) for episode in played))
            return path, played, credit, damaged + wrong
    return None, [], None, damaged


def _credit(path: Path, turns: int) -> tuple[NDArray[np.float64] | None, list[str]]:
    """The credit of each turn of a file of episodes, None without; what is wrong with it."""
    saved = path.with_suffix(".npy")

    def read(file: Path) -> NDArray[np.float64]:
        credit: NDArray[np.float64] = np.load(file, allow_pickle=False)
        if credit.shape != (turns,) or credit.dtype.kind != "f" or not np.isfinite(credit).all():
            raise ValueError(f"it needs {turns} finite numbers, one for each turn of {path.name}")
        return credit

    found, damaged = readable([saved] if saved.is_file() else [], read)
    return (found[0][1] if found else None), damaged


def read_truth(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """What `agent-envs truth` found of the run's policy, None before; what is damaged."""
    ranking = folder / "ranking.txt"
    found, damaged = readable([ranking] if ranking.is_file() else [], _truth)
    return (found[0][1] if found else None), damaged


def _truth(ranking: Path) -> dict[str, Any]:
    from markupsafe import Markup

    drawn = {
        name: ranking.with_name(f"{name}.svg").read_text(encoding="utf-8")
        for name in ("ranking", "episode")
    }
    return {
        "about": json.loads(ranking.with_name("truth.json").read_text(encoding="utf-8")),
        "table": ranking.read_text(encoding="utf-8"),
        **{name: Markup(text[text.index("<svg") :]) for name, text in drawn.items()},  # noqa: S704
    }


def read_failures(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The failures of environments by increasing step, and which files are damaged."""

    def read(path: Path) -> dict[str, Any]:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return {name: tree[name] for name in _FAILURE} | {"step": int(tree["step"])}

    found, damaged = readable(sorted(folder.glob("*.json")), read)
    return sorted((one for _, one in found), key=lambda one: one["step"]), damaged


def read_warnings(path: Path) -> tuple[list[tuple[int, str]], list[str]]:
    """(step, text) of each warning of a run, and what is damaged."""

    def check(line: dict[str, Any]) -> None:
        if not isinstance(line.get("step"), int) or not isinstance(line.get("text"), str):
            raise ValueError(f"it needs a step and a text, got {line!r:.60}")  # noqa: TRY004

    found, damaged = readable([path], lambda file: metrics.read(file, check))
    return [(line["step"], line["text"]) for _, lines in found for line in lines], damaged
