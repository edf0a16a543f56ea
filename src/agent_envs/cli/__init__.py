"""The commands of `agent-envs`. User errors are printed as one line, without a traceback.

Importing this module needs what the environments need. Each command imports its dependencies when
it is called, so that every help page works without torch.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

TRACEBACK = "AGENT_ENVS_TRACEBACK"
"""Environment variable that turns tracebacks on."""
_HINT = f"({TRACEBACK}=1 shows the traceback)"
_FORMAT = warnings.formatwarning
_EXTRAS = dict.fromkeys(
    ("train", "eval", "paper", "attribute", "truth", "doctor"), "train"
) | dict.fromkeys(("report", "compare"), "report")
"""The extra that installs what a command imports; that of all others is `cli`."""


def main() -> None:
    """Run the command line; exits with 0, 1 after an error, or 2 after wrong usage."""
    if (here := str(Path.cwd())) not in sys.path:  # for environments of a user's own
        sys.path.append(here)
    # Read when torch is loaded: threads that wait for each other sleep instead of spinning, which
    # takes the cores from the thread that they wait for if others use the machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.formatwarning = _format_warning
    if logging.lastResort is not None:  # which prints the warnings of the log
        logging.lastResort.setFormatter(_Formatter())
    try:
        from agent_envs.cli.app import app

        app()
    except ModuleNotFoundError as error:
        if os.environ.get(TRACEBACK):
            raise
        extra = _EXTRAS.get(sys.argv[1] if sys.argv[1:] else "", "cli")
        sys.exit(
            f"agent-envs: {error}; the packages of this command are installed by: pip install "
            f"'agent-envs[{extra}]', or pip install '.[{extra}]' in a clone {_HINT}"
        )
    except Exception as error:
        from agent_envs.imports import message_of
        from agent_envs.machine import find_shortage

        lacked = find_shortage(error)
        if os.environ.get(TRACEBACK) or not (lacked or _of_the_user(error)):
            raise
        said = message_of(error) or type(error).__name__
        if lacked:
            said += f": {lacked}"
        sys.exit(f"agent-envs: {_make_printable(said)} {_HINT}")


class _Formatter(logging.Formatter):
    """Log lines of data."""

    def format(self, record: logging.LogRecord) -> str:
        return _make_printable(super().format(record))


def _make_printable(text: str) -> str:
    from agent_envs.cli.console import make_printable

    return make_printable(text)


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: Any = None
) -> str:
    """A warning for a person: one of ours without the line of source that it comes from."""
    ours = category is UserWarning
    return _make_printable(
        f"agent-envs: {message}\n" if ours else _FORMAT(message, category, filename, lineno, line)
    )


def _of_the_user(error: Exception) -> bool:
    """Whether an error is the user's; any other is a bug and keeps its traceback."""
    if isinstance(error, (ValueError, OSError, ImportError, FloatingPointError, MemoryError)):
        return True
    from gymnasium.error import Error as GymError

    from agent_envs.net.web import ServerError

    return isinstance(error, (GymError, ServerError))
