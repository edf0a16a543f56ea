"""A study: several methods with several seeds and equal budgets; one table and one figure.

Every run is an ordinary run folder, `OUT/METHOD/seed_N`, of the recipe `OUT/METHOD/recipe.toml`. A
study that was stopped continues when it is started again. Success is that of the last evaluation.
Left out: a search over options.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.panels import nearest
from trainer import metrics
from trainer import recipe as recipes
from trainer import recipes as shipped
from trainer.checkpoint import write_text
from trainer.report.records import evaluations_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.table import Table

    from trainer.evaluate import Evaluation

BASELINE = "grpo"
"""The method of every study that the others are compared with."""
_CLI = "from trainer.cli import main; main()"
_DRAWS, _SMOOTH = 10_000, 5


class StudyError(ValueError):
    """A run of the study failed; the message names it and its log."""


@dataclass(frozen=True)
class Result:
    """Results of a method over its S seeds and the T tasks of the panel.

    Attributes:
        method: Name of the recipe within its study.
        seeds: S.
        start: Mean success before reinforcement learning.
        success: Mean success after it.
        low: Lower end of its 95% bootstrap interval over seeds and tasks.
        high: Upper end of the interval.
        gain_p: p of the paired test of end against start.
        versus: Success minus that of the baseline with the same seeds.
        versus_p: p of the paired test against the baseline, None for the baseline.
        valid: Share of valid turns.
        turns: Mean turns of a solved task, None if none was solved.
        repeated: Share of turns that repeat an earlier action of the episode.
        episodes: Mean rollouts until success in training, as mean of 5 steps, reached the level;
            None if a seed did not reach it.
        seconds: Mean duration of the training steps of a run, in seconds.
    """

    method: str
    seeds: int
    start: float
    success: float
    low: float
    high: float
    gain_p: float
    versus: float
    versus_p: float | None
    valid: float
    turns: float | None
    repeated: float
    episodes: float | None
    seconds: float


def run(
    name: str,
    methods: Sequence[str],
    seeds: int,
    out: Path,
    options: Sequence[str],
    *,
    jobs: int = 1,
    curve: str = "",
) -> None:
    """Train methods of the study `name` with seeds 0 to seeds - 1; finished runs are kept.

    `jobs` runs are trained at the same time. No run is started once one has not logged `curve`.

    Raises:
        StudyError: A run failed, raised after all runs have ended; or a run did not log `curve`.
        RecipeError: The study, a method or an option is unknown.
    """
    todo = [(method, seed) for seed in range(seeds) for method in methods]

    def check() -> None:
        for method, seed in todo:
            _check_curve(_log(out, method, seed), curve)

    def one(job: tuple[str, int]) -> str:
        check()
        return _one(*job, out, options)

    check()
    for method in methods:
        _write_recipe(name, method, out, options)
    with ThreadPoolExecutor(jobs) as pool:
        logs = list(pool.map(one, todo))
    if failed := [log for log in logs if log]:
        raise StudyError(f"{len(failed)} of {len(todo)} runs failed; see {', '.join(failed)}")


def _one(method: str, seed: int, out: Path, options: Sequence[str]) -> str:
    """Train one run in a process of its own; the path of its log if it failed, else ""."""
    folder = run_folder(out, method, seed)
    folder.mkdir(parents=True, exist_ok=True)
    log, recipe = folder / "log.txt", out / method / "recipe.toml"
    command = [sys.executable, "-c", _CLI, "train", str(recipe), *options, f"run.seed={seed}"]
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [*command, "--out", str(folder), "--resume"], stdout=file, stderr=file, check=False
        )
    return str(log) if done.returncode else ""


def _write_recipe(name: str, method: str, out: Path, options: Sequence[str]) -> None:
    known = shipped.study(name)
    if method not in known:
        raise shipped.RecipeError(
            f"study {name} has no method {method!r}{nearest(method, known)}; {', '.join(known)}"
        )
    recipes.load(known[method], options)
    path = out / method / "recipe.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    recipes.save(recipes.load(known[method]), path)


def run_folder(out: Path, method: str, seed: int) -> Path:
    """Folder of a run of the study."""
    return out / method / f"seed_{seed}"


def collect(methods: Sequence[str], seeds: int, out: Path, *, level: float) -> list[Result]:
    """Results of finished runs.

    Raises:
        StudyError: A run is not finished, or runs were evaluated on different panels.
    """
    ends = {
        method: [_evaluations(run_folder(out, method, seed)) for seed in range(seeds)]
        for method in methods
    }
    panels = {end.panel_hash for pairs in ends.values() for pair in pairs for end in pair}
    if len(panels) > 1:
        raise StudyError(f"the runs in {out} were evaluated on {len(panels)} different panels")
    base = ends.get(BASELINE)
    return [
        _result(method, pairs, base if method != BASELINE else None, out, level)
        for method, pairs in ends.items()
    ]


def _evaluations(folder: Path) -> tuple[Evaluation, Evaluation]:
    found = evaluations_of(folder)
    chosen = recipes.load(folder) if (folder / "config.toml").is_file() else None
    if chosen is None or not found or found[-1][0] < chosen.sft.steps + chosen.run.steps:
        raise StudyError(f"{folder} is not finished; start the study again to continue it")
    return found[0][1], found[-1][1]


def _result(
    method: str,
    pairs: Sequence[tuple[Evaluation, Evaluation]],
    base: Sequence[tuple[Evaluation, Evaluation]] | None,
    out: Path,
    level: float,
) -> Result:
    first, last = (np.array([pair[i].success for pair in pairs], float) for i in (0, 1))
    low, high = interval(last)
    other = None if base is None else np.array([end.success for _, end in base], float)
    solved = [t for _, end in pairs for t, ok in zip(end.turns, end.success, strict=True) if ok]
    logs = [_log(out, method, seed) for seed in range(len(pairs))]
    reached = [samples_to(log, level) for log in logs]
    return Result(
        method=method,
        seeds=len(pairs),
        start=float(first.mean()),
        success=float(last.mean()),
        low=low,
        high=high,
        gain_p=paired(last, first),
        versus=0.0 if other is None else float(last.mean() - other.mean()),
        versus_p=None if other is None else paired(last, other),
        valid=float(np.mean([end.valid for _, end in pairs])),
        turns=float(np.mean(solved)) if solved else None,
        repeated=float(np.mean([end.repeated for _, end in pairs])),
        episodes=None if None in reached else float(np.mean([x for x in reached if x])),
        seconds=float(np.mean([_seconds(log) for log in logs])),
    )


def _log(out: Path, method: str, seed: int) -> list[dict[str, Any]]:
    return metrics.read(run_folder(out, method, seed) / "metrics.jsonl")


def interval(success: NDArray[np.float64]) -> tuple[float, float]:
    """95% bootstrap interval of the mean of successes [S, T], over seeds and over tasks."""
    rng = np.random.default_rng(0)
    seeds, tasks = success.shape
    means = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        rows = rng.integers(seeds, size=seeds)
        columns = rng.integers(tasks, size=tasks)
        means[draw] = success[np.ix_(rows, columns)].mean()
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def paired(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """P of a two-sided sign-flip test of two tables [S, T], paired by task over means of seeds."""
    from scipy.stats import permutation_test

    means = one.mean(0), other.mean(0)
    if np.array_equal(*means):
        return 1.0
    test = permutation_test(
        means,
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=_DRAWS,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def samples_to(log: Sequence[dict[str, Any]], level: float) -> float | None:
    """Rollouts until the mean success of 5 steps reached the level, None if never."""
    steps = [line for line in log if line["stage"] == "rl"]
    played = np.cumsum([line["episodes"] for line in steps])
    for end in range(_SMOOTH, len(steps) + 1):
        if np.mean([line["success"] for line in steps[end - _SMOOTH : end]]) >= level:
            return float(played[end - 1])
    return None


def _seconds(log: Sequence[dict[str, Any]]) -> float:
    return float(sum(line["seconds"] for line in log if line["stage"] == "rl"))


def table(results: Sequence[Result], *, level: float) -> Table:
    """The results for a terminal, the best success first."""
    from rich.table import Table as Made

    made = Made(box=None, pad_edge=False)
    for name in _COLUMNS:
        made.add_column(name.format(level=f"{level:.0%}"), no_wrap=True)
    for line in _cells(results):
        made.add_row(*line)
    return made


def markdown(results: Sequence[Result], *, level: float) -> str:
    """The results as a Markdown table, the best success first."""
    head = [name.format(level=f"{level:.0%}") for name in _COLUMNS]
    lines = [head, ["---"] * len(head), *_cells(results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_COLUMNS = (
    "method",
    "start",
    "success",
    "p, gain",
    "to GRPO",
    "p",
    "valid",
    "turns",
    "repeated",
    "rollouts to {level}",
    "seconds",
)


def _cells(results: Sequence[Result]) -> list[list[str]]:
    return [
        [
            result.method,
            f"{result.start:.0%}",
            f"{result.success:.1%} [{100 * result.low:.0f}–{100 * result.high:.0f}%]",
            f"{result.gain_p:.2g}",
            "" if result.versus_p is None else f"{100 * result.versus:+.1f}",
            "" if result.versus_p is None else f"{result.versus_p:.2g}",
            f"{result.valid:.1%}",
            "–" if result.turns is None else f"{result.turns:.1f}",
            f"{result.repeated:.1%}",
            "–" if result.episodes is None else f"{result.episodes:,.0f}",
            f"{result.seconds:.0f}",
        ]
        for result in sorted(results, key=lambda r: -r.success)
    ]


def figure(results: Sequence[Result], out: Path, seeds: int, curve: str) -> Path:
    """Draw success and `curve` in training over rollouts, and held-out success, to `study.svg`.

    Bands are the range of the seeds.

    Raises:
        StudyError: The runs did not log `curve`.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    page = Figure(figsize=(15, 0.35 * len(results) + 3), layout="constrained")
    left, middle, right = page.subplots(1, 3)
    ranked = sorted(results, key=lambda r: r.success)
    for axes, key in ((left, "success"), (middle, curve)):
        axes.set_prop_cycle(color=colormaps["tab20"](range(20)))
        for result in reversed(ranked):
            played, curves = _curves([_log(out, result.method, n) for n in range(seeds)], key)
            (line,) = axes.plot(played, curves.mean(0), label=result.method)
            band = curves.min(0), curves.max(0)
            axes.fill_between(played, *band, color=line.get_color(), alpha=0.1)
        axes.set(xlabel="rollouts", ylabel=f"{key} in training, mean of 5 steps")
    left.legend(fontsize="x-small", ncols=2)
    places = np.arange(len(ranked))
    success = np.array([result.success for result in ranked])
    ends = np.array([[r.success - r.low for r in ranked], [r.high - r.success for r in ranked]])
    right.errorbar(success, places, xerr=ends, fmt="o", capsize=3)
    right.plot([r.start for r in ranked], places, "|", color="gray", markersize=12)
    right.set_yticks(places, [result.method for result in ranked])
    right.set(xlabel="held-out success, 95% interval; gray: before")
    path = out / "study.svg"
    page.savefig(path)
    return path


def _curves(
    logs: Sequence[Sequence[dict[str, Any]]], key: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rollouts [L] and the logged value `key` of S seeds as means of 5 steps, [S, L]."""
    steps = [[line for line in log if line["stage"] == "rl"] for log in logs]
    _check_curve(logs[0], key)
    values = np.array([[line[key] for line in log] for log in steps], float)
    width = min(_SMOOTH, values.shape[1])
    kernel = np.ones(width) / width
    smooth = np.array([np.convolve(row, kernel, mode="valid") for row in values])
    played = np.cumsum([line["episodes"] for line in steps[0]], dtype=float)
    return played[width - 1 :], smooth


def _check_curve(log: Sequence[dict[str, Any]], key: str) -> None:
    """Refuse a value that the steps of a run, if it has made one, did not log."""
    step = next((line for line in log if line["stage"] == "rl"), None)
    if key and step is not None and key not in step:
        known = ", ".join(name for name, value in step.items() if isinstance(value, float))
        raise StudyError(f"the runs logged no {key!r}; they logged {known}")


def save(results: Sequence[Result], out: Path, *, level: float, seeds: int, curve: str) -> None:
    """Write `study.json`, `study.md` and `study.svg`."""
    write_text(out / "study.json", json.dumps([asdict(result) for result in results], indent=1))
    write_text(out / "study.md", markdown(results, level=level))
    figure(results, out, seeds, curve)
