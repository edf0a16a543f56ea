"""The kernel's restrictions of agent code: no network, files or processes, bounded resources.

`enter` isolates the warden, `Cells` isolates the interpreters from each other, `drop` gives up an
interpreter's privileges, and `probe` tests the protections, since kernels and containers differ.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY = 256 * 2**20
CPU = 3600  # CPU seconds of a whole interpreter; its world limits each execution
NOBODY = 65_534
PROTECTIONS = ("network", "files", "processes")

_IPC, _USER, _PID, _NET = 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000
_DUMPABLE, _NO_NEW_PRIVILEGES = 4, 38
_CAPABILITIES_V3 = 0x2008_0522


def enter() -> None:
    """Leave the network and the process space, for processes forked from now on.

    Like `shut`, it does what the kernel allows; `probe` reports the result.
    """
    libc = _libc()
    spaces = _IPC | _PID | _NET
    if hasattr(libc, "unshare") and libc.unshare(spaces) != 0:
        _become_nobody()
        libc.unshare(spaces | _USER)


def shut(root: str) -> None:
    """Make `root` the only visible folder."""
    with suppress(OSError):
        os.chroot(root)
    os.chdir("/")


class Cells:
    """Forks processes, each into its own process space inside of this one.

    All interpreters have the same user, so one could kill any process that it can see.
    """

    def __init__(self) -> None:
        self._libc, self._here = _libc(), -1
        with suppress(OSError):  # the file is missing if the kernel has no process spaces
            self._here = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """As `os.fork`; the new process leads its own session."""
        walled = self._here >= 0 and self._libc.unshare(_PID) == 0
        try:
            pid = os.fork()
        finally:
            if walled:
                self._libc.setns(self._here, _PID)
        if not pid:
            os.setsid()
            if self._here >= 0:
                os.close(self._here)
        return pid


def drop() -> None:
    """Give up user, capabilities and resources permanently."""
    for limit, value in {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: CPU,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 16,
        resource.RLIMIT_NPROC: 0,
    }.items():
        resource.setrlimit(limit, (value, value))
    _become_nobody()
    libc = _libc()
    if hasattr(libc, "prctl"):
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
        libc.capset(header, (ctypes.c_uint32 * 6)())
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.prctl(_DUMPABLE, 0, 0, 0, 0)


def probe() -> dict[str, bool]:
    """Whether each of `PROTECTIONS` holds for this process; it must have called `drop`."""
    return {
        "network": not _reaches_loopback(),
        "files": not any(Path("/").iterdir()),
        "processes": not _forks() and os.getpid() == 1,
    }


def _reaches_loopback() -> bool:
    """Whether the machine's own address answers, also with a refusal."""
    with socket.socket() as tried:
        tried.settimeout(1)
        try:
            tried.connect(("127.0.0.1", 9))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True


def _forks() -> bool:
    try:
        pid = os.fork()
    except OSError:
        return False
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def _become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
