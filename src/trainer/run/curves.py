"""The figures of a report, as SVG files whose colours follow the reader's light or dark.

A figure is drawn by matplotlib in the light colours, under `STYLE`. In the SVG each of them becomes
a CSS variable of the same name (`PALETTE`).
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from agent_envs.evaluation import Evaluation
    from trainer.play.records import Episode

INK, SOFT, LINE, PAPER = "#1d2939", "#5d677a", "#e2e5ea", "#ffffff"
MAIN, HELD, OTHER = "#2b5797", "#b93c0a", "#7d8798"
UP, DOWN = "#1b7837", "#762a83"  # ColorBrewer PRGn, colour-blind safe
PALETTE = {
    "ink": (INK, "#e6e9ef"),
    "soft": (SOFT, "#a3adbd"),
    "line": (LINE, "#333c4c"),
    "paper": (PAPER, "#171c26"),
    "main": (MAIN, "#8ab4f8"),
    "held": (HELD, "#ff9d5c"),
    "other": (OTHER, "#8c96a8"),
    "up": (UP, "#63c184"),
    "down": (DOWN, "#cf9ae6"),
}
"""CSS variable -> its colour in light and in dark; the light one is what figures are drawn in."""
STYLE: Any = {  # text stays text, and the same figure gives the same bytes
    "svg.fonttype": "none",
    "svg.hashsalt": "agent-envs",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.linewidth": 0.8,
    "legend.labelcolor": INK,
}
"""Settings of matplotlib under which a figure has to be made and written."""
_WINDOW = 5  # steps of the running mean of a long curve
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
_UNDRAWN = {
    *("step", "stage", "time", "success", "episodes", "tokens", "skipped", "kl_coefficient"),
    *("learning_rate", "eval_success", "eval_valid", "eval_return"),
}


def draw_values(lines: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Title, last value and figure of each logged value, and of the loss of the warm start."""
    keys = dict.fromkeys(key for line in lines if line.get("stage") == "rl" for key in line)
    made = []
    for stage, key in [("sft", "loss"), *(("rl", key) for key in keys if key not in _UNDRAWN)]:
        if points := _list_points(lines, stage, key):
            title = f"Warm start: {key}" if stage == "sft" else name_value(key)
            last = f"{points[-1][1]:,.3g}"
            made.append((title, last, _draw_value(points, f"{title}: {last} at the end")))
    return made


def name_value(key: str) -> str:
    """The title of a logged value."""
    return TITLES.get(key, key.replace("_", " ").capitalize())


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
    lines: Sequence[dict[str, Any]], evaluations: Sequence[tuple[int, Evaluation]]
) -> str | None:
    """Success over the steps, in training and on the panel; None if nothing was logged."""
    points = _list_points(lines, "rl", "success")
    if not points and not evaluations:
        return None
    figure, axes = _make_axes(4.6, 2.4)
    if points:
        steps, rates = np.array(points, float).T
        axes.plot(steps, _smooth(rates), color=MAIN, marker=".", label="training rollouts")
    if evaluations:
        held = [evaluation.overall for _, evaluation in evaluations]
        axes.errorbar(
            [step for step, _ in evaluations],
            [x.rate for x in held],
            yerr=[[x.rate - x.low for x in held], [x.high - x.rate for x in held]],
            color=HELD, marker="o", markersize=5, capsize=3, linewidth=1.2,
            label=f"evaluation: {evaluations[0][1].split}",
        )  # fmt: skip
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


def strip_axes(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Axes without a box, with a grid along `grid` behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3, width=0.8)


def render(figure: Figure, label: str) -> str:
    """A whole SVG file that carries its own light and dark colours and its background.

    `label` describes the figure to readers who do not see it.
    """
    import matplotlib as mpl

    figure.set_facecolor(PAPER)
    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="svg", metadata=nothing)
    names = {colours[0]: f"var(--{name})" for name, colours in PALETTE.items()}
    colour = re.compile("|".join(names))
    drawn = re.sub(
        r'style="[^"]*"',
        lambda style: colour.sub(lambda found: names[found[0]], style[0]),
        stream.getvalue(),
    )
    head, start, rest = drawn.partition("<svg ")
    tag, _, body = rest.partition(">")
    named = f'role="img" aria-label="{escape(label)}" '
    return f"{head}{start}{named}{tag}>\n<style>{write_palette('svg')}</style>{body}"


def embed(drawn: str) -> str:
    """The address of an SVG as an image of a page, where it can neither run nor load anything."""
    return f"data:image/svg+xml;base64,{b64encode(drawn.encode()).decode()}"


def write_palette(selector: str) -> str:
    """CSS that sets the variables of `PALETTE` on a selector, for light and for dark."""
    light, dark = (
        "".join(f"--{name}:{colours[shade]};" for name, colours in PALETTE.items())
        for shade in (0, 1)
    )
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
