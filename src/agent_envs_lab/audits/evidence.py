"""Evidence: how much a check has judged, and so what its result says."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from threading import current_thread, main_thread
from types import FrameType
from typing import Self, TypeVar

from agent_envs.testing.episodes import Budget, CutShort

SHOWN, REFUTED, NOT_SHOWN = "shown", "refuted", "not shown"
"""What a check says of its claim; the last if there is too little evidence."""
EXPLAINING = 20.0  # seconds that shortening an example may take beyond the time of the check
GRACE = 5.0  # seconds that a call may take beyond the time of its check
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Evidence:
    """What a check has judged.

    count, what: how many of what, e.g. 32 "revisited pairs".
    least: the fewest that show anything.
    cut: whether its time was over before its end.
    """

    count: int
    what: str
    least: int
    cut: bool = False

    def judge(self, *, refuted: bool, doubted: bool = False) -> str:
        """The verdict: one counterexample refutes, and only enough evidence without doubt shows."""
        if refuted:
            return REFUTED
        return SHOWN if self.count >= self.least and not (self.cut or doubted) else NOT_SHOWN

    def __str__(self) -> str:
        few = f", at least {self.least} are needed" if self.count < self.least else ""
        return f"{self.count:,} {self.what}{few}{', its time was over' if self.cut else ''}"


class Deadline(Budget):
    """A budget that also ends a `reset` or `step` that hangs, in the main thread of Unix.

    The call raises a TimeoutError, `GRACE` seconds after the time is over. Left out: calls that do
    not return to Python, which the command `agent-envs audit` ends with its process.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __enter__(self) -> Self:
        self._arms = hasattr(signal, "SIGALRM") and current_thread() is main_thread()
        if self._arms:
            self._handler = signal.signal(signal.SIGALRM, self._end_call)
            self._timer = signal.setitimer(signal.ITIMER_REAL, max(0, self.seconds) + GRACE, GRACE)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        if self._arms:
            signal.setitimer(signal.ITIMER_REAL, *self._timer)
            signal.signal(signal.SIGALRM, self._handler)
        super().__exit__()

    def _end_call(self, _: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name not in {"reset", "step"}:
            frame = frame.f_back
        if frame is None:
            raise CutShort
        error = TimeoutError(
            f"{frame.f_code.co_qualname} hangs: it did not return {GRACE:g} s after the time of "
            f"its check was over, {frame.f_code.co_filename} line {frame.f_lineno}"
        )
        vars(error)["steps"] = ()
        raise error


def explain_in_time(explain: Callable[[], _Result], otherwise: _Result) -> _Result:
    """What `explain` finds within `EXPLAINING` seconds, else `otherwise`."""
    try:
        with Deadline(EXPLAINING):
            return explain()
    except CutShort:
        return otherwise
