"""The console that commands print on, and recorded text that is safe on a terminal or a page."""

import os
import sys
import unicodedata

from rich.console import Console

_ENDLESS = 10_000
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def make_console() -> Console:
    """A console on stdout; only a terminal, or `$COLUMNS`, cuts or wraps its lines."""
    cut = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(width=None if cut else _ENDLESS)


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
