"""The lock of a run folder: one training at a time.

The operating system holds it for the process and releases it when the process ends in any way, so a
killed run leaves none. The file stays, with the process that had it last. Left out: locks where the
file system has none; there the run goes on without.
"""

from __future__ import annotations

import errno
import os
import socket
import warnings
from pathlib import Path
from typing import IO

from agent_envs.cli.console import make_printable

try:
    import fcntl
except ImportError:  # Windows, which has no such locks
    fcntl = None  # type: ignore[assignment]

FILE = ".lock"
_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
"""Errors of file systems without locks."""


class LockedError(BlockingIOError):
    """Another process trains in the folder; the message names it."""


class FolderLock:
    """The lock of a folder, held from `take` to `close`.

    Attributes:
        path: Its file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._file: IO[str] | None = None

    def close(self) -> None:
        """Release the lock, if it was taken."""
        if self._file is not None:
            self._file.close()

    def take(self) -> None:
        """Take the lock; taking it twice is allowed.

        Raises:
            LockedError: Another process has it.
            OSError: The file cannot be written.
        """
        if self._file is not None or fcntl is None:
            return
        file = self.path.open("a+", encoding="utf-8", errors="replace")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # the latter over NFS
            file.seek(0)
            holder = make_printable(file.read(300))
            file.close()
            raise LockedError(
                f"{self.path.parent} is in use: another process trains in it ({holder}); wait for "
                "it or stop it, or train into another folder with --out DIR"
            ) from None
        except OSError as error:
            if error.errno not in _NONE:
                raise
            warnings.warn(
                f"{self.path.parent} cannot be locked ({error.strerror}); do not train in it twice "
                "at the same time",
                stacklevel=3,
            )
        self._file = file
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
