"""Every end of an interpreter is attributed to its cause: the agent's code, or the machine."""

import copy
import errno
import os
import resource
import signal
import tomllib
from pathlib import Path

import pytest
from attacks import ESCAPE, below, start, warden_with

from agent_envs.appworld import sandbox
from agent_envs.appworld.sandbox import SandboxError, start_warden

pytestmark = pytest.mark.slow

CODE = {
    end["name"]: end
    for end in tomllib.loads(Path(__file__).with_name("code.toml").read_text())["ends"]
}
LONG = {"value": "x" * 3_900_000}
FULL = "x = []\ntry:\n  while True: x.append(bytes(480))\nexcept MemoryError: pass\n"
ENDED = "Exception: The interpreter ended while the code ran"


@pytest.mark.parametrize("name", CODE)
def test_the_agents_end(monkeypatch, name):
    code, told, kept = (CODE[name].get(key) for key in ("code", "output", "kept"))
    reply = LONG if "a reply" in name else {"value": 1}
    interpreter = start(30, "first = 1")
    with monkeypatch.context() as patch:
        patch.setattr(interpreter, "_rebuild", None)  # the code does not run again
        output = interpreter.execute(code, lambda *call: reply)
    assert told in output
    assert ("Its variables are lost" in output) == (kept is False)
    if kept is not None:
        assert ("NameError" in interpreter.execute("x", None)) is (not kept)
    assert interpreter.execute("print(first)", None) == "1"
    assert not interpreter.lost


def test_an_interpreter_with_full_memory_goes_on_and_so_does_a_copy():
    first = start(30, f"{FULL}while len(x) > 100_000: x.pop()")
    second = copy.copy(first)
    assert [one.execute("print(len(x))", None) for one in (first, second)] == ["100000"] * 2
    assert first.key == second.key
    assert first.execute("del x\nprint(len(bytes(10**8)))", None) == "100000000"


def test_cpu_time_is_the_agents_although_its_end_is_a_kill():
    code = "apis.a.b()\nwhile True: pass"
    calls = []
    with warden_with("from agent_envs.appworld.guest import ends\nends.CPU = 1"):
        interpreter = start(100, "x = 1")
        output = interpreter.execute(code, lambda *call: calls.append(call) or {"value": 1})
        assert f"{ENDED} (it used its 1 seconds of CPU time)." in output
        assert interpreter.execute("print(x)", None) == "1"
    assert len(calls) == 1


LATE = """
rest, os = warden.Forker._rest, warden.os
def late(self, pid):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return rest(self, pid)
warden.Forker._rest = late
"""
SLOW = """
import time
rest = warden.Forker._rest
warden.Forker._rest = lambda self, pid: time.sleep(0.5) or rest(self, pid)
"""
SAY = """
talk = next(one for one in modules["gc"].get_objects() if type(one).__name__ == "_World")
talk.say({"output": "", "variables": ""})
"""
WAIT = "end = modules['time'].monotonic() + 0.1\nwhile modules['time'].monotonic() < end: pass"


@pytest.mark.parametrize(
    ("lines", "then", "told"),
    [
        (LATE, "modules['os']._exit(5)", "exit status 5"),
        (SLOW, f"{WAIT}{SAY}\nwhile True: pass", "it sent a message that was not asked for"),
    ],
)
def test_what_comes_after_the_result_fails_its_own_turn(lines, then, told):
    with warden_with(lines):
        interpreter = start(30)
        assert f"{ENDED} ({told})." in interpreter.execute(f"{ESCAPE}{SAY}{then}", None)
        assert interpreter.journal == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_from_outside_is_the_machines(number):
    """It costs nothing: the code runs again with the recorded replies."""
    calls = []

    def once(*call):
        calls.append(call)
        if len(calls) == 1:
            os.kill(below(start_warden().pid)[-1], number)
            # the first of a space has no SIGTERM
            os.kill(below(start_warden().pid)[-1], signal.SIGKILL)
        return {"value": len(calls)}

    interpreter = start(30)
    assert interpreter.execute("print(apis.a.b(), apis.a.b())", once) == "1 2"


REFUSE = """
fork, forks = warden.jail.Cells.fork, []
def refused(self):
    forks.append(1)
    if len(forks) > 1:  # the first is the probe
        raise OSError({number}, "")
    return fork(self)
warden.jail.Cells.fork = refused
"""
LOW = """
def refused(): raise ValueError("too high")
probed = warden._probe
def then(*given):
    told = probed(*given)
    warden.jail.drop = refused
    return told
warden._probe = then
"""
REFUSALS = [
    (REFUSE.format(number=errno.EAGAIN),
     r"process for an interpreter: .* \(EAGAIN\); raise its limit"),
    (REFUSE.format(number=errno.ENOMEM), r"process for an interpreter: .* \(ENOMEM\); free memory"),
    (REFUSE.format(number=errno.ENOSYS), r"process for an interpreter: .* \(ENOSYS\)$"),
    ("import os\ndef refused(): raise BlockingIOError(11, '')\nos.fork = refused",
     r"a process to the sandbox's warden: .* \(EAGAIN\); raise its limit of processes"),
    ("raise SystemExit(3)", r"the sandbox's warden did not start .*it ended before it was ready"),
    ("warden.run.serve = lambda *given: warden.os._exit(7)",
     r"an interpreter ended as it started, before any code ran \(exit status 7\)"),
    (LOW, r"this machine refused an interpreter its limits: ValueError: too high"),
    ("warden.socket.recv_fds = lambda channel, size, most: (channel.recv(size), [], 0, '')",
     r"refused a process for an interpreter: .* \(EMFILE\)"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "told"), REFUSALS)
def test_what_the_machine_refuses_is_no_fault_of_the_agent(lines, told):
    interpreter = start(30)
    with pytest.raises(SandboxError, match=told), warden_with(lines):
        interpreter.execute("x = 1", None)
    assert interpreter.execute("print(1)", None) == "1"  # the machine has room again


@pytest.mark.parametrize(
    ("what", "number", "told"),
    [
        ("_launch", errno.EAGAIN, r"needs to start: .* \(EAGAIN\); raise its limit of processes"),
        ("tempfile.mkdtemp", errno.ENOSPC, r"needs to start: .* \(ENOSPC\); free space"),
        ("tempfile.mkdtemp", errno.ENOENT, r"needs to start: .* \(ENOENT\); set TMPDIR to"),
    ],
)
def test_what_the_machine_refuses_to_a_warden(monkeypatch, what, number, told):
    def refused(*given):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"agent_envs.appworld.sandbox.{what}", refused)
    with pytest.raises(SandboxError, match=told):
        sandbox.Warden()


def test_no_descriptor_left_in_this_process():
    interpreter = start(30)
    start_warden()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(SandboxError, match=r"\(EMFILE\); raise the limit of open files"):
            interpreter.execute("x = 1", None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert interpreter.execute("print(1)", None) == "1"
