"""Evidence: how much a check has judged, and so what its result says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agent_envs.testing.episodes import Budget, CutShort

SHOWN, REFUTED, NOT_SHOWN = "shown", "refuted", "not shown"
"""What a check says of its claim; the last if there is too little evidence."""
EXPLAINING = 20.0  # seconds that shortening an example may take beyond the time of the check
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


def explain_in_time(explain: Callable[[], _Result], otherwise: _Result) -> _Result:
    """What `explain` finds within `EXPLAINING` seconds, else `otherwise`."""
    try:
        with Budget(EXPLAINING):
            return explain()
    except CutShort:
        return otherwise
