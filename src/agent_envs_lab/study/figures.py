"""The figure of a study: methods by held-out success, and small multiples of training.

Every method has a small figure of its own with the baseline behind it, so that many methods can be
told apart without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.cli.figures import (
    DOWN,
    HELD,
    INK,
    MAIN,
    OTHER,
    PAPER,
    SOFT,
    STYLE,
    UP,
    render,
    strip_axes,
)
from agent_envs_lab.study.results import BASELINE, SMOOTH
from agent_envs_lab.study.runs import StudyError, check_curve, read_log
from trainer.run.curves import name_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from agent_envs_lab.study.results import Result

_WIDTH, _COLUMNS = 6.4, 4
_SIGNIFICANT = 0.05
_THOUSAND = 1000
Curves = dict[str, tuple["NDArray[np.float64]", "NDArray[np.float64]"]]
"""Method -> rollouts [L], and a value as means of 5 steps of each seed [S, L]."""


def figure(results: Sequence[Result], out: Path, seeds: int, curve: str) -> str:
    """Held-out success, and success and `curve` in training over rollouts, as SVG.

    Bands are the range of the seeds.

    Raises:
        StudyError: The runs did not log `curve`.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Made
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ranked = sorted(results, key=lambda r: r.success)
    keys = list(dict.fromkeys(["success", curve]))
    rows = ceil(len(ranked) / _COLUMNS)
    heights = [0.25 * len(ranked) + 1.15, *[1.05 * rows + 0.75] * len(keys)]
    with mpl.rc_context(STYLE):
        margins = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07)
        page = Made(figsize=(_WIDTH, sum(heights)), layout=margins)
        parts: Any = page.subfigures(len(heights), 1, height_ratios=heights)
        _dots(parts[0], ranked)
        for part, key in zip(parts[1:], keys, strict=True):
            found = {
                r.method: _curves([read_log(out, r.method, n) for n in range(seeds)], key)
                for r in reversed(ranked)
            }
            _multiples(part, found, key)
        label = ", ".join(f"{r.method} {r.success:.1%}" for r in reversed(ranked))
        return render(page, f"Held-out success by method: {label}")


def _dots(part: SubFigure, ranked: Sequence[Result]) -> None:
    """Methods by held-out success with 95% intervals, the best on top."""
    axes = part.subplots()
    strip_axes(axes, "x")
    for row, result in enumerate(ranked):
        colour = _colour(result)
        axes.plot([result.low, result.high], [row, row], color=colour, linewidth=1.6)
        hollow = result.method == BASELINE
        axes.plot(
            result.success, row, "o", color=colour, markersize=6, markeredgewidth=1.6,
            markerfacecolor=PAPER if hollow else colour,
        )  # fmt: skip
        axes.plot(result.start, row, "|", color=HELD, markersize=9, markeredgewidth=1.6)
    base = next((r.success for r in ranked if r.method == BASELINE), None)
    if base is not None:
        axes.axvline(base, color=OTHER, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    rows = range(len(ranked))
    axes.set_yticks(rows, [result.method for result in ranked], color=INK)
    axes.set_ylim(-0.6, len(ranked) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    values = axes.secondary_yaxis("right")
    values.set_yticks(rows, [f"{result.success:.1%}" for result in ranked], color=INK)
    values.tick_params(length=0)
    values.spines["right"].set_visible(False)
    _title(part, "Held-out success, 95% interval")
    compared = (
        f"○ and dashed line: {BASELINE}. Green: above it, purple: below it "
        f"(p < {_SIGNIFICANT}, not corrected).\n"
    )
    axes.set_xlabel(f"{compared if base is not None else ''}Orange: before training.", fontsize=8.5)


def _colour(result: Result) -> str:
    if result.versus_p is None or result.versus_p >= _SIGNIFICANT:
        return MAIN
    return UP if result.versus > 0 else DOWN


def _multiples(part: SubFigure, found: Curves, key: str) -> None:
    """One small figure for each method, all with the same axes and the baseline behind."""
    rows = ceil(len(found) / _COLUMNS)
    grid = part.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)
    cells: list[Axes] = grid.ravel().tolist()
    for axes, (method, (played, seeds)) in zip(cells, found.items(), strict=False):
        strip_axes(axes)
        if BASELINE in found and method != BASELINE:
            behind, base = found[BASELINE]
            axes.plot(behind, base.mean(0), color=OTHER, linewidth=1, linestyle=(0, (4, 3)))
        axes.fill_between(played, seeds.min(0), seeds.max(0), color=MAIN, alpha=0.18, linewidth=0)
        axes.plot(played, seeds.mean(0), color=MAIN, linewidth=1.6)
        axes.set_title(method, loc="left", fontsize=9, color=INK, pad=3)
        axes.tick_params(labelsize=8)
    for number, axes in enumerate(cells):
        if number >= len(found):
            axes.set_visible(False)
        elif number + _COLUMNS >= len(found):
            axes.tick_params(labelbottom=True)
    top = cells[0]
    top.xaxis.set_major_locator(_few(3))
    top.yaxis.set_major_locator(_few(3))
    top.xaxis.set_major_formatter(lambda value, _: _thousands(value))
    if all(seeds.min() >= 0 and seeds.max() <= 1 for _, seeds in found.values()):
        top.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    _title(part, f"{name_value(key)} in training, mean of {SMOOTH} steps")
    dashed = f" Dashed: {BASELINE}." if BASELINE in found else ""
    part.supxlabel(f"rollouts. Band: range of the seeds.{dashed}", fontsize=8.5, color=SOFT)


def _few(count: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(count)


def _thousands(value: float) -> str:
    return f"{value / _THOUSAND:g}k" if value >= _THOUSAND else f"{value:g}"


def _title(part: SubFigure | Figure, text: str) -> None:
    part.suptitle(text, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)


def _curves(
    logs: Sequence[Sequence[dict[str, Any]]], key: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rollouts [L] and the logged value `key` of S seeds as means of 5 steps, [S, L]."""
    steps = [[line for line in log if line["stage"] == "rl"] for log in logs]
    check_curve(logs[0], key)
    if len({len(log) for log in steps}) > 1 or any(
        line.get(key) is None for x in steps for line in x
    ):
        raise StudyError(
            f"the logs of a method's seeds lack steps, or values of {key!r}; restore them"
        )
    values = np.array([[line[key] for line in log] for log in steps], float)
    width = min(SMOOTH, values.shape[1])
    kernel = np.ones(width) / width
    smooth = np.array([np.convolve(row, kernel, mode="valid") for row in values])
    played = np.cumsum([line["episodes"] for line in steps[0]], dtype=float)
    return played[width - 1 :], smooth
