"""What commands print: texts are data, whose markup has no meaning and which act on no terminal.

`DataConsole` does so for everything, `show_data` and `DataTable` for what other consoles may print,
and `make_printable` for other streams and pages.
"""

import os
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_ENDLESS = 10_000
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


class DataConsole(Console):
    """A console that prints texts without markup, emoji codes and what acts on a terminal."""

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As of `Console`."""
        for one in super().render(renderable, options):
            yield one if one.control else one._replace(text=make_printable(one.text))


class DataTable(Table):
    """A table that is printed by any console as by a `DataConsole`."""

    def add_column(self, header: RenderableType = "", *given: Any, **how: Any) -> None:
        """As of `Table`."""
        super().add_column(_show_text(header), *given, **how)

    def add_row(self, *cells: RenderableType | None, **how: Any) -> None:
        """As of `Table`."""
        super().add_row(*map(_show_text, cells), **how)


def make_console() -> Console:
    """A console on stdout; only a terminal, or `$COLUMNS`, cuts or wraps its lines."""
    cut = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return DataConsole(width=None if cut else _ENDLESS)


def show_data(text: str, style: str = "") -> Text:
    """A text that is printed by any console as by a `DataConsole`."""
    return Text(make_printable(text), style=style)


def _show_text(cell: Any) -> Any:
    """A cell as data; a text that no console reads in another way stays as it is."""
    acts = isinstance(cell, str) and not (cell.isprintable() and {"[", ":"}.isdisjoint(cell))
    return show_data(cell) if acts else cell


def make_printable(text: str) -> str:
    """The text with U+FFFD for control characters, lone surrogates and marks of writing direction.

    Such characters can move a terminal's cursor or show other text in another order. Line ends and
    tabs stay.
    """
    if text.isprintable():
        return text
    return "".join("\ufffd" if _is_control(one) else one for one in text)


def _is_control(one: str) -> bool:
    if one in "\n\t":
        return False
    return unicodedata.category(one) in {"Cc", "Cs"} or unicodedata.bidirectional(one) in _TURNING


def format_seconds(seconds: float) -> str:
    """Seconds as `45 s`, `12:05` (minutes) or `3:12:05` (hours)."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
