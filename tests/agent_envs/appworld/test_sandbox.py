"""What the sandbox shows and holds, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from attacks import ESCAPE, REPOSITORY, below, needs_strangers, reply_none, start, warden_with

from agent_envs.appworld.guest import modules
from agent_envs.appworld.sandbox import SandboxError, start_warden

pytestmark = pytest.mark.slow

CODE = tomllib.loads(Path(__file__).with_name("code.toml").read_text())["tables"]
PACKAGES = [path for path in sys.path if path.endswith("site-packages")]


def test_what_changes_modules_has_no_readable_key():
    """Two ways to one state may have two keys, but two states never have one."""
    keys = set()
    for code in CODE["meddling"]:
        interpreter = start()
        assert interpreter.execute(code, None) == "Execution successful."
        keys.add(interpreter.key)
    assert len(keys) == 12


def test_no_text_has_a_path_of_the_host():
    """What modules, their parts and errors show; the jail's own folder is the root of all."""
    names = ["apis", "apis.notes", "apis.notes.login", "tell", "open", "print", "type"]
    lines = [CODE["tell"]]
    for module in modules.MODULES:
        lines += [f"import {module}", f"fail(lambda: {module}.nothing)", f"tell({module})"]
        skipped = {"sleep", "help", "main"}
        names += [f"{module}.{name}" for name in modules.list_public(module) if name not in skipped]
    lines += [CODE["looks"].format(name=name) for name in names]
    lines += ["open('x')", "from json import nothing", "1 +", "raise SystemExit(open)", "import os"]
    library = str(Path(os.__file__).parent)
    hidden = [str(REPOSITORY), sys.prefix, sys.base_prefix, library, *site.getsitepackages()]
    interpreter = start()
    told = [interpreter.execute(code, reply_none) for code in lines]
    assert len("".join(told)) > 100_000
    for code, text in zip(lines, told, strict=True):
        assert not [path for path in hidden if path in text], (code, text)


# What only a live trainer, warden or interpreter shows; each must print that it failed, and how.
ATTEMPTS = {
    "connect": "socket.create_connection(('127.0.0.1', {port}), 2)",
    "connect by name": "socket.socket(socket.AF_UNIX).connect({abstract!r})",
    "fork bomb": "while True: os.fork()",
    "kill the trainer": "os.kill({pid}, 9)",
    "kill the warden": "os.kill(os.getppid(), 9)\nos.kill(os.getppid(), 0)\n1 / 0",
    "kill the others": (
        "for pid in range(2, 300):\n  try: os.kill(pid, 9)\n  except ProcessLookupError: pass\n"
        "  else: raise SystemError\nos.kill(0, 9)\nos.kill(-1, 9)"
    ),
    "starve the others": (
        "resource = modules['resource']\nfor pid in range(2, 300):\n"
        "  try: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0))\n"
        "  except ProcessLookupError: pass\n  else: raise SystemError\n1 / 0"
    ),
    "write to the trainer's terminal": "1 / (os.fstat(2).st_rdev != os.fstat(1).st_rdev)",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_refused_by_the_kernel(attempt):
    name = f"\0agent-envs-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(name)
        abstract.listen()
        port = server.getsockname()[1]
        code = ATTEMPTS[attempt].format(port=port, abstract=name, pid=os.getpid())
        attacker, other = start(), start()
        other.execute("x = 1", None)
        pid, keeper = other._process.number, start_warden()
        code = f"{ESCAPE}os, socket = modules['os'], modules['socket']\n{code}"
        assert "Execution failed" in attacker.execute(code, reply_none)
        assert attacker.execute("print('on')", reply_none) == "on"
        assert other.execute("print(x)", None) == "1"
        assert other._process.number == pid
    assert start_warden() is keeper
    assert keeper.alive


NO_JAIL = """
from agent_envs.appworld.guest import jail, syscalls
jail.enter = lambda: {"namespaces": "none here"}
jail.hide_files = lambda root: {"empty root folder": "none here"}
jail._PID = 0
jail.drop = lambda: {"seccomp": "none here"}
"""


def test_what_the_kernel_does_not_enforce_is_said():
    missing = "network, files, processes, shared objects, kernel interfaces, memory"
    told = f"this machine does not protect {missing}"
    with warden_with(NO_JAIL):
        with pytest.raises(SandboxError, match=f"{told}.* agent code .*seccomp: none here"):
            start_warden()
        with pytest.warns(RuntimeWarning, match=f"{told}.*; do not run malicious code"):
            found = start_warden("best-effort")
        assert not any(found.enforced[name] for name in missing.split(", "))
        assert set(found.lacking) == {"namespaces", "empty root folder", "seccomp"}


PROGRAM = """
import sys, time
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.sandbox import start_warden
made = [Interpreter("2024-05-03T10:30:00", "", timeout=100) for _ in range(3)]
for one in made:
    one.execute("x = 1", None)
print(start_warden().pid, flush=True)
made[0].execute("while True: pass", None)
"""


def lives(pid):
    """Whether a process is there, and no zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_trainer(how):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as trainer:
        pid = int(trainer.stdout.readline())
        started = {pid, *below(pid)}
        assert len(started) == 6  # the warden is three processes
        trainer.send_signal(how)
        trainer.wait()
    for _ in range(500):
        if not any(map(lives, started)):
            return
        time.sleep(0.01)
    raise AssertionError(started)


def python_of_all() -> str:
    """A Python that an ordinary user can run, of this one's version."""
    version = f"python3.{sys.version_info.minor}"
    for name in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin")):
        with suppress(OSError, TypeError):
            tried = subprocess.run([name, "-c", ""], check=False, **ORDINARY)
            if tried.returncode == 0:
                return name
    pytest.skip(f"no {version} that an ordinary user can run; {sys.executable} is root's own")


ORDINARY = {"user": 12_345, "group": 12_345, "extra_groups": []}


@pytest.mark.skipif(os.getuid() != 0, reason="it is an ordinary user that runs this already")
@needs_strangers
@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("test_sandbox.py", "by_the_kernel or ordinary_user"),
        pytest.param("test_attacks.py", "held or costs_only or alone", marks=pytest.mark.long),
        pytest.param("test_sandbox.py", "test", marks=pytest.mark.long),
        pytest.param("test_attacks.py", "test", marks=pytest.mark.long),
        pytest.param("test_ends.py", "test", marks=pytest.mark.long),
    ],
)
def test_all_of_this_as_an_ordinary_user(file, part):
    command = [python_of_all(), *["-m", "pytest", "-q", "-p", "no:cacheprovider"], "-k", part]
    command += [Path(__file__).with_name(file), "--rootdir", REPOSITORY]
    child = subprocess.run(
        [*command, "-c", REPOSITORY / "pyproject.toml"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY), *PACKAGES]),
        },
        **ORDINARY,
    )
    assert child.returncode == 0, child.stdout[-3000:] + child.stderr[-500:]
    last = child.stdout.splitlines()[-1]
    assert ("skipped" in last) == (file == "test_sandbox.py")  # only this test itself
