"""Errors of a machine that ran out of something: what it was, and what to lower."""

from __future__ import annotations

import errno
import subprocess
import traceback

from agent_envs.imports import message_of

_TORCH = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
"""Parts of the messages of torch and its libraries, whose errors are RuntimeErrors."""
_MEMORY = (
    "memory ran out; take a smaller model, lower what is held at the same time (sampling.rows, "
    "update.tokens, env.processes), or end other programs"
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


class OutOfMemory(MemoryError):
    """A part of the training had too little memory; the message has the estimate of all parts."""


def of_disk(error: BaseException) -> bool:
    """Whether a disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


def of_torch(error: BaseException) -> bool:
    """Whether torch, or a library that it calls, could not allocate memory on a device."""
    return isinstance(error, RuntimeError) and any(part in message_of(error) for part in _TORCH)


def of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a device."""
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return no_memory or isinstance(error, MemoryError) or of_torch(error)


def shortage(error: BaseException) -> str:
    """What the machine ran out of and what to lower.

    "" for any other error, and for one whose message says it.
    """
    if isinstance(error, OutOfMemory):
        return ""
    return next((said for lacks, said in _KINDS if lacks(error)), "")


def _of_threads(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and "can't start new thread" in message_of(error)


def _of_processes(error: BaseException) -> bool:
    """Whether an error was raised where Python starts a process."""
    if not isinstance(error, OSError) or error.errno != errno.EAGAIN:
        return False
    last = [call.filename for call in traceback.extract_tb(error.__traceback__)[-2:]]
    return subprocess.__file__ in last or any("multiprocessing" in file for file in last)


def _of_files(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


_KINDS = (
    (of_memory, _MEMORY),
    (of_disk, _DISK),
    (_of_threads, _THREADS),
    (_of_processes, _PROCESSES),
    (_of_files, _FILES),
)
