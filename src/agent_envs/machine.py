"""The machine: files that survive a kill, files from elsewhere, locks, and what it ran out of."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from agent_envs.assets import expand_path
from agent_envs.imports import message_of

if TYPE_CHECKING:
    from pydantic import ValidationError

try:
    import fcntl
except ImportError:  # Windows, which has no such locks
    fcntl = None  # type: ignore[assignment]

_Record = TypeVar("_Record")
_TORCH = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
"""Parts of the messages of torch and its libraries, whose errors are RuntimeErrors."""
_MEMORY = (
    "memory ran out; take a smaller model, lower what is held at the same time (update.tokens, "
    "sampling.rows, sampling.max_tokens, env.processes), or end other programs; `agent-envs "
    "doctor` says what a recipe needs"
)
_STARTS = (
    "no further process or thread can be started, since memory or the user's limit (`ulimit -u`) "
    "allows no more; lower env.processes, sampling.actors, sampling.rows or run.threads, or end "
    "other programs"
)
_DISK = "the disk is full; make room, or choose a folder on another one with --out"
_FILES = (
    "too many files are open; raise the limit (`ulimit -n`), or lower env.processes or "
    "sampling.rows"
)


def find_shortage(error: BaseException) -> str:
    """What the machine ran out of and what to lower; "" for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    if is_of_memory(error):
        return _MEMORY
    if number in {errno.ENOSPC, errno.EDQUOT}:
        return _DISK
    if number in {errno.EMFILE, errno.ENFILE}:
        return _FILES
    last = [call.filename for call in traceback.extract_tb(error.__traceback__)[-2:]]
    starts = subprocess.__file__ in last or any("multiprocessing" in file for file in last)
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in message_of(error)
    return _STARTS if no_thread or (number == errno.EAGAIN and starts) else ""


def is_of_torch(error: BaseException) -> bool:
    """Whether torch, or a library that it calls, could not allocate memory on a device."""
    return isinstance(error, RuntimeError) and any(part in message_of(error) for part in _TORCH)


def is_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a device."""
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return no_memory or isinstance(error, MemoryError) or is_of_torch(error)


def append_line(path: Path, line: str) -> None:
    """Append one line and flush it to the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: under a temporary name, flushed, then renamed."""
    part = path.with_name(path.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(content)
    flush_to_disk(part)
    part.replace(path)


def find_cache() -> Path:
    """The folder of caches: below $XDG_CACHE_HOME or ~/.cache; errors as of `expand_path`."""
    return expand_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "agent-envs"


def read_cache(name: str) -> dict[str, Any]:
    """What `write_cache` wrote under a name; empty if it is missing or damaged."""
    try:
        known = json.loads((find_cache() / name).read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def write_cache(name: str, content: dict[str, Any]) -> None:
    """Write an object of JSON to the folder of caches, if it can be written."""
    with suppress(OSError):
        write_text(find_cache() / name, json.dumps(content))


def read_json(path: Path, kind: type[_Record]) -> _Record:
    """The record of a JSON file, of a class that pydantic knows.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It holds something else.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(
            f"{path} holds no {kind.__name__.lower()} of this version ({explain_error(error)})"
        ) from error


def explain_error(error: ValidationError, *section: str) -> str:
    """What is wrong with each option of a section, in one line."""
    problems = []
    for problem in error.errors():
        key = ".".join(str(part) for part in (*section, *problem["loc"]))
        whole = problem["type"] == "value_error"  # of a section, which may hold a password
        given = () if whole else (f"{problem['input']!r:.200}",)
        named = " = ".join((*([key] if key else ()), *given))
        said = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{named}: {said}" if named else said)
    return "; ".join(problems)


def wait_for_lock(path: Path) -> IO[bytes]:
    """A file whose lock this process holds until it closes it; waits for another process.

    Where the file system has no locks, it goes on without.

    Raises:
        OSError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
    return file


def open_streams() -> None:
    """Open the null device for closed standard streams: a process cannot pass their numbers on."""
    while (number := os.open(os.devnull, os.O_RDWR)) in {0, 1, 2}:
        os.set_inheritable(number, True)
    os.close(number)


def flush_to_disk(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCK = ".lock"
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
"""Errors of file systems without locks."""


class LockedError(BlockingIOError):
    """Another process trains in the folder; the message names it."""


class FolderLock:
    """The lock of a folder, held from `take` to `close`: one process at a time works in it.

    The operating system releases it when the process ends in any way. Its file stays, with the
    process that had it last. Where the file system has no locks, the process goes on without.

    Attributes:
        path: Its file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
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
            holder = ascii(file.read(300))[1:-1]
            file.close()
            raise LockedError(
                f"{self.path.parent} is in use: another process trains in it ({holder}); wait for "
                "it or stop it, or train into another folder with --out DIR"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
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
