"""Figures as SVG whose colours follow the reader's choice of light or dark.

A figure is drawn by matplotlib in the light colours. In the SVG each of them becomes a CSS variable
of the same name, which the page sets (`PALETTE`), or the file itself (`standalone`).
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def plain(axes: Axes, grid: str = "y") -> None:
    """Axes without a box, with a grid along `grid` ("x" or "y") behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=LINE, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(length=3, width=0.8)


def inline(figure: Figure, label: str) -> str:
    """An SVG element for a page that sets the variables of `PALETTE`; marked as safe HTML.

    `label` describes the figure to readers who do not see it.
    """
    from markupsafe import Markup

    drawn = _coloured(_drawn(figure, transparent=True), label)
    return Markup(drawn[drawn.index("<svg") :])  # noqa: S704 - matplotlib escapes the text it draws


def standalone(figure: Figure, label: str) -> str:
    """A whole SVG file that carries its own light and dark colours and its background."""
    figure.set_facecolor(PAPER)
    drawn = _coloured(_drawn(figure, transparent=False), label)
    start = drawn.index(">", drawn.index("<svg")) + 1
    return f"{drawn[:start]}\n<style>{palette('svg')}</style>{drawn[start:]}"


def palette(selector: str) -> str:
    """CSS that sets the variables of `PALETTE` on a selector, for light and for dark."""
    light, dark = (
        "".join(f"--{name}:{colours[shade]};" for name, colours in PALETTE.items())
        for shade in (0, 1)
    )
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def _drawn(figure: Figure, *, transparent: bool) -> str:
    import matplotlib as mpl

    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="svg", metadata=nothing, transparent=transparent)
    return stream.getvalue()


def _coloured(drawn: str, label: str) -> str:
    """The SVG with variables for colours, a label, and no ids that a page could have twice."""
    names = {colours[0]: f"var(--{name})" for name, colours in PALETTE.items()}
    colour = re.compile("|".join(names))

    def painted(style: re.Match[str]) -> str:
        return colour.sub(lambda found: names[found[0]], style[0])

    drawn = re.sub(r'style="[^"]*"', painted, re.sub(r'<g id="[^"]*"', "<g", drawn))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
