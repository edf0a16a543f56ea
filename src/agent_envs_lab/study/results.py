"""Results of a study: success of the last evaluation, with intervals and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_envs_lab.study.runs import StudyError, read_log, run_folder
from trainer.run.run_folder import RunFolder, read_config, total_steps

if TYPE_CHECKING:
    from agent_envs.evaluation import Evaluation

BASELINE = "grpo"
"""The method of every study that the others are compared with."""
SMOOTH = 5
"""Steps of the running mean of values in training."""
_DRAWS = 10_000


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
    run = RunFolder(folder)
    found = run.read_evaluations()
    if run.damaged:
        raise StudyError(f"{run.damaged[0]}; delete it and start the study again, or restore it")
    if not found or found[-1][0] < total_steps(read_config(folder)[1]):
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
    logs = [read_log(out, method, seed) for seed in range(len(pairs))]
    reached = [samples_to(log, level) for log in logs]
    return Result(
        method=method,
        seeds=len(pairs),
        start=float(first.mean()),
        success=float(last.mean()),
        low=low,
        high=high,
        gain_p=compare_pairs(last, first),
        versus=0.0 if other is None else float(last.mean() - other.mean()),
        versus_p=None if other is None else compare_pairs(last, other),
        valid=float(np.mean([end.valid for _, end in pairs])),
        turns=float(np.mean(solved)) if solved else None,
        repeated=float(np.mean([end.repeated for _, end in pairs])),
        episodes=None if None in reached else float(np.mean([x for x in reached if x])),
        seconds=float(np.mean([_seconds(log) for log in logs])),
    )


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


def compare_pairs(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
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
    for end in range(SMOOTH, len(steps) + 1):
        if np.mean([line["success"] for line in steps[end - SMOOTH : end]]) >= level:
            return float(played[end - 1])
    return None


def _seconds(log: Sequence[dict[str, Any]]) -> float:
    return float(sum(line.get("seconds") or 0.0 for line in log if line["stage"] == "rl"))
