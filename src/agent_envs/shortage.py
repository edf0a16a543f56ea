"""What the machine ran out of, by an error, and what to lower."""

from __future__ import annotations

import errno
import subprocess
import traceback

from agent_envs.imports import message_of

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
