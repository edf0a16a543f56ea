"""The curves of a table: a small figure for each value and environment, a line for each row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.cli.figures import INK, PALETTE, SOFT, STYLE, render, strip_axes
from agent_envs_lab.papers.runs import describe_state, find_folder, load_recipe
from trainer.run.curves import name_value
from trainer.run.metrics import read_log
from trainer.run.run_folder import RunFolder

if TYPE_CHECKING:
    from agent_envs_lab.papers import Run, Spec, Table

_NAMED = [PALETTE[name][0] for name in ("main", "held", "up", "down", "other")]
_COLOURS = (*_NAMED, "#b58900", "#0891b2", "#be185d")
Curve = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
"""Steps or hours [L], and the value of each seed there [S, L]."""


def draw_curves(table: Table, out: Path, seeds: int) -> str:
    """The curves of finished runs as SVG; "" if the table has none or no run has finished.

    Values are means over the last steps, `Spec.window`; bands are the range of the seeds. Where no
    run has a value, its place says so.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    places: dict[str, list[tuple[str, Run]]] = {}
    for label, column in zip(table.spec.columns, zip(*table.cells, strict=True), strict=True):
        runs = [(cell.row.label, cell.run) for cell in column if cell.run]
        environments = {run.name.partition("-")[0] for _, run in runs}
        places.setdefault(" ".join(sorted(environments)) or label, runs)
    found = {
        (key, place): _read_place(runs, key, table.spec, out, seeds)
        for key, (place, runs) in product(table.spec.curves, places.items())
    }
    keys = [key for key in table.spec.curves if any(any(found[key, place]) for place in places)]
    if not keys:
        return ""
    with mpl.rc_context(STYLE):
        width = max(1, len(places))
        figure = Figure(figsize=(4.2 * width, 2.6 * len(keys) + 0.4), layout="constrained")
        grid: Any = figure.subplots(len(keys), width, squeeze=False)
        for row, key in zip(grid, keys, strict=True):
            for axes, place in zip(row, places, strict=True):
                _draw(axes, *found[key, place], f"{place}: {_name(key)}")
        for axes in grid[-1]:
            axes.set_xlabel(table.spec.over, color=SOFT)
        names = list(dict.fromkeys(label for curves, _ in found.values() for label in curves))
        return render(figure, f"{table.paper} {table.name}: {', '.join(names)}")


def _name(key: str) -> str:
    name = name_value(key.removeprefix("eval."))
    return f"{name}, evaluation" if key.startswith("eval.") else name


def _draw(axes: Any, curves: dict[str, Curve], lack: str, title: str) -> None:
    strip_axes(axes)
    if not curves:
        axes.set_axis_off()
        axes.text(0, 0.5, fill(lack, 40), fontsize=7, color=SOFT)
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    for number, (label, (at, values)) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        style = ("-", "--")[number // len(_COLOURS) % 2]  # of a table with many rows
        axes.plot(at, values.mean(0), style, color=colour, linewidth=1.5, label=label)
        if len(values) > 1:
            axes.fill_between(
                at, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0
            )
    if curves:
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _read_place(
    runs: Sequence[tuple[str, Run]], key: str, spec: Spec, out: Path, seeds: int
) -> tuple[dict[str, Curve], str]:
    """The curves of a value by row, and why a row has none if its evaluations lack the value."""
    curves, lack = dict[str, Curve](), ""
    for label, run in runs:
        try:
            curve = _read_curve(run, key, spec, out, seeds)
        except KeyError as error:
            lack = f"{key}: {error.args[0]}"
        else:
            curves |= {label: curve} if curve else {}
    return curves, lack


def _read_curve(run: Run, key: str, spec: Spec, out: Path, seeds: int) -> Curve | None:
    """The curve of a value over the finished seeds, None if there is none.

    Raises:
        KeyError: The evaluations lack the measure.
    """
    curves = []
    for seed in range(seeds):
        folder = find_folder(out, run, seed)
        recipe = load_recipe(run, seed)
        if describe_state(folder, recipe):
            continue
        last = recipe.last_step  # the run may have gone on
        lines = [line for line in read_log(folder / "metrics.jsonl") if line["step"] <= last]
        hours = dict(
            zip(
                [line["step"] for line in lines],
                np.cumsum([line.get("seconds") or 0.0 for line in lines]) / 3600,
                strict=True,
            )
        )
        if key.startswith("eval."):
            evaluations = RunFolder(folder).read_evaluations()
            points = [
                (step, one.read_measure(key.removeprefix("eval.")).mean())
                for step, one in evaluations
                if step <= last
            ]
        else:
            points = [
                (line["step"], line[key])
                for line in lines
                if line["stage"] == "rl" and line.get(key) is not None
            ]
        points = average_points(points, spec.window)
        if points:
            hourly = spec.over == "hours"
            curves.append({s: (hours.get(s, 0.0) if hourly else s, v) for s, v in points})
    shared = sorted(set.intersection(*map(set, curves))) if curves else []  # steps of all seeds
    if not shared:
        return None
    table = np.array([[one[step] for step in shared] for one in curves], float)  # [S, L, 2]
    return table[:, :, 0].mean(0), table[:, :, 1]


def average_points(points: list[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """Means of the values of the last `window` steps up to each point; evaluations have few."""
    return [
        (step, float(np.mean([value for at, value in points[: n + 1] if at > step - window])))
        for n, (step, _) in enumerate(points)
    ]
