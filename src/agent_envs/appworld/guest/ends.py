"""How an interpreter ended: limits of its resources, and what its parent saw at the end."""

from __future__ import annotations

import os
import signal
import sys
from typing import NamedTuple

MEMORY = 256 * 2**20  # bytes
CPU = 3600  # CPU seconds of a whole interpreter; its world limits each execution
FULL = 79  # exit status of an interpreter without memory
WANT = f"variables and code need more than the limit of {MEMORY >> 20} MiB"
_NEAR = 0.75  # of the limit: a crash with so much memory in use is for want of more
_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of the unit of `ru_maxrss`


class End(NamedTuple):
    """The end of an interpreter, as its parent saw it.

    Attributes:
        status: wait status.
        ran: it ran until its parent killed it.
        seconds: its CPU time.
        peak: the most memory that it used, in bytes.
        cpu: the limit of its CPU time.
    """

    status: int
    ran: bool = False
    seconds: float = 0.0
    peak: int = 0
    cpu: int = CPU

    @property
    def outside(self) -> bool:
        """Whether neither the code nor a limit explains the signal."""
        by_signal = os.waitstatus_to_exitcode(self.status) in (-signal.SIGKILL, -signal.SIGTERM)
        return by_signal and not self.ran and not self._spent

    @property
    def _spent(self) -> bool:
        """Whether the CPU time is used; the first process of a space gets no warning before."""
        return self.seconds > self.cpu - 1

    def __str__(self) -> str:
        """The reason."""
        code = os.waitstatus_to_exitcode(self.status)
        if self.ran:
            return "it closed its connection"
        if code == FULL:
            return f"out of memory: {WANT}"
        if code < 0 and self._spent:
            return f"it used its {self.cpu} seconds of CPU time"
        if code < 0:
            name = signal.Signals(-code).name
            near = self.peak > _NEAR * MEMORY and not self.outside
            return f"signal {name}, out of memory: {WANT}" if near else f"signal {name}"
        return f"exit status {code}"


def read_end(status: int, usage: tuple[float, ...], *, ran: bool = False) -> End:
    """The end with a wait status and the resources from `os.wait4`."""
    user, system, peak = usage[:3]
    return End(status, ran, user + system, int(peak) * _UNIT, CPU)
