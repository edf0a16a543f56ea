"""The runs of a study: each an ordinary run folder, trained in a process of its own.

A study that was stopped continues when it is started again. Left out: a search over options.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from agent_envs.panels import nearest
from trainer import recipe as recipes
from trainer import recipes as shipped
from trainer.errors import RecipeError
from trainer.run import metrics

_STUDIES = Path(__file__).parent / "studies"
_CLI = "from agent_envs.cli import main; main()"


class StudyError(ValueError):
    """A run of the study failed; the message names it and its log."""


def list_studies() -> list[str]:
    """Names of the shipped studies."""
    return sorted(path.stem for path in _STUDIES.glob("*.toml"))


def read_study(name: str) -> dict[str, shipped.Composition]:
    """The recipes of a study by label: its environment and model with each of its methods.

    Raises:
        RecipeError: There is no such study.
    """
    if name not in (known := list_studies()):
        raise RecipeError(f"no study {name!r}{nearest(name, known)}; there are {', '.join(known)}")
    table = shipped.parse_file(_STUDIES / f"{name}.toml")
    parts = {axis: str(table.pop(axis)) for axis in ("environment", "model")}
    methods, _ = table.pop("methods"), table.pop("about")
    shared = shipped.make_part(f"study {name}", table)
    made = {}
    for label, own in methods.items():
        chosen = parts | {"method": str(own.pop("method"))}
        above = [shared, shipped.make_part(f"study {name}, {label}", own)]
        made[label] = shipped.layer_parts(chosen, above)._replace(name=f"{name}-{label}")
    return made


def run(
    name: str,
    methods: Sequence[str],
    seeds: int,
    out: Path,
    options: Sequence[str],
    *,
    jobs: int = 1,
    curve: str = "",
    track: Sequence[str] = (),
) -> None:
    """Train methods of the study `name` with seeds 0 to seeds - 1; finished runs are kept.

    `jobs` runs are trained at the same time. No run is started once one has not logged `curve`.
    `track` names libraries that get a copy of the logs.

    Raises:
        StudyError: A run failed, raised after all runs have ended; or a run did not log `curve`.
        RecipeError: The study, a method or an option is unknown.
    """
    todo = [(method, seed) for seed in range(seeds) for method in methods]

    def check() -> None:
        for method, seed in todo:
            check_curve(read_log(out, method, seed), curve)

    def one(job: tuple[str, int]) -> str:
        check()
        return _one(*job, out, [*options, *(f"--track={name}" for name in track)])

    check()
    for method in methods:
        _write_recipe(name, method, out, options)
    with ThreadPoolExecutor(jobs) as pool:
        logs = list(pool.map(one, todo))
    if failed := [log for log in logs if log]:
        raise StudyError(f"{len(failed)} of {len(todo)} runs failed; see {', '.join(failed)}")


def _one(method: str, seed: int, out: Path, arguments: Sequence[str]) -> str:
    """Train one run in a process of its own; the path of its log if it failed, else ""."""
    folder = run_folder(out, method, seed)
    folder.mkdir(parents=True, exist_ok=True)
    log, recipe = folder / "log.txt", out / method / "recipe.toml"
    command = [sys.executable, "-c", _CLI, "train", str(recipe), *arguments, f"run.seed={seed}"]
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [*command, "--out", str(folder), "--resume"], stdout=file, stderr=file, check=False
        )
    return str(log) if done.returncode else ""


def _write_recipe(name: str, method: str, out: Path, options: Sequence[str]) -> None:
    known = read_study(name)
    if method not in known:
        raise RecipeError(
            f"study {name} has no method {method!r}{nearest(method, known)}; {', '.join(known)}"
        )
    recipes.load(known[method], options)
    path = out / method / "recipe.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    recipes.save(recipes.load(known[method]), path)


def run_folder(out: Path, method: str, seed: int) -> Path:
    """Folder of a run of the study."""
    return out / method / f"seed_{seed}"


def read_log(out: Path, method: str, seed: int) -> list[dict[str, Any]]:
    """The log of a run of the study.

    Raises:
        MetricsError: A line is damaged, or a step has none of the values that are compared.
    """
    return metrics.read_log(run_folder(out, method, seed) / "metrics.jsonl", _Line)


class _Line(metrics.Line):
    """A line with the values that are compared."""

    @model_validator(mode="after")
    def _have_compared(self) -> Self:
        compared = ("stage", *(("success", "episodes") if self.stage == "rl" else ()))
        if lacks := [name for name in compared if getattr(self, name) in {None, ""}]:
            raise ValueError(f"it has no {', '.join(lacks)}")
        return self


def check_curve(log: Sequence[dict[str, Any]], key: str) -> None:
    """Refuse a value that the steps of a run, if it has made one, did not log.

    Raises:
        StudyError: They did not.
    """
    step = next((line for line in log if line["stage"] == "rl"), None)
    if key and step is not None and key not in step:
        known = ", ".join(name for name, value in step.items() if isinstance(value, float))
        raise StudyError(f"the runs logged no {key!r}; they logged {known}")
