"""Whether others use this machine's cores: the time that threads waited for one.

Threads of torch wait for each other at the end of every operation, so one that has to wait for a
core holds up all. Several runs on the same cores are then many times slower than one at a time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

_TASKS = Path("/proc/self/task")
_SHORT = 5.0  # seconds that are too few for a verdict
_LESS, _WAITED, _LITTLE = 0.7, 0.5, 0.5


class Clock(NamedTuple):
    """Seconds of this process: by the clock, of its cores, and of its threads waiting for a core.

    Only Linux counts the last; it is 0 elsewhere.
    """

    wall: float
    cpu: float
    waited: float

    @classmethod
    def now(cls) -> Clock:
        """The clocks now."""
        used = os.times()
        return cls(time.monotonic(), used.user + used.system, _waited())

    def since(self, before: Clock) -> Clock:
        """Seconds since an earlier time."""
        return Clock(*(now - then for now, then in zip(self, before, strict=True)))


def contended(spent: Clock, threads: int) -> str:
    """What to say of a period of computing if others held up its `threads`, else "".

    CPU time is far below wall × threads also where code runs in one thread. So either the threads
    must have waited for a core, or not even one of them ran half of the time.
    """
    if spent.wall < _SHORT or spent.cpu >= _LESS * spent.wall * threads:
        return ""
    if spent.waited < _WAITED * spent.cpu and spent.cpu >= _LITTLE * spent.wall:
        return ""
    remedy = "lower run.threads, e.g. to 1" if threads > 1 else "run fewer processes"
    these, in_all = ("threads", ", added up over the threads") if threads > 1 else ("thread", "")
    return (
        f"others use this machine: {threads} {these} had {spent.cpu:.0f} s of CPU time in "
        f"{spent.wall:.0f} s, and waited for a core for {spent.waited:.0f} s{in_all}; {remedy}, or "
        "use fewer runs at the same time"
    )


def _waited() -> float:
    """Seconds that the running threads of this process were ready to run, but had no core."""
    total = 0
    try:
        for task in _TASKS.iterdir():
            total += int((task / "schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return total / 1e9
    return total / 1e9
