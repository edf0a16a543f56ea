"""The attack suite: what agent code tries is held by the kernel, and costs nobody but itself."""

import errno
import json
import struct
import subprocess
import sys
from pathlib import Path

import attacks
import pytest
from attacks import costs_its_turn, harness, needs_strangers, start, warden_with

from agent_envs.appworld.guest import syscalls

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[3] / "docs" / "appworld.md"
NO_FILTER = "from agent_envs.appworld.guest import syscalls\nsyscalls.install = lambda: 'off'\n"
FILTER_ALONE = """
from agent_envs.appworld.guest import jail
jail.enter = lambda: {}
jail.hide_files = lambda root: {}
jail._PID = 0
"""


def through(name):
    """The attempts of a class that got through, and those without a result."""
    results = attacks.make_attempts(attacks.ATTACKS[name])
    return [one for one in attacks.ATTACKS[name] if results.get(one) is None]


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_held(name):
    assert through(name) == []


def test_the_filter_alone_holds_them():
    with warden_with(FILTER_ALONE):
        got = {name: through(name) for name in attacks.ATTACKS}
    told = {"the user", "the trainer's process"}  # their numbers, with which nothing can be done
    assert set(got.pop("environment")) <= told
    assert not any(got.values())


@needs_strangers
def test_the_attempts_get_through_without_the_filter():
    """Namespaces, nobody's rights and limits are kept: what is left is for the filter alone."""
    with warden_with(NO_FILTER) as lax:
        assert not lax.enforced["shared objects"]
        assert not lax.enforced["kernel interfaces"]
        assert lax.enforced["files"]
        assert lax.enforced["processes"]
        assert lax.lacking == {"seccomp": "off"}
        lax.enforced = dict.fromkeys(lax.enforced, True)  # strict accepts it
        assert len(through("SysV IPC")) >= 10
        assert len(through("POSIX IPC and shared memory")) >= 3
        assert len(through("sockets")) >= 4
        assert len(through("descriptors")) >= 8
        assert len(through("machine code")) >= 4
        assert not [one for one in through("host files") if "passwd" in one or "list" in one]
        assert attacks.leaks("shared memory")


CONTAINER = """
import ctypes, errno, json, struct, sys
from agent_envs.appworld.guest import syscalls
from agent_envs.appworld.sandbox import start_warden
refused = syscalls.read_calls("unshare 272 97, setns 308 268, mount 165 40, umount2 166 39")
lines = [(0x20, 0, 0, 0)]
for call in refused.values():
    lines += [(0x15, 0, 1, getattr(call, syscalls.MACHINE)), (6, 0, 0, 0x50001)]  # EPERM
lines.append((6, 0, 0, syscalls.ALLOW))
program = b"".join(struct.pack("=HBBI", *line) for line in lines)
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
given = syscalls._Program(len(lines), program)
assert libc.prctl(22, 2, ctypes.byref(given), 0, 0) == 0
print(json.dumps([start_warden().enforced, start_warden().lacking]))
"""


def test_a_container_without_namespaces_is_strict_by_the_filter():
    """The calls that the usual profile of containers refuses, to root and to ordinary users."""
    told = subprocess.run([sys.executable, "-c", CONTAINER], check=True, capture_output=True)
    enforced, lacking = json.loads(told.stdout)
    assert all(enforced.values())
    assert lacking["namespaces"] == "Operation not permitted"


def test_every_other_system_call_fails():
    """All numbers that are not in the tables, whether they have a name in attacks.py or not."""
    tables = [syscalls.ALLOWED, *syscalls.REFUSED.values()]
    known = {getattr(call, syscalls.MACHINE) for table in tables for call in table.values()}
    if syscalls.MACHINE == "x86_64":
        known |= {335, 336}  # uretprobe and uprobe: newer kernels never filter them, and end others
    others = sorted(set(range(600)) - known)
    code = f"""{attacks.ESCAPE}import json
ctypes = modules["ctypes"]
libc, zeros = ctypes.CDLL(None, use_errno=True), [ctypes.c_long(0)] * 6
print(json.dumps([(libc.syscall(ctypes.c_long(n), *zeros), ctypes.get_errno()) for n in {others}]))
"""
    alone = start(60)
    results = json.loads(alone.execute(code, None))
    alone.close()
    assert len(results) == len(others) > 500
    assert {tuple(result) for result in results} == {(-1, errno.EPERM)}


OTHERS = {
    "ends of the interpreter": (attacks.DEADLY, lambda code: costs_its_turn(harness({"": code}))),
    "nonsense on the wire": (attacks.WIRE,
        lambda data: costs_its_turn(harness({"": attacks.SEND.format(data)}), fails=False)),
    "answers sent ahead": (attacks.AHEAD, lambda code: not attacks.is_believed(code)),
    "code that runs on": (attacks.ON, lambda code: not attacks.runs_on(code)),
    "forged keys": (attacks.KEYS, lambda road: not attacks.forges_its_key(road)),
    "loops": (attacks.LOOPS, lambda code: costs_its_turn(code, timeout=1)),
    "leaks between episodes": (dict(zip(attacks.LEAKS, attacks.LEAKS, strict=True)),
        lambda name: not attacks.leaks(name)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, (table, _) in OTHERS.items() for name in table]
)
def test_what_costs_only_itself(kind, name):
    table, is_held = OTHERS[kind]
    assert is_held(table[name])


@pytest.mark.skipif(syscalls.MACHINE != "x86_64", reason="x86-64 has two tables of system calls")
@pytest.mark.parametrize("number", [0x4000_0000, 0x4000_0027, -1])
def test_the_other_table_ends_the_interpreter(number):
    assert costs_its_turn(harness({"": f"libc.syscall(ctypes.c_long({number}))"}))


def answer(machine, number, arguments=(0,) * 6, audit=None):
    """What the filter of a machine answers, by a small interpreter of BPF."""
    given = struct.pack("=IIQ6Q", number, audit or syscalls.MACHINES[machine], 0, *arguments)
    lines = list(struct.iter_unpack("=HBBI", syscalls.compile_filter(machine)))
    held = place = 0
    while True:
        code, yes, no, k = lines[place]
        place += 1
        if code == 0x20:
            (held,) = struct.unpack_from("=I", given, k)
        elif code == 0x54:
            held &= k
        elif code == 0x15:
            place += yes if held == k else no
        elif code == 0x35:
            place += yes if held >= k else no
        else:
            assert code == 0x06
            return k


FINE = {  # arguments that the conditions of a call accept
    "mmap": (0, 4096, 3, 0x22, 0, 0),
    "mprotect": (0, 4096, 3, 0, 0, 0),
    "futex": (0, 128, 0, 0, 0, 0),
    "madvise": (0, 4096, 4, 0, 0, 0),
}


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_the_filter_answers_as_its_table(machine):
    expected = {}
    for name, call in syscalls.ALLOWED.items():
        expected[getattr(call, machine)] = (FINE.get(name, (0,) * 6), syscalls.ALLOW)
    for number, calls in syscalls.REFUSED.items():
        for call in calls.values():
            expected[getattr(call, machine)] = ((0,) * 6, syscalls.FAIL | number)
    for number in range(600):
        arguments, wanted = expected.get(number, ((0,) * 6, syscalls.FAIL | errno.EPERM))
        assert answer(machine, number, arguments) == wanted, number


@pytest.mark.parametrize("machine", syscalls.MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mmap", (0, 4096, 7, 0x22, 0, 0)),
        ("mmap", (0, 4096, 4, 0x22, 0, 0)),
        ("mmap", (0, 4096, 3, 0x21, 0, 0)),
        ("mmap", (0, 4096, 3, 0x23, 0, 0)),
        ("mmap", (0, 4096, 3, 0x02, 0, 0)),
        ("mprotect", (0, 4096, 5, 0, 0, 0)),
        ("futex", (0, 128 | 3, 0, 0, 0, 0)),
        ("futex", (0, 6, 0, 0, 0, 0)),
        ("recvfrom", (3, 0, 1, 1, 0, 0)),  # MSG_OOB
        ("sendto", (3, 0, 1, 1, 0, 0)),
        ("sendto", (3, 0, 1, 0x2000_0000, 0, 0)),  # MSG_FASTOPEN
        ("sendto", (3, 0, 1, 0, 4096, 16)),  # to an address
        ("madvise", (0, 4096, 14, 0, 0, 0)),  # MADV_HUGEPAGE
        ("mremap", (0, 4096, 4096, 3, 0, 0)),  # MREMAP_FIXED
    ],
)
def test_conditions_refuse(machine, name, arguments):
    number = getattr(syscalls.ALLOWED[name], machine)
    assert answer(machine, number, arguments) == syscalls.FAIL | errno.EPERM


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_calls_of_another_machine_kill(machine):
    for audit in (0x4000_0003, 0x4000_0028, 0, *syscalls.MACHINES.values()):  # i386, ARM
        if audit != syscalls.MACHINES[machine]:
            assert answer(machine, 0, audit=audit or 1) == syscalls.KILL
    killed = syscalls.KILL if machine == "x86_64" else syscalls.FAIL | errno.EPERM
    assert answer(machine, 0x4000_0000) == answer(machine, 0xFFFF_FFFF) == killed


def test_the_docs_count_the_attempts():
    count = sum(map(len, attacks.ATTACKS.values())) + sum(
        len(table) for table, _ in OTHERS.values()
    )
    assert f"{count} attempts in {len(attacks.ATTACKS) + len(OTHERS)} classes" in DOCS.read_text()
