"""Errors that several rooms raise, and what a machine ran out of."""

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
_PROCESSES = (
    "no further process can be started, since the machine or the user's limit (`ulimit -u`) allows "
    "no more; lower env.processes, sampling.actors or sampling.rows, or end other programs"
)
_THREADS = (
    "no further thread can be started, since memory or the user's limit (`ulimit -u`) allows no "
    "more; lower run.threads, sampling.rows or env.processes"
)
_DISK = "the disk is full; make room, or choose a folder on another one with --out"
_FILES = (
    "too many files are open; raise the limit (`ulimit -n`), or lower env.processes or "
    "sampling.rows"
)


class RecipeError(ValueError):
    """A recipe, option or value is unknown or invalid; the message has the nearest known name."""


def find_shortage(error: BaseException) -> str:
    """What the machine ran out of and what to lower; "" for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    lacked = ""
    if is_of_memory(error):
        lacked = _MEMORY
    elif is_of_disk(error):
        lacked = _DISK
    elif isinstance(error, RuntimeError) and "can't start new thread" in message_of(error):
        lacked = _THREADS
    elif number in {errno.EMFILE, errno.ENFILE}:
        lacked = _FILES
    elif number == errno.EAGAIN:
        last = [call.filename for call in traceback.extract_tb(error.__traceback__)[-2:]]
        if subprocess.__file__ in last or any("multiprocessing" in file for file in last):
            lacked = _PROCESSES
    return lacked


def is_of_disk(error: BaseException) -> bool:
    """Whether a disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


def is_of_torch(error: BaseException) -> bool:
    """Whether torch, or a library that it calls, could not allocate memory on a device."""
    return isinstance(error, RuntimeError) and any(part in message_of(error) for part in _TORCH)


def is_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a device."""
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return no_memory or isinstance(error, MemoryError) or is_of_torch(error)
