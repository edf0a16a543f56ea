"""The console that commands print on: as wide as the terminal, and without an end in a pipe."""

import os
import sys

from rich.console import Console

_ENDLESS = 10_000


def console() -> Console:
    """A console on stdout; only a terminal, or `$COLUMNS`, cuts or wraps its lines."""
    cut = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(width=None if cut else _ENDLESS)
