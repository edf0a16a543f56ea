"""What a measurement is told as: a table of methods, figures of the methods and of one episode."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agent_envs.cli.figures import DOWN, INK, PAPER, SOFT, STYLE, UP, render, strip_axes
from agent_envs.machine import write_text
from agent_envs_lab import benchmark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from agent_envs_lab.fidelity import Fidelity
    from agent_envs_lab.truth import Truth
    from agent_envs_lab.truth.run import Result
    from credit.stats import Array
    from trainer.play.records import Episode

_SHOWN = 4
"""Methods beneath the values of an episode."""
_TURNS = 24


def publish(result: Result, folder: Path) -> str:
    """Write `ranking.txt` and the figures, and return the summary as text."""
    truth = result.truth
    lines = [*_checks(result)]
    if truth.reliability > 0:
        estimators = benchmark.make_methods()
        ranked = benchmark.score_estimators(truth, estimators)
        table = benchmark.render_table(truth, ranked)
        write_text(folder / "ranking.txt", table + "\n")
        advantages = benchmark.estimate_advantages(truth, estimators)[0]
        _save(truth, result.episodes, ranked[:2], advantages, folder)
        lines = [table, "", *lines]
    else:
        lines.append("No turn changes the expected outcome, so no method can be ranked.")
    return "\n".join([*lines, f"in {folder}"])


def _checks(result: Result) -> list[str]:
    about = result.truth.about
    lines = [f"{about['turns played for each turn']:.0f} turns were played for each turn measured"]
    if "fresh rollouts" in about:
        lines.append(
            f"V at the start minus {about['fresh rollouts']} fresh rollouts: "
            f"{about['V(s0) minus fresh rollouts']:+.3f} ± {about['standard error of it']:.3f}"
        )
    if about["reliability"] < about["wanted reliability"]:
        lines.append(
            f"reliability {about['reliability']:.2f} is below {about['wanted reliability']:.2f}: "
            "raise --most, with another --out"
        )
    return lines


def _save(
    truth: Truth,
    episodes: Sequence[Episode],
    ranked: tuple[Mapping[str, Fidelity], Mapping[str, Fidelity]],
    advantages: Mapping[str, Array],
    out: Path,
) -> None:
    """Write `ranking.svg` and `episode.svg`."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the viewer's fonts draw the text
        order = sorted(ranked[0], key=lambda name: -ranked[0][name].pearson.value)
        for name, figure, label in (
            ("ranking", ranking(truth, *ranked), "Correlation of methods with the true advantage"),
            ("episode", episode(truth, episodes, advantages, order), "True and estimated credit"),
        ):
            write_text(out / f"{name}.svg", render(figure, label))


def ranking(
    truth: Truth, scores: Mapping[str, Fidelity], differences: Mapping[str, Fidelity]
) -> Figure:
    """Correlation of each method with the truth, sorted, with 95% intervals."""
    from matplotlib.figure import Figure

    names = sorted(scores, key=lambda name: scores[name].pearson.value)
    figure = Figure(figsize=(7.2, 1.1 + 0.3 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    strip_axes(axes, "x")
    for row, name in enumerate(names):
        one, apart = scores[name].pearson, differences[name].pearson
        colour = (INK, UP, DOWN)[apart.apart]
        axes.plot([one.low, one.high], [row, row], color=colour)
        filled = colour if name != benchmark.CRITIC else PAPER
        axes.plot(one.value, row, "o", color=colour, markerfacecolor=filled)
    axes.axvline(0, color=SOFT, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(
        f"correlation with the true advantage, 95% interval over {scores[names[0]].groups} tasks\n"
        "green: above GRPO, purple: below it (95% interval of the difference)"
    )
    axes.set_title(str(truth.about.get("name", "")), loc="left", fontsize=10)
    return figure


def episode(
    truth: Truth, episodes: Sequence[Episode], advantages: Mapping[str, Array], order: Sequence[str]
) -> Figure:
    """Values of one episode turn by turn, and beneath them the credit of some methods.

    Args:
        truth: The truth.
        episodes: Its episodes.
        advantages: [N] advantages by method.
        order: Methods, the most faithful first.
    """
    from matplotlib.figure import Figure

    number = telling(truth)
    rows = np.flatnonzero(truth.turns.trajectory == number)
    shown = episodes[number]
    step = max((len(order) - 1) / max(_SHOWN - 1, 1), 1)
    names = [order[round(i * step)] for i in range(min(_SHOWN, len(order)))]
    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    top, *panels = figure.subplots(
        len(names) + 2, sharex=True, height_ratios=[2.4, 1.0, *[1.0] * len(names)]
    )
    values = np.append(truth.value_before[rows[0]], truth.value_after[rows])
    top.step(np.arange(len(values)), values, where="post", color=INK)
    top.set_ylim(-0.05, max(1.05, float(values.max()) * 1.05))
    top.set_ylabel("V")
    top.set_title(f"{_printable(shown.goal)[:90]}\n", loc="left", fontsize=9)
    true = {"true advantage": truth.advantage}
    for axes, (name, credit) in zip(
        panels, {**true, **{name: advantages[name] for name in names}}.items(), strict=True
    ):
        part = credit[rows]
        axes.bar(
            np.arange(len(part)) + 0.5,
            part,
            width=0.8,
            color=[UP if one > 0 else DOWN for one in part],
        )
        bound = float(np.abs(part).max()) or 1.0
        axes.set_ylim(-1.1 * bound, 1.1 * bound)
        axes.set_yticks([])
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.axhline(0, color=SOFT, linewidth=0.8)
    for axes in (top, *panels):
        strip_axes(axes, "x")
    labels = [f"{_printable(turn.action)[:28]}{'' if turn.valid else ' ✗'}" for turn in shown.steps]
    panels[-1].set_xticks(np.arange(len(rows)) + 0.5, labels, rotation=60, ha="right", fontsize=8)
    return figure


def telling(truth: Truth) -> int:
    """The short episode with the most decided: the largest Σ A² of at most 24 turns."""
    owner = truth.turns.trajectory
    decided = np.bincount(owner, truth.advantage**2)
    length = np.bincount(owner)
    short = length <= max(_TURNS, int(length.min()))
    return int(np.where(short & (length > 1), decided, -1.0).argmax())


def _printable(text: str) -> str:
    """Text of one line for a label, without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)
