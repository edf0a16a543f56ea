"""Errors of a user's code: environments, wrappers, templates, experts, estimators.

Such code may raise anything. asyncio takes some errors for its own (a task that raises
CancelledError counts as cancelled), and Python ends the process for others. `guarded` turns them
into `RaisedError`, so that each caller handles `Exception` only. Ctrl-C is raised as it is.
"""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, TypeVar

from agent_envs.contract import encodable
from agent_envs.imports import describe_error
from agent_envs.vector import SPECIAL
from trainer.run.stopping import interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")
_MOST = 20_000  # characters of a traceback


class RaisedError(RuntimeError):
    """A user's code raised what asyncio or Python treat specially, or no `Exception`.

    The message has its class, text and place.
    """


def guarded(call: Callable[[], _Result]) -> _Result:
    """The result of a call of a user's code; whatever it raises is an `Exception`.

    A copy of this process that the code forked and that leaves the call ends here: it would go on
    as a second trainer or worker, and answer for the first.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        RaisedError: The code raised a `BaseException`, or an error that asyncio treats specially.
        Exception: What else the code raised.
    """
    owner = os.getpid()
    try:
        result = call()
    except BaseException as error:
        _end_copy(owner)
        plain = isinstance(error, Exception) and not isinstance(error, SPECIAL)
        if plain or interrupted(error):
            raise
        raise RaisedError(describe_error(error)) from error
    _end_copy(owner)
    return result


def _end_copy(owner: int) -> None:
    """End this process at once if it is a forked copy of the owner."""
    if os.getpid() != owner:
        os._exit(1)


def traced(error: BaseException) -> str:
    """The traceback of a user's error as text that can be encoded, without the middle if long."""
    try:
        lines = guarded(lambda: traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - of the error's own methods
        lines = [*traceback.format_tb(error.__traceback__), describe_error(error)]
    text = encodable("".join(lines))
    left = len(text) - _MOST
    if left <= 0:
        return text
    half = _MOST // 2
    return f"{text[:half]}\n... {left} characters left out ...\n{text[-half:]}"
