"""The system calls that agent code may make, as a table, and the seccomp filter made from it.

Everything that is not in `ALLOWED` fails with an error number and never reaches the kernel's code
for it. The filter is classic BPF, installed with `prctl`, so that no library is needed: pyseccomp
needs the system's libseccomp, which slim containers lack.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from functools import cache
from typing import Any, NamedTuple

MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}  # AUDIT_ARCH_* of linux/audit.h
MACHINE = os.uname().machine if sys.platform == "linux" and sys.maxsize > 2**32 else ""
ALLOW, KILL, FAIL = 0x7FFF_0000, 0x8000_0000, 0x0005_0000  # SECCOMP_RET_*; FAIL | errno

_X32 = 0x4000_0000  # the first number of x86-64's second table of system calls
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # BPF instructions
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_SET_SECCOMP, _FILTER = 22, 2  # prctl

_EXEC = 4  # PROT_EXEC
_OWN_MEMORY = 0x22  # MAP_PRIVATE | MAP_ANONYMOUS
_KIND_OF_MEMORY = 0x2F  # MAP_TYPE | MAP_ANONYMOUS
_FUTEX_FLAGS = 0x180  # FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME
_WAIT_WAKE = (0, 1, 9)  # FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET


class Check(NamedTuple):
    """A condition: the argument with this index, masked, is one of these values."""

    argument: int
    mask: int
    values: tuple[int, ...]


class Call(NamedTuple):
    """A system call: its numbers (None: the machine does not have it) and conditions."""

    x86_64: int | None
    aarch64: int | None
    checks: tuple[Check, ...] = ()


ALLOWED = {
    # the one socket, and /dev/null
    "recvfrom": Call(45, 207),
    "sendto": Call(44, 206),
    "read": Call(0, 63),
    "write": Call(1, 64),
    "close": Call(3, 57),
    # memory: private, counted by RLIMIT_AS, never executable
    "mmap": Call(9, 222, (Check(2, _EXEC, (0,)), Check(3, _KIND_OF_MEMORY, (_OWN_MEMORY,)))),
    "mprotect": Call(10, 226, (Check(2, _EXEC, (0,)),)),
    "munmap": Call(11, 215),
    "mremap": Call(25, 216),
    "brk": Call(12, 214),
    "madvise": Call(28, 233),
    # Python's locks
    "futex": Call(202, 98, (Check(1, 0xFFFF_FFFF ^ _FUTEX_FLAGS, _WAIT_WAKE),)),
    "sched_yield": Call(24, 124),
    # time and chance; most clocks do not even enter the kernel
    "clock_gettime": Call(228, 113),
    "clock_getres": Call(229, 114),
    "gettimeofday": Call(96, 169),
    "time": Call(201, None),
    "getrandom": Call(318, 278),
    # its own signals and its end
    "rt_sigaction": Call(13, 134),
    "rt_sigprocmask": Call(14, 135),
    "rt_sigreturn": Call(15, 139),
    "sigaltstack": Call(131, 132),
    "restart_syscall": Call(219, 128),
    "exit": Call(60, 93),
    "exit_group": Call(231, 94),
    # its own numbers
    "getpid": Call(39, 172),
    "getppid": Call(110, 173),
    "gettid": Call(186, 178),
    "getuid": Call(102, 174),
    "geteuid": Call(107, 175),
    "getgid": Call(104, 176),
    "getegid": Call(108, 177),
}
# Python and the C library look for files and newer calls, and go on without them. Every call that
# is in neither table fails with EPERM.
REFUSED = {
    errno.ENOENT: {
        "open": Call(2, None),
        "openat": Call(257, 56),
        "stat": Call(4, None),
        "lstat": Call(6, None),
        "newfstatat": Call(262, 79),
        "access": Call(21, None),
        "faccessat": Call(269, 48),
        "readlink": Call(89, None),
        "readlinkat": Call(267, 78),
    },
    errno.ENOSYS: {
        "rseq": Call(334, 293),
        "statx": Call(332, 291),
        "clone3": Call(435, 435),
        "openat2": Call(437, 437),
        "faccessat2": Call(439, 439),
    },
}


def program(machine: str) -> bytes:
    """The filter for `machine`, a key of `MACHINES`: BPF instructions of eight bytes each."""
    lines: list[tuple[int, ...]] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, MACHINES[machine]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, KILL)]
    for call in ALLOWED.values():
        lines += _case(getattr(call, machine), call.checks, ALLOW)
    for number, calls in REFUSED.items():
        for call in calls.values():
            lines += _case(getattr(call, machine), call.checks, FAIL | number)
    lines.append((_RETURN, 0, 0, FAIL | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _case(number: int | None, checks: tuple[Check, ...], answer: int) -> list[tuple[int, ...]]:
    """The instructions for one system call; the next case has the number loaded."""
    if number is None:
        return []
    body: list[tuple[int, ...]] = []
    for argument, mask, values in checks:
        body.append((_LOAD, 0, 0, _ARGUMENTS + 8 * argument))
        body.append((_AND, 0, 0, mask))
        left = range(len(values), 0, -1)  # a match jumps over the other values and the refusal
        body += [(_EQUAL, rest, 0, value) for rest, value in zip(left, values, strict=True)]
        body.append((_RETURN, 0, 0, FAIL | errno.EPERM))
    body.append((_RETURN, 0, 0, answer))
    return [(_EQUAL, 0, len(body), number), *body]


def number(x86_64: int, aarch64: int) -> int:
    """The number of a system call on this machine; -1 if the machine has no table."""
    return {"x86_64": x86_64, "aarch64": aarch64}.get(MACHINE, -1)


class _Program(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ushort), ("lines", ctypes.c_char_p))


_LINES = program(MACHINE) if MACHINE in MACHINES else b""  # once for all interpreters


@cache
def libc() -> Any:
    """The C library, once for all interpreters."""
    return ctypes.CDLL(None, use_errno=True)


def install() -> str:
    """Filter this process's system calls from now on; "" or why the kernel does not.

    The process needs `no_new_privs`. The filter cannot be removed.
    """
    if MACHINE not in MACHINES:
        return f"there is no table of system calls for {sys.platform} {MACHINE}".rstrip()
    given = _Program(len(_LINES) // 8, _LINES)
    if libc().prctl(_SET_SECCOMP, _FILTER, ctypes.byref(given), 0, 0):
        return os.strerror(ctypes.get_errno())
    return ""
