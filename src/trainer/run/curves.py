"""The figures of a report, each as an inline SVG whose colours follow the reader's light or dark.

A figure is drawn by matplotlib in the light colours, under `STYLE`. In the SVG each of them becomes
a CSS variable of the same name, which the page sets (`PALETTE`), or the file itself
(`render_standalone`).
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.run import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from trainer.play.records import Episode
    from trainer.run.evaluate import Evaluation

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
_SHARES = {
    *("valid", "dead_groups", "clip_fraction", "concentration", "failed", "truncated"),
    *("prm_accuracy", "dpo_accuracy"),
}
"""Values in [0, 1] that are shown in percent."""
PARTS = {
    "Rollouts": {
        "valid": "Valid turns",
        "return": "Return",
        "turns": "Turns of an episode",
        "reply_tokens": "Tokens of a reply",
        "entropy": "Entropy of a token, nats",
        "truncated": "Episodes cut off",
        "dead_groups": "Groups with equal outcomes",
        "concentration": "Credit at the decisive turn",
        "failed": "Episodes that failed",
    },
    "Update": {
        "kl": "KL to the reference, nats",
        "approx_kl": "KL of the update, nats",
        "clip_fraction": "Tokens clipped",
        "grad_norm": "Norm of the gradient",
        "loss": "Loss",
        "logprob_gap": "Gap of sampler and update, nats",
    },
    "Method": {
        "explained_variance": "Critic: explained variance",
        "prm_accuracy": "Implicit rewards: pair accuracy",
        "prm_kl": "Implicit rewards: KL to the policy, nats",
        "dpo_accuracy": "DPO: pair accuracy",
        "outliers": "STAPO: share of outlier turns",
        "alpha": "HAS: α",
        "turnrd_error": "TurnRD: squared error of the return, before training on the round",
        "turnrd_film_effect": "FiLM: change of the values if it is removed",
        "turnrd_shuffle_effect": "FiLM: increase of the error with shuffled goals",
        "turnrd_film_scale": "FiLM: norm of Δγ",
    },
    "Speed": {
        "tokens_per_second": "Tokens a second, sampling",
        "seconds": "Seconds of a step",
    },
}
"""Logged values that are drawn, by part of the page."""


@dataclass(frozen=True)
class Curve:
    """One small figure: its title, the last value in words, and the SVG."""

    title: str
    last: str
    drawn: str


def parts(lines: Sequence[dict[str, Any]]) -> dict[str, tuple[list[Curve], list[str]]]:
    """For each part of the page its curves, and in words the values that have not changed yet."""
    learning = [line for line in lines if line.get("stage") == "rl"]
    found = {}
    for part, known in PARTS.items():
        curves, constant = [], []
        for key, title in known.items():
            points = _points(learning, key)
            if len({value for _, value in points}) > 1:
                shown = _form(key)
                drawn = _curve(points, shown, title, share=key in _SHARES)
                curves.append(Curve(title, shown(points[-1][1]), drawn))
            elif points:
                constant.append(f"{title}: {_form(key)(points[0][1])}")
        found[part] = curves, constant
    warm = _points([line for line in lines if line.get("stage") == "sft"], "loss")
    if len(warm) > 1:
        title = "Warm start: loss"
        drawn = _curve(warm, _form("loss"), title, share=False)
        found["Update"][0].append(Curve(title, _form("loss")(warm[-1][1]), drawn))
    return {part: made for part, made in found.items() if any(made)}


def _points(lines: Sequence[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    """(step, value) of the lines that have the value."""
    return [(line["step"], line[key]) for line in lines if line.get(key) is not None]


def _form(key: str) -> Callable[[float], str]:
    if key in _SHARES:
        return lambda value: f"{value:.0%}" if value in {0, 1} else f"{value:.1%}"
    return lambda value: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004


def _figure(width: float, height: float, grid: str = "y") -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    strip_axes(axes, grid)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    return figure, axes


def success(
    lines: Sequence[dict[str, Any]], evaluations: Sequence[tuple[int, Evaluation]]
) -> str | None:
    """Success over the steps, in training and on the panel; None if nothing was logged."""
    figure, axes = _figure(4.6, 2.4)
    lines = [line for line in lines if line.get("stage") == "rl"]
    lines = [line for line in lines if line.get("success") is not None and line.get("episodes")]
    if not lines and not evaluations:
        return None
    if lines:
        steps = [line["step"] for line in lines]
        found = [
            evaluate.compute_wilson(round(x["success"] * x["episodes"]), x["episodes"])
            for x in lines
        ]
        low, high = [x.low for x in found], [x.high for x in found]
        axes.fill_between(steps, low, high, color=MAIN, alpha=0.15, linewidth=0)
        marker = "o" if len(steps) == 1 else ""  # a line needs two points
        rates = _smooth([x.rate for x in found])
        axes.plot(steps, rates, color=MAIN, marker=marker, label="training rollouts")
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
    return render_inline(figure, "Success over the steps of the run")


def _curve(
    points: Sequence[tuple[int, float]], shown: Callable[[float], str], title: str, *, share: bool
) -> str:
    steps, values = [step for step, _ in points], [value for _, value in points]
    figure, axes = _figure(3.4, 1.45)
    smooth = _smooth(values)
    if smooth != values:
        axes.plot(steps, values, color=MAIN, alpha=0.35, linewidth=0.9)
    axes.plot(steps, smooth, color=MAIN, linewidth=1.6)
    axes.plot(steps[-1], smooth[-1], "o", color=MAIN, markersize=4)
    if share:
        axes.set_ylim(-0.02 * max(values), 1.08 * max(values))
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    else:
        axes.yaxis.set_major_formatter(lambda value, _: shown(value))
    ends = [f"{shown(values[end])} at step {steps[end]}" for end in (0, -1)]
    return render_inline(figure, f"{title}: {', '.join(ends)}")


def types(evaluations: Sequence[tuple[int, Evaluation]]) -> str | None:
    """Success by type of task at the start and the end; None if there are no types."""
    if not evaluations or len(evaluations[-1][1].by_type) == 1:
        return None
    shown = [evaluations[0], evaluations[-1]][: len(evaluations)]
    kinds = list(shown[-1][1].by_type)[::-1]
    figure, axes = _figure(4.6, 0.9 + 0.42 * len(kinds), "x")
    for offset, colour, (step, evaluation) in zip(
        (0.14, -0.14), (OTHER, HELD)[-len(shown) :], shown, strict=False
    ):
        found = [evaluation.by_type.get(kind) for kind in kinds]
        for row, interval in enumerate(found):
            if interval:
                axes.plot([interval.low, interval.high], [row + offset] * 2, color=colour)
        rates = [x.rate if x else np.nan for x in found]
        axes.plot(rates, np.arange(len(kinds)) + offset, "o", color=colour, label=f"step {step}")
    counts = [shown[-1][1].by_type[kind].count for kind in kinds]
    labels = [f"{kind or 'all'} ({n})" for kind, n in zip(kinds, counts, strict=True)]
    axes.set_yticks(range(len(kinds)), labels)
    axes.set_ylim(-0.6, len(kinds) - 0.4)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return render_inline(figure, "Success by type of task with 95% intervals")


def credit_by_turn(played: Sequence[Episode], credit: NDArray[np.float64]) -> str:
    """Mean credit at each turn index, of successes and of failures; bands are quartiles.

    `credit` has one value for each turn of the episodes, in their order.
    """
    figure, axes = _figure(4.6, 2.1)
    ends = np.cumsum([len(episode.steps) for episode in played])
    own = np.split(credit, ends[:-1])
    for outcome, colour, name in ((True, UP, "successes"), (False, DOWN, "failures")):
        chosen = [x for x, one in zip(own, played, strict=True) if one.success == outcome]
        longest = min(_TURNS, max((len(x) for x in chosen), default=0))
        columns = [[x[turn] for x in chosen if len(x) > turn] for turn in range(longest)]
        if not columns:
            continue
        turns = range(1, longest + 1)
        low, high = (np.array([np.quantile(x, q) for x in columns]) for q in (0.25, 0.75))
        axes.fill_between(turns, low, high, color=colour, alpha=0.18, linewidth=0)
        label = f"{len(chosen)} {name}"
        means = [float(np.mean(x)) for x in columns]
        axes.plot(turns, means, color=colour, marker="o", markersize=3.5, label=label)
    axes.axhline(0, color=SOFT, linewidth=0.8)
    axes.set_xlabel("turn of the episode")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return render_inline(figure, "Mean credit by turn of the episode, of successes and of failures")


def _smooth(values: Sequence[float]) -> list[float]:
    """Running mean over the last few steps; short curves stay as they are: [S] -> [S]."""
    window = max(1, min(_WINDOW, len(values) // 4))
    if window == 1:
        return list(values)
    total = np.concatenate([[0.0], np.cumsum(values)])
    starts = [max(0, end - window) for end in range(1, len(total))]
    return [float(total[i + 1] - total[s]) / (i + 1 - s) for i, s in enumerate(starts)]


def strip_axes(axes: Axes, grid: str = "y") -> None:
    """Axes without a box, with a grid along `grid` ("x" or "y") behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=LINE, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(length=3, width=0.8)


def render_inline(figure: Figure, label: str) -> str:
    """An SVG element for a page that sets the variables of `PALETTE`; marked as safe HTML.

    `label` describes the figure to readers who do not see it.
    """
    from markupsafe import Markup

    drawn = _name_colours(_write_svg(figure, transparent=True), label)
    return Markup(drawn[drawn.index("<svg") :])  # noqa: S704 - matplotlib escapes the text it draws


def render_standalone(figure: Figure, label: str) -> str:
    """A whole SVG file that carries its own light and dark colours and its background."""
    figure.set_facecolor(PAPER)
    drawn = _name_colours(_write_svg(figure, transparent=False), label)
    start = drawn.index(">", drawn.index("<svg")) + 1
    return f"{drawn[:start]}\n<style>{write_palette('svg')}</style>{drawn[start:]}"


def write_palette(selector: str) -> str:
    """CSS that sets the variables of `PALETTE` on a selector, for light and for dark."""
    light, dark = (
        "".join(f"--{name}:{colours[shade]};" for name, colours in PALETTE.items())
        for shade in (0, 1)
    )
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def _write_svg(figure: Figure, *, transparent: bool) -> str:
    import matplotlib as mpl

    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="svg", metadata=nothing, transparent=transparent)
    return stream.getvalue()


def _name_colours(drawn: str, label: str) -> str:
    """The SVG with variables for colours, a label, and no ids that a page could have twice."""
    names = {colours[0]: f"var(--{name})" for name, colours in PALETTE.items()}
    colour = re.compile("|".join(names))

    def name_colours(style: re.Match[str]) -> str:
        return colour.sub(lambda found: names[found[0]], style[0])

    drawn = re.sub(r'style="[^"]*"', name_colours, re.sub(r'<g id="[^"]*"', "<g", drawn))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
