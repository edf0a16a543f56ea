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

_ALL = 0xFFFF_FFFF
_EXEC = 4  # PROT_EXEC
_DISCARD = 4  # MADV_DONTNEED, of the C library's allocator
_MAY_MOVE = 1  # MREMAP_MAYMOVE
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
    """A system call: its numbers (None: aarch64 does not have it) and conditions."""

    x86_64: int
    aarch64: int | None
    checks: tuple[Check, ...] = ()


def read_calls(table: str) -> dict[str, Call]:
    """System calls by name, from "name x86-64 aarch64, ..."; "-": aarch64 has none."""
    entries = (entry.split() for entry in table.split(","))
    return {
        name: Call(int(x86_64), None if aarch64 == "-" else int(aarch64))
        for name, x86_64, aarch64 in entries
    }


ALLOWED = {
    # the one socket, and /dev/null
    "recvfrom": Call(45, 207, (Check(3, _ALL, (0,)),)),
    "sendto": Call(44, 206, (Check(3, _ALL, (0,)), Check(5, _ALL, (0,)))),  # no flag, no address
    **read_calls("read 0 63, write 1 64, close 3 57"),
    # memory: private, counted by RLIMIT_AS, never executable
    "mmap": Call(9, 222, (Check(2, _EXEC, (0,)), Check(3, _KIND_OF_MEMORY, (_OWN_MEMORY,)))),
    "mprotect": Call(10, 226, (Check(2, _EXEC, (0,)),)),
    "mremap": Call(25, 216, (Check(3, _ALL, (0, _MAY_MOVE)),)),
    "madvise": Call(28, 233, (Check(2, _ALL, (_DISCARD,)),)),
    **read_calls("munmap 11 215, brk 12 214"),
    # Python's locks
    "futex": Call(202, 98, (Check(1, _ALL ^ _FUTEX_FLAGS, _WAIT_WAKE),)),
    "sched_yield": Call(24, 124),
    # time and chance; most clocks do not even enter the kernel
    **read_calls("clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, time 201 -"),
    "getrandom": Call(318, 278),
    # its own signals and its end
    **read_calls("rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139"),
    **read_calls("sigaltstack 131 132, restart_syscall 219 128, exit 60 93, exit_group 231 94"),
    # its own numbers
    **read_calls("getpid 39 172, getppid 110 173, gettid 186 178"),
    **read_calls("getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177"),
}
# Python and the C library look for files and newer calls, and go on without them. Every call that
# is in neither table fails with EPERM.
_FILES = """
open 2 -, openat 257 56, stat 4 -, lstat 6 -, newfstatat 262 79, access 21 -, faccessat 269 48,
readlink 89 -, readlinkat 267 78
"""
_NEWER = "rseq 334 293, statx 332 291, clone3 435 435, openat2 437 437, faccessat2 439 439"
REFUSED = {errno.ENOENT: read_calls(_FILES), errno.ENOSYS: read_calls(_NEWER)}


def compile_filter(machine: str) -> bytes:
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
        lines += _compile_call(getattr(call, machine), call.checks, ALLOW)
    for number, calls in REFUSED.items():
        for call in calls.values():
            lines += _compile_call(getattr(call, machine), call.checks, FAIL | number)
    lines.append((_RETURN, 0, 0, FAIL | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _compile_call(
    number: int | None, checks: tuple[Check, ...], answer: int
) -> list[tuple[int, ...]]:
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


def choose_number(x86_64: int, aarch64: int) -> int:
    """The number of a system call on this machine; -1 if the machine has no table."""
    return {"x86_64": x86_64, "aarch64": aarch64}.get(MACHINE, -1)


class _Program(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ushort), ("lines", ctypes.c_char_p))


_LINES = compile_filter(MACHINE) if MACHINE in MACHINES else b""  # once for all interpreters


@cache
def load_libc() -> Any:
    """The C library, once for all interpreters."""
    return ctypes.CDLL(None, use_errno=True)


def install() -> str:
    """Filter this process's system calls from now on; "" or why the kernel does not.

    The process needs `no_new_privs`. The filter cannot be removed.
    """
    if MACHINE not in MACHINES:
        return f"there is no table of system calls for {sys.platform} {MACHINE}".rstrip()
    given = _Program(len(_LINES) // 8, _LINES)
    if load_libc().prctl(_SET_SECCOMP, _FILTER, ctypes.byref(given), 0, 0):
        return os.strerror(ctypes.get_errno())
    return ""
