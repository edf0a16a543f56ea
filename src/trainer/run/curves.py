"""The figures of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.cli.figures import DOWN, HELD, MAIN, SOFT, UP, render, strip_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from agent_envs.evaluation import Evaluation
    from trainer.play.records import Episode

_WINDOW = 5  # steps of the running mean of a long curve
_STILL = 1e-9  # of a value whose figure would show nothing
_TURNS = 60  # most turns of the figure of credit
TITLES = {
    "valid": "Valid turns",
    "turns": "Turns of an episode",
    "entropy": "Entropy of a token, nats",
    "truncated": "Episodes cut off",
    "dead_groups": "Groups with equal outcomes",
    "concentration": "Credit at the decisive turn",
    "failed": "Episodes that failed",
    "kl": "KL to the reference, nats",
    "approx_kl": "KL of the update, nats",
    "clip_fraction": "Tokens clipped",
    "grad_norm": "Norm of the gradient",
    "logprob_gap": "Gap of sampler and update, nats",
}
"""Titles of logged values that their names do not explain."""
_FIRST = ("valid", "return", "turns", "entropy", "dead_groups")
_SHARES = {
    *("valid", "dead_groups", "identical_groups", "truncated", "failed", "concentration"),
    *("clip_fraction", "p_retain", "skipped"),
}
_WHOLE = 100  # from which on a number is written without decimals
_UNDRAWN = {
    *("step", "stage", "time", "success", "episodes", "tokens", "skipped", "kl_coefficient"),
    *("learning_rate", "eval_success", "eval_valid", "eval_return"),
}


def draw_values(
    lines: Sequence[dict[str, Any]],
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Title, last value and figure of each logged value: what people look at, and the others.

    The figure of a value that does not change is "".
    """
    keys = dict.fromkeys(key for line in lines if line.get("stage") == "rl" for key in line)
    first = [key for key in _FIRST if key in keys]
    rest = [key for key in keys if key not in {*first, *_UNDRAWN}]
    return (
        _draw_all(lines, [("sft", "loss"), *(("rl", key) for key in first)]),
        _draw_all(lines, [("rl", key) for key in rest]),
    )


def _draw_all(
    lines: Sequence[dict[str, Any]], keys: Sequence[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    made = []
    for stage, key in keys:
        if points := _list_points(lines, stage, key):
            title = f"Warm start: {key}" if stage == "sft" else name_value(key)
            last = write_value(key, points[-1][1])
            values = [value for _, value in points]
            moves = max(values) - min(values) > _STILL
            drawn = _draw_value(points, f"{title}: {last} at the end") if moves else ""
            made.append((title, last, drawn))
    return made


def write_value(key: str, value: float) -> str:
    """A logged value as people write it: 82%, 4,420 or 0.0123."""
    if key in _SHARES or key.startswith("success/"):
        return f"{value:.0%}"
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"


def name_value(key: str) -> str:
    """The title of a logged value."""
    name = key.replace("_", " ").replace("success/", "success, ")
    return TITLES.get(key, name[:1].upper() + name[1:])


def _list_points(lines: Sequence[dict[str, Any]], stage: str, key: str) -> list[tuple[int, float]]:
    """(step, value) of the lines of a stage that have the value."""
    return [
        (line["step"], line[key])
        for line in lines
        if line.get("stage") == stage and line.get(key) is not None
    ]


def _draw_value(points: Sequence[tuple[int, float]], label: str) -> str:
    figure, axes = _make_axes(3.4, 1.45)
    steps, values = np.array(points, float).T
    axes.plot(steps, values, color=MAIN, alpha=0.35, linewidth=0.9)
    smooth = _smooth(values)
    axes.plot(steps, smooth, color=MAIN, linewidth=1.6)
    axes.plot(steps[-1], smooth[-1], "o", color=MAIN, markersize=4)
    return render(figure, label)


def draw_success(
    lines: Sequence[dict[str, Any]],
    evaluations: Sequence[tuple[int, Evaluation]],
    levels: Mapping[str, float],
) -> str | None:
    """Success over the steps, in training and on the panel; None if nothing was logged.

    `levels` are drawn as horizontal lines: successes by name, such as those of the ladder.
    """
    points = _list_points(lines, "rl", "success")
    if not points and not evaluations:
        return None
    figure, axes = _make_axes(4.6, 2.4)
    if points:
        steps, rates = np.array(points, float).T
        axes.plot(steps, _smooth(rates), color=MAIN, marker=".", label="training rollouts")
    warm = points[0][0] - 1 if points else 0
    untrained = [one.overall.share for step, one in evaluations if points and step < warm]
    if untrained:
        axes.axhline(untrained[0], color=HELD, linestyle=":", label="before the warm start")
    if later := evaluations[len(untrained) :]:
        held = [evaluation.overall for _, evaluation in later]
        axes.errorbar(
            [step for step, _ in later],
            [x.share for x in held],
            yerr=[[x.share - x.low for x in held], [x.high - x.share for x in held]],
            color=HELD, marker="o", markersize=5, capsize=3, linewidth=1.2,
            label=f"evaluation: {later[0][1].split}",
        )  # fmt: skip
    for (name, level), style in zip(levels.items(), ("--", "-."), strict=False):
        axes.axhline(level, color=SOFT, linestyle=style, linewidth=1, label=name)
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("step")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return render(figure, "Success over the steps of the run")


def draw_credit(played: Sequence[Episode], credit: Sequence[NDArray[np.float64]]) -> str:
    """Mean credit at each turn index, of successes and of failures; bands are quartiles.

    `credit` has the values of each episode.
    """
    figure, axes = _make_axes(4.6, 2.1)
    for success, colour, name in ((True, UP, "successes"), (False, DOWN, "failures")):
        chosen = [x for x, one in zip(credit, played, strict=True) if one.success == success]
        if chosen:
            table = np.array([*zip_longest(*chosen, fillvalue=np.nan)])[:_TURNS]
            turns, label = range(1, len(table) + 1), f"{len(chosen)} {name}"
            low, high = np.nanquantile(table, (0.25, 0.75), axis=1)
            axes.fill_between(turns, low, high, color=colour, alpha=0.18, linewidth=0)
            means = np.nanmean(table, axis=1)
            axes.plot(turns, means, color=colour, marker="o", markersize=3.5, label=label)
    axes.axhline(0, color=SOFT, linewidth=0.8)
    axes.set_xlabel("turn of the episode")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return render(figure, "Mean credit by turn of the episode, of successes and of failures")


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each value and the few before it; short curves stay as they are: [S] -> [S]."""
    window = max(1, min(_WINDOW, len(values) // 4))
    return np.array(
        [values[max(0, end - window) : end].mean() for end in range(1, len(values) + 1)]
    )


def _make_axes(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    strip_axes(axes)
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.locator_params(axis="y", nbins=4)
    return figure, axes
