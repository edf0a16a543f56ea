"""SIGTERM and Ctrl-C: a run ends its step and writes a checkpoint; a second one stops it at once.

Slurm sends SIGTERM before it ends a job, a person Ctrl-C. Both may reach every process of a run, or
one only, so the processes agree at the end of each step.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainer.scale import parallel

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAID = (
    b"\n%s: the run stops after this step, with a checkpoint; once more stops it at once, and "
    b"--resume then continues from the checkpoint before\n"
)


class Stopped(KeyboardInterrupt):
    """A signal stopped the run; the message says how it continues.

    Attributes:
        code: The exit code of the process: 128 + the number of the signal.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number


class Stop:
    """The signals that were received.

    Attributes:
        asked: Number of the first signal, 0 before.
        began: Whether the run has begun its steps; before, a signal stops it at once.
    """

    def __init__(self) -> None:
        self.asked, self.began = 0, False

    def agree(self) -> int:
        """Number of a signal that some process of the run received, 0 if none did."""
        return int(parallel.find_largest(self.asked))

    def receive(self, number: int, _frame: Any) -> None:
        """Note the first signal; at the second, or where nothing is to be saved, stop at once.

        Raises:
            Stopped: It is the second, or the run has not begun.
        """
        if not self.asked and self.began:
            self.asked = number
            name = signal.Signals(number).name.encode()
            os.write(2, _SAID % name)  # print might be in the middle of a line
            return
        for one in SIGNALS:
            signal.signal(one, signal.SIG_DFL)  # a third one ends the process
        raise Stopped(
            "stopped in the middle of a step" if self.began else "stopped before a step", number
        )


@contextmanager
def note_signals() -> Iterator[Stop]:
    """Context in which the signals are noted; in a thread they keep their meaning."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, stop.receive)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
