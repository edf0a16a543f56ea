"""The lock of a run folder: one training at a time.

The operating system holds it for the process and releases it when the process ends in any way, so a
killed run leaves none. The file stays, with the process that had it last. Left out: locks where the
file system has none; there the run goes on without.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = ".lock"
_HELD = {errno.EACCES, errno.EAGAIN}
_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class LockedError(BlockingIOError):
    """Another process trains in the folder; the message names it."""

    def __str__(self) -> str:
        return str(self.args[0])


class FolderLock:
    """The lock of a folder.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock; taking it twice is allowed.

        Raises:
            LockedError: Another process has it.
            OSError: The file cannot be written.
        """
        if self._descriptor is not None:
            return
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        with ExitStack() as failing:
            failing.callback(os.close, descriptor)
            self._take(descriptor)
            failing.pop_all()
        self._descriptor = descriptor

    def _take(self, descriptor: int) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NONE:
                warnings.warn(
                    f"{self.path.parent} cannot be locked ({error.strerror}); do not train in it "
                    "twice at the same time",
                    stacklevel=4,
                )
                return
            if error.errno not in _HELD:
                raise
            raise LockedError(
                f"{self.path.parent} is in use: {_owner(descriptor)} trains in it; wait for it or "
                "stop it, or train into another folder with --out DIR"
            ) from None
        mine = {"process": os.getpid(), "host": socket.gethostname()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(mine).encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def lock_folder(folder: Path) -> Iterator[FolderLock]:
    """Context with the lock of a folder, which is taken at once if the folder had one before."""
    lock = FolderLock(folder)
    try:
        if lock.path.is_file():
            lock.take()
        yield lock
    finally:
        lock.release()


def _owner(descriptor: int) -> str:
    """The process that has the lock."""
    try:
        known = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {known['process']} on {known['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
