"""The kernel's restrictions of agent code: no network, files or processes, bounded resources.

`enter` and `hide_files` isolate the warden from the machine, `Cells` isolates the interpreters from
each other, and `drop` leaves an interpreter little more than its memory and its socket. They return
what the kernel refused, by layer: kernels and containers differ. `probe` tests the result.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_envs.appworld.guest import ends, syscalls

NOBODY = 65_534

_MOUNT, _IPC, _USER, _PID, _NET = 0x2_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000
_SPACES = _MOUNT | _IPC | _PID | _NET
_PRIVATE, _EMPTY = 1 << 18 | 1 << 14, 1 | 2 | 4 | 8  # recursive; read-only, nosuid, nodev, noexec
_DETACH = 2
_DEATH_SIGNAL, _DUMPABLE, _NO_NEW_PRIVILEGES = 1, 4, 38
_CAPABILITIES_V3 = 0x2008_0522
_JOIN_SESSION = 1  # keyctl
SIBLING = 0x8000  # CLONE_PARENT
_PIVOT, _KEYCTL, _CLONE = (155, 41), (250, 219), (56, 220)  # x86-64, aarch64
_RULESET, _RESTRICT, _VERSION = 444, 446, 1  # Landlock; the numbers are the same on both
# What Landlock can restrict, by the version that added it: files, TCP, sockets and signals.
_LANDLOCK_FILES = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
_NO_TABLE = "the numbers of this machine's system calls are not known"
_LANDLOCK_TCP, _LANDLOCK_SCOPES = 4, 6
# System calls that must fail, whatever their arguments: numbers on x86-64 and aarch64.
_SHARED = """
shmget 29 194, semget 64 190, msgget 68 186, mq_open 240 180, add_key 248 217, request_key 249 218,
keyctl 250 219, memfd_create 319 279, memfd_secret 447 447
"""
_SURFACE = """
ptrace 101 117, process_vm_readv 310 270, mount 165 40, fsopen 430 430, unshare 272 97,
setns 308 268, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, io_uring_setup 425 425,
init_module 175 105, kexec_load 246 104, open_by_handle_at 304 265
"""
_FAMILIES = (1, 2, 10, 16, 17, 38, 40)  # unix, inet, inet6, netlink, packet, alg, vsock


def enter() -> dict[str, str]:
    """Leave the network, mounts, IPC and the process space, for processes forked from now on."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
        score.write("1000")  # out of memory, the kernel ends interpreters first
    libc = syscalls.load_libc()
    if not hasattr(libc, "unshare"):
        return {"namespaces": f"{sys.platform} has none"}
    if os.geteuid() == 0 and not _can_in_a_child(lambda: _unshare(libc, _SPACES | _USER)):
        return {"namespaces": _unshare(libc, _SPACES)}
    return {"namespaces": _unshare(libc, _SPACES | _USER)}


def _unshare(libc: Any, spaces: int) -> str:
    """Enter new namespaces: "" or the error. With a user namespace, root becomes nobody first."""
    if spaces & _USER:
        _become_nobody()
    return _last_error() if libc.unshare(spaces) else ""


def _can_in_a_child(change: Any) -> bool:
    """Whether a child could make a change."""
    pid = os.fork()
    if not pid:
        os._exit(bool(change()))
    return os.waitpid(pid, 0)[1] == 0


def hide_files(root: str) -> dict[str, str]:
    """Make an empty folder the only visible one, and give up access to any other for good."""
    libc = syscalls.load_libc()
    why = _pivot(libc, root)
    if why:
        with suppress(OSError):
            os.chroot(root)
            why = ""
    os.chdir("/")
    if hasattr(libc, "prctl"):
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return {"empty root folder": why, "Landlock": _restrict_by_landlock(libc)}


def _pivot(libc: Any, root: str) -> str:
    """Replace the root by an empty file system on the folder `root`, without the old one."""
    if syscalls.choose_number(*_PIVOT) < 0:
        return _NO_TABLE
    folder = os.fsencode(root)
    if libc.mount(b"none", b"/", None, _PRIVATE, None):
        return _last_error()
    if libc.mount(b"none", folder, b"tmpfs", _EMPTY, b"size=4k,nr_inodes=1,mode=555"):
        return _last_error()
    os.chdir(root)
    if libc.syscall(syscalls.choose_number(*_PIVOT), b".", b".") or libc.umount2(b".", _DETACH):
        return _last_error()
    return ""


def _restrict_by_landlock(libc: Any) -> str:
    """No file, TCP port, abstract socket or foreign process from now on: "" or the error."""
    if syscalls.MACHINE not in syscalls.MACHINES:
        return _NO_TABLE
    version = libc.syscall(_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return _last_error()
    files = max(mask for since, mask in _LANDLOCK_FILES.items() if since <= version)
    attributes = struct.pack("=Q", files)
    attributes += struct.pack("=Q", 3) * (version >= _LANDLOCK_TCP)
    attributes += struct.pack("=Q", 3) * (version >= _LANDLOCK_SCOPES)
    ruleset = libc.syscall(_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return _last_error()
    failed = libc.syscall(_RESTRICT, ruleset, 0)
    why = _last_error() if failed else ""
    os.close(ruleset)
    return why


class Cells:
    """Forks processes, each into its own process space inside of this one.

    All interpreters have the same user, so one could kill any process that it can see.

    Attributes:
        number: That of the system call, below 0 if it is not known.
        parent: `SIBLING` for children of our parent, else 0.
    """

    def __init__(self) -> None:
        self.number, self.parent = syscalls.choose_number(*_CLONE), 0
        self._python = ctypes.PyDLL(None, use_errno=True)

    def fork(self) -> int:
        """As `os.fork`, which knows no spaces; the new process leads its own session."""
        pid = os.fork() if self.number < 0 else self._clone(_PID)
        if not pid:
            os.setsid()
        return pid

    def _clone(self, spaces: int) -> int:
        given = self.number, spaces | self.parent | signal.SIGCHLD, 0, 0, 0, 0
        self._python.PyOS_BeforeFork()
        pid = int(self._python.syscall(*map(ctypes.c_long, given)))
        error = ctypes.get_errno()
        (self._python.PyOS_AfterFork_Parent if pid else self._python.PyOS_AfterFork_Child)()
        if pid < 0 and spaces and error in {errno.EPERM, errno.EINVAL}:
            return self._clone(0)
        if pid < 0:
            raise OSError(error, os.strerror(error))
        return pid


def drop() -> dict[str, str]:
    """Give up user, capabilities, keys, resources and system calls permanently."""
    for limit, value in {
        resource.RLIMIT_AS: ends.MEMORY,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: ends.CPU,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 16,
        resource.RLIMIT_NPROC: 0,
    }.items():
        _, most = resource.getrlimit(limit)
        most = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (most, most))
    _become_nobody()
    libc = syscalls.load_libc()
    if hasattr(libc, "prctl"):
        libc.syscall(syscalls.choose_number(*_KEYCTL), _JOIN_SESSION, None)
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
        libc.capset(header, (ctypes.c_uint32 * 6)())
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.prctl(_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # with the warden, also without spaces
    return {"seccomp": syscalls.install()}


def _become_nobody() -> None:
    """Leave root; where there is no other user, a user namespace has root's number no more."""
    if os.geteuid() == 0:
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)


def _last_error() -> str:
    return os.strerror(ctypes.get_errno())


def probe() -> dict[str, bool]:
    """Whether each protection holds for this process; it must have called `jail.drop`."""
    return {name: holds() for name, holds in _TESTS.items()}


def _holds_network() -> bool:
    """No socket of any family: a network namespace alone leaves vsock and netlink."""
    return not any(_succeeds(socket.socket, family) for family in _FAMILIES)


def _holds_files() -> bool:
    """Nothing can be read, listed or created."""
    made = _succeeds(os.open, "/probe", os.O_CREAT | os.O_WRONLY)
    return not made and not (_succeeds(os.listdir, "/") and any(Path("/").iterdir()))


def _holds_processes() -> bool:
    """No child, and no other process can be seen or gets a signal."""
    alone = os.getpid() == 1 or not _succeeds(os.kill, os.getpid(), 0)
    return not _can_fork() and alone


def _holds_memory() -> bool:
    """Neither private nor shared memory above the limit."""
    kinds = mmap.MAP_PRIVATE, mmap.MAP_SHARED
    flags = [kind | mmap.MAP_ANONYMOUS for kind in kinds]
    return not any(_succeeds(mmap.mmap, -1, ends.MEMORY + 1, flag) for flag in flags)


def _holds_privileges() -> bool:
    """Not root, and no way to become it."""
    return os.geteuid() != 0 and not _succeeds(os.setuid, 0)


def _refuses(table: str) -> bool:
    if syscalls.MACHINE not in syscalls.MACHINES:
        return False
    libc = syscalls.load_libc()
    for call in syscalls.read_calls(table).values():
        zeros = [ctypes.c_long(0)] * 6
        if libc.syscall(ctypes.c_long(getattr(call, syscalls.MACHINE)), *zeros) != -1:
            return False
        if ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            return False
    return True


def _succeeds(attempt: Callable[..., object], *given: object) -> bool:
    with suppress(OSError, ValueError):
        attempt(*given)
        return True
    return False


def _can_fork() -> bool:
    try:
        pid = os.fork()
    except OSError:
        return False
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


_TESTS: dict[str, Callable[[], bool]] = {
    "network": _holds_network,
    "files": _holds_files,
    "processes": _holds_processes,
    "shared objects": lambda: _refuses(_SHARED),
    "kernel interfaces": lambda: _refuses(_SURFACE),
    "memory": _holds_memory,
    "privileges": _holds_privileges,
}
PROTECTIONS = tuple(_TESTS)
