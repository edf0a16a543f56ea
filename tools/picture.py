"""Draw the README's picture: `python -m tools.picture` writes docs/picture.svg.

An episode of the pocket policy from a measured truth that ships: its turns with their four signals,
their true advantages, and what some methods make of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import credit
from credit.truth import Truth

ROOT = Path(__file__).parents[1]
TRUTH = ROOT / "src" / "credit" / "truths" / "alfworld_start.parquet"
EPISODE = 110
METHODS = {"GRPO": "grpo", "GiGPO": "gigpo", "RTMC": "rtmc"}
RAISED, LOWERED = "#1b7837", "#762a83"  # ColorBrewer PRGn, colour-blind safe
INK, SOFT, LINE = "#1f2937", "#6b7280", "#e5e7eb"
STATES = ("#d7e3f4", "#fde2c4", "#e4dcf1", "#d6efe0", "#f9d9e0", "#f3efc3", "#d9e9ee", "#ece4da")
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "picture", "text.parse_math": False}
TURN, ACTION, VALID, PROGRESS, STATE, CREDIT = 0.0, 0.35, 4.75, 5.5, 7.3, 8.2
WIDTH, BAR = 13.6, 1.15


def picture() -> Figure:
    """The table of the episode's turns."""
    truth = Truth.load(TRUTH)
    turns = truth.turns
    rows = np.flatnonzero(turns.trajectory == EPISODE)
    shown = {"true": truth.advantage}
    shown |= {name: credit.make(made)(turns) for name, made in METHODS.items()}
    letters = {anchor: chr(65 + at) for at, anchor in enumerate(dict.fromkeys(turns.anchor[rows]))}
    figure = Figure(figsize=(9.6, 0.5 + 0.34 * (len(rows) + 2)))
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(len(rows) + 0.6, -2.0)
    axes.axis("off")
    axes.text(0, -1.55, f"goal: {turns.goal[EPISODE]}", weight="bold", color=INK, va="center")
    heads = {ACTION: "action", VALID: "valid", PROGRESS: "progress", STATE: "state"}
    for x, text in heads.items():
        axes.text(x, -0.6, text, color=SOFT, va="center", fontsize=9)
    axes.text(CREDIT + BAR / 2, -0.95, "advantage", color=SOFT, ha="center", fontsize=9)
    for at, row in enumerate(rows):
        axes.plot([0, WIDTH], [at + 0.5, at + 0.5], color=LINE, linewidth=0.6)
        _turn(axes, at, turns, row, letters)
    for column, (name, advantage) in enumerate(shown.items()):
        _credit(axes, CREDIT + column * (BAR + 0.2), name, advantage[rows])
    return figure


def _turn(axes: Any, at: int, turns: credit.Turns, row: int, letters: dict[str, str]) -> None:
    """One line: the turn's action and signals."""
    valid, letter = bool(turns.valid[row]), letters[turns.anchor[row]]
    axes.text(TURN, at, str(at + 1), color=SOFT, va="center", fontsize=9)
    axes.text(ACTION, at, turns.action[row], color=INK, va="center", fontsize=10)
    axes.text(
        VALID, at, "yes" if valid else "no", va="center", fontsize=10,
        color=INK if valid else "#b91c1c", weight="normal" if valid else "bold",
    )  # fmt: skip
    axes.add_patch(Rectangle((PROGRESS, at - 0.16), 1.0, 0.32, facecolor=LINE))
    progress = float(turns.progress[row])
    axes.add_patch(Rectangle((PROGRESS, at - 0.16), progress, 0.32, facecolor="#4b73a8"))
    axes.text(PROGRESS + 1.1, at, f"{progress:.2f}", color=INK, va="center", fontsize=9)
    colour = STATES[(ord(letter) - 65) % len(STATES)]
    axes.add_patch(Rectangle((STATE, at - 0.32), 0.55, 0.64, facecolor=colour))
    axes.text(STATE + 0.275, at, letter, color=INK, va="center", ha="center", fontsize=9)


def _credit(axes: Any, left: float, name: str, advantage: Any) -> None:
    """One column of bars, of the length of the largest."""
    middle, scale = left + BAR / 2, 0.5 * BAR / np.abs(advantage).max()
    weight = "bold" if name == "true" else "normal"
    axes.text(middle, -0.55, name, color=INK, ha="center", va="center", fontsize=9, weight=weight)
    axes.plot([middle, middle], [-0.2, len(advantage) - 0.6], color=SOFT, linewidth=0.6)
    for at, value in enumerate(advantage):
        colour = RAISED if value > 0 else LOWERED
        axes.add_patch(Rectangle((middle, at - 0.26), scale * value, 0.52, facecolor=colour))


def main() -> None:
    """Write the picture."""
    with mpl.rc_context(STYLE):
        nothing = dict.fromkeys(("Date", "Creator"))
        picture().savefig(ROOT / "docs" / "picture.svg", metadata=nothing, facecolor="white")


if __name__ == "__main__":
    main()
