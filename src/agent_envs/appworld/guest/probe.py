"""Tests of the jail from inside: each class of attack is tried, as agent code would."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs.appworld.guest import ends, syscalls

if TYPE_CHECKING:
    from collections.abc import Callable

# System calls that must fail, whatever their arguments: numbers on x86-64 and aarch64.
SHARED = {
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
}
SURFACE = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "mount": (165, 40),
    "fsopen": (430, 430),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "open_by_handle_at": (304, 265),
}
_FAMILIES = (1, 2, 10, 16, 17, 38, 40)  # unix, inet, inet6, netlink, packet, alg, vsock


def probe() -> dict[str, bool]:
    """Whether each protection holds for this process; it must have called `jail.drop`."""
    return {name: holds() for name, holds in _TESTS.items()}


def _network() -> bool:
    """No socket of any family: a network namespace alone leaves vsock and netlink."""
    return not any(_succeeds(socket.socket, family) for family in _FAMILIES)


def _files() -> bool:
    """Nothing can be read, listed or created."""
    made = _succeeds(os.open, "/probe", os.O_CREAT | os.O_WRONLY)
    return not made and not (_succeeds(os.listdir, "/") and any(Path("/").iterdir()))


def _processes() -> bool:
    """No child, and no other process can be seen or gets a signal."""
    alone = os.getpid() == 1 or not _succeeds(os.kill, os.getpid(), 0)
    return not _forks() and alone


def _memory() -> bool:
    """Neither private nor shared memory above the limit."""
    kinds = mmap.MAP_PRIVATE, mmap.MAP_SHARED
    flags = [kind | mmap.MAP_ANONYMOUS for kind in kinds]
    return not any(_succeeds(mmap.mmap, -1, ends.MEMORY + 1, flag) for flag in flags)


def _privileges() -> bool:
    """Not root, and no way to become it."""
    return os.geteuid() != 0 and not _succeeds(os.setuid, 0)


def _refused(calls: dict[str, tuple[int, int]]) -> bool:
    if syscalls.MACHINE not in syscalls.MACHINES:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    for numbers in calls.values():
        zeros = [ctypes.c_long(0)] * 6
        if libc.syscall(ctypes.c_long(syscalls.number(*numbers)), *zeros) != -1:
            return False
        if ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            return False
    return True


def _succeeds(attempt: Callable[..., object], *given: object) -> bool:
    with suppress(OSError, ValueError):
        attempt(*given)
        return True
    return False


def _forks() -> bool:
    try:
        pid = os.fork()
    except OSError:
        return False
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


_TESTS: dict[str, Callable[[], bool]] = {
    "network": _network,
    "files": _files,
    "processes": _processes,
    "shared objects": lambda: _refused(SHARED),
    "kernel interfaces": lambda: _refused(SURFACE),
    "memory": _memory,
    "privileges": _privileges,
}
PROTECTIONS = tuple(_TESTS)
