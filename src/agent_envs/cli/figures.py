"""Figures as SVG files whose colours follow the reader's light or dark.

A figure is drawn by matplotlib in the light colours, under `STYLE`. In the SVG each of them becomes
a CSS variable of the same name (`PALETTE`).
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, LINE, PAPER = "#1d2939", "#5d677a", "#e2e5ea", "#ffffff"
MAIN, HELD = "#2b5797", "#b93c0a"
UP, DOWN = "#1b7837", "#762a83"  # ColorBrewer PRGn, colour-blind safe
PALETTE = {
    "ink": (INK, "#e6e9ef"),
    "soft": (SOFT, "#a3adbd"),
    "line": (LINE, "#333c4c"),
    "paper": (PAPER, "#171c26"),
    "main": (MAIN, "#8ab4f8"),
    "held": (HELD, "#ff9d5c"),
    "other": ("#7d8798", "#8c96a8"),
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
