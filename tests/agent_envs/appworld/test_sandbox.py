"""Escape attempts, by Python's rules and by the kernel's, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent_envs.appworld import sandbox
from agent_envs.appworld.guest import modules
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.sandbox import SandboxError, warden

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
SOURCES = REPOSITORY / "src", REPOSITORY
NOT_ALLOWED = "is not allowed in the sandbox"
# A warden whose interpreters check nothing and hand out Python's own builtins and modules.
LAWLESS = """
from agent_envs.appworld.guest import run
import builtins, ctypes, importlib, multiprocessing, os, pty, shutil, signal, socket, subprocess
import tempfile, threading
run.check = lambda tree: None
run._namespace = lambda channel, now, seed: {
    "__name__": "__main__", "__builtins__": vars(builtins).copy(), "channel": channel
}
from agent_envs.appworld.guest import warden
"""


def execute(code, timeout=20):
    """What code prints, and what the code after it does."""
    interpreter = Interpreter("2024-05-03T10:30:00", "", timeout=timeout)
    try:
        output = interpreter.execute(code, lambda *call: {"value": None})
        assert interpreter.execute("print('on')", lambda *call: {"value": None}) == "on"
    finally:
        interpreter.close()
    return output


@contextmanager
def warden_with(lines):
    """The warden of this process is one that was started with other lines before its own."""
    import_warden = "from agent_envs.appworld.guest import warden\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "_BOOT", sandbox._BOOT.replace(import_warden, lines))
        made = sandbox.Warden()
        patch.setattr(sandbox, "_of_process", lambda pid: made)
        yield made
    made.close()


@pytest.fixture(scope="module")
def lawless():
    """A warden without Python's rules; skips, and says why, where the kernel has none either."""
    with warden_with(LAWLESS) as made:
        missing = [name for name, holds in made.enforced.items() if not holds]
        if missing:
            pytest.skip(f"this kernel does not isolate agent code from {missing}")
        yield made


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import os", "importing os"),
        ("import sys", "importing sys"),
        ("import socket, json", "importing socket"),
        ("from subprocess import run", "importing subprocess"),
        ("import importlib", "importing importlib"),
        ("import ctypes", "importing ctypes"),
        ("import signal", "importing signal"),
        ("import threading", "importing threading"),
        ("import gc", "importing gc"),
        ("import inspect", "importing inspect"),
        ("import pickle", "importing pickle"),
        ("import agent_envs", "importing agent_envs"),
        ("import dataclasses", "importing dataclasses"),
        ("from enum import Enum", "importing enum"),
        (
            "import typing\ntyping.get_args(list['x'])[0]._evaluate({}, {})",
            "the attribute _evaluate",
        ),
        ("import re\ntype(re.I)._convert_('X', 'os', bool)", "the attribute _convert_"),
        ("from . import run", "importing ."),
        ("from json import __loader__", "importing __loader__"),
        ("print(().__class__)", "the attribute __class__"),
        ("print(int.__subclasses__())", "the attribute __subclasses__"),
        ("print((lambda: 0).__globals__)", "the attribute __globals__"),
        ("print(apis.__dict__)", "the attribute __dict__"),
        ("print(print.__self__)", "the attribute __self__"),
        ("g = (i for i in [1])\nprint(g.gi_frame)", "the attribute gi_frame"),
        ("print(g.gi_frame.f_back)", "the attribute f_back"),
        ("print(e.tb_frame)", "the attribute tb_frame"),
        ("print(__builtins__)", "the name __builtins__"),
        ("__import__('os').system('ls')", "the name __import__"),
        ("print(getattr((), '__cla' + 'ss__'))", "the attribute __class__"),
        ("setattr(apis, '__getattr__', print)", "the attribute __getattr__"),
        ("print('{0.__globals__}'.format(lambda: 0))", "the attribute __globals__"),
        ("x = '{0.__code__.co_filename}'\nx.format(apis.notes.login)", "the attribute __code__"),
        ("print(str.format('{0.__class__}', 1))", "the attribute __class__"),
        ("print('{a.b[0].__class__}'.format_map({'a': 1}))", "the attribute __class__"),
        ("print(str.format_map('{a.__class__}', {'a': 1}))", "the attribute __class__"),
        ("print('{0:{1.__class__}}'.format(1, 2))", "the attribute __class__"),
        ("print('{0.__class__} {'.format(1))", "the attribute __class__"),
        ("print('{0.gi_code}'.format(i for i in 'a'))", "the attribute gi_code"),
        ("print(getattr('{0.__class__}', 'for' + 'mat')(1))", "the attribute __class__"),
        ("print(*map('{0.__class__}'.format, [1]))", "the attribute __class__"),
        ("f = 'x'.format\nprint(f.__method__)", "the attribute __method__"),
        ("print('{0.__method__}'.format('x'.format))", "the attribute __method__"),
        (
            "class S(str):\n  def f(self): return super().format(1)\nS('{0.__class__}').f()",
            "the attribute __class__",
        ),
        ("print(f'{print.__self__}')", "the attribute __self__"),
        ("print(__reach__)", "the name __reach__"),
        ("match 1:\n  case object(__class__=c): print(c)", "the syntax Match"),
        ("async def f(): pass", "the syntax AsyncFunctionDef"),
    ],
)
def test_refused_by_the_rules(code, what):
    output = execute(code)
    assert f"{what} {NOT_ALLOWED}" in output or f"{what} as None {NOT_ALLOWED}" in output
    assert output.startswith("Execution failed. Traceback:\n")


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (
            "print('{} {1!r:>4} {a.real:{w}}'.replace('{}', '{0}').format(1, 'b', a=3, w=2))",
            "1  'b'  3",
        ),
        ("print('{a[b]}'.format_map({'a': {'b': 1}}), str.format('{:02d}', 7))", "1 07"),
        ("print('{0[__class__]}'.format({'__class__': 1}))", "1"),
        ("print(*map('<{}>'.format, 'ab'), getattr('{}', 'format')(1))", "<a> <b> 1"),
        ("class A:\n  format = 1\na = A()\na.format += 1\nprint(a.format)", "2"),
        ("class A:\n  def format(self, x): return x\nprint(A().format('{0.__x__}'))", "{0.__x__}"),
        ("print('x'.format)", "<built-in method format of str object at 0x>"),
        (
            "import string\nprint(string.Template('$a ${b.__class__}').safe_substitute(a=1))",
            "1 ${b.__class__}",
        ),
        ("x = " + "+".join(["'a'"] * 900) + "\nprint(len(x))", "900"),
    ],
)
def test_texts_are_formatted_as_usual(code, printed):
    assert execute(code) == printed


TEXTS = """
def tell(thing, deep=2):
    for show in (repr, str, "{0!r} {0!s}".format):
        try:
            print(show(thing))
        except Exception as error:
            print(repr(error), error)
    for name in ("args", "code", "doc", "fget", "filename", "func", "msg", "name", "name_from",
                 "obj", "path", "pattern", "print_file_and_line", "text", "value"):
        try:
            part = getattr(thing, name)
        except Exception as error:
            print(error)
        else:
            if deep:
                tell(part, deep - 1)
def fail(work):
    try:
        work()
    except BaseException as error:
        tell(error)
"""
LOOKS = """
tell({name})
fail(lambda: {name}.nothing)
fail({name})
fail(lambda: {name}(1))
fail(lambda: {name}("a", nothing=1))
"""


def test_no_text_has_a_path_of_the_host():
    """What modules, their parts and errors show; the jail's own folder is the root of all."""
    names = [
        "apis",
        "apis.notes",
        "apis.notes.login",
        "tell",
        "open",
        "print",
        "type",
        "'x'.format",
    ]
    lines = [TEXTS]
    for module in modules.MODULES:
        lines += [f"import {module}", f"fail(lambda: {module}.nothing)", f"tell({module})"]
        skipped = {"sleep", "help", "main"}
        names += [f"{module}.{name}" for name in modules.public(module) if name not in skipped]
    lines += [LOOKS.format(name=name) for name in names]
    lines += ["open('x')", "from json import nothing", "1 +", "raise SystemExit(open)", "import os"]
    library = str(Path(os.__file__).parent)
    hidden = [str(REPOSITORY), sys.prefix, sys.base_prefix, library, *site.getsitepackages()]
    interpreter = Interpreter("2024-05-03T10:30:00", "", timeout=20)
    told = [interpreter.execute(code, lambda *call: {"value": None}) for code in lines]
    interpreter.close()
    assert len("".join(told)) > 100_000
    for code, text in zip(lines, told, strict=True):
        assert not [path for path in hidden if path in text], (code, text)


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')",
        "exec('x = 1')",
        "compile('1', '', 'eval')",
        "globals()",
        "vars()",
        "input()",
        "breakpoint()",
        "memoryview(b'')",
    ],
)
def test_what_is_no_builtin(code):
    assert "NameError" in execute(code)


@pytest.mark.parametrize(
    "code",
    [
        "import random\nrandom._os.system('ls')",
        "import json\njson.decoder.scanner",
        "import collections\ncollections._sys.modules",
        "import calendar\ncalendar.sys",
        "import functools\nfunctools.update_wrapper",
        "from functools import wraps\nwraps(print, assigned=['__globals__'])",
        "import calendar\ncalendar.global_enum",
        "import time\ntime.clock_gettime(0)",
        "import typing\ntyping.get_type_hints",
        "import string\nstring.Formatter",
        "import operator\noperator.attrgetter",
        "import random\nrandom.SystemRandom",
        "apis._channel.x.y",
        "type('A', (), {})",
    ],
)
def test_what_modules_and_objects_do_not_lead_to(code):
    output = execute(code)
    assert "Execution failed" in output or "None" in output
    fine = "AttributeError", "TypeError", "ImportError: cannot import name 'wraps'"
    assert any(f in output for f in fine) or output == "Execution successful."


def test_an_attribute_of_a_tricky_name_is_refused():
    code = "class S(str):\n  def startswith(self, x): return False\ngetattr((), S('__class__'))"
    assert "TypeError: an attribute's name is a string, got S" in execute(code)


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("x = 'a' * 10**10", "MemoryError"),
        ("x = []\nwhile True: x.append('a' * 10**6 + str(len(x)))", "MemoryError"),
        ("x = 10 ** 10 ** 8", "timed out after 1 seconds"),
        ("while True: pass", "timed out after 1 seconds"),
        ("while True:\n  try:\n    while True: pass\n  except BaseException: pass", "timed out"),
        ("import re\nre.match('(a*)*b', 'a' * 50)", "timed out after 1 seconds"),
        ("sum(range(10**12))", "timed out after 1 seconds"),
        ("def f(): f()\nf()", "RecursionError"),
    ],
)
def test_bombs(code, limit):
    assert limit in execute(code, timeout=1 if "timed out" in limit else 20)


def test_a_flood_of_output_is_cut():
    assert "[cut: the first 20000 of" in execute("print('x' * 10**7)")


def test_builtins_are_made_anew_for_each_execution():
    assert execute("def __builtins__(): pass") == "Execution successful."


# What it does once all rules are got around; each must print that it failed, and how.
ATTEMPTS = {
    "read": "print(open({repository!r}).read())",
    "read the machine": "print(open('/etc/passwd').read())",
    "list": "import os\nprint(os.listdir('/') or 1 / 0)",
    "climb": "import os\nos.chdir('..')\nprint(os.listdir('.') or 1 / 0)",
    "write": "open('/file', 'w').write('x')",
    "make a folder": "import os\nos.mkdir('/folder')",
    "chroot": "import os\nos.chroot('/')",
    "become root": "import os\nos.setuid(0)",
    "connect": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)",
    "connect abroad": "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)",
    "look up": "import socket\nsocket.getaddrinfo('example.com', 80)",
    "connect by name": "import socket\nsocket.socket(socket.AF_UNIX).connect({abstract!r})",
    "fork": "import os\nprint(os.fork())",
    "fork bomb": "import os\nwhile True: os.fork()",
    "shell": "import os\n1 / (os.system('ls') == 0)",
    "run": "import subprocess\nsubprocess.run(['/bin/ls'])",
    "thread": "import threading\nthreading.Thread(target=print).start()",
    "processes": "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "kill the trainer": "import os\nos.kill({pid}, 9)",
    "kill the warden": "import os\nos.kill(os.getppid(), 9)\nos.kill(os.getppid(), 0)\n1 / 0",
    "kill the others": (
        "import os\nfor pid in range(2, 300):\n  try: os.kill(pid, 9)\n"
        "  except ProcessLookupError: pass\n"
        "  else: raise SystemError\nos.kill(0, 9)\nos.kill(-1, 9)"
    ),
    "starve the others": (
        "import resource\nfor pid in range(2, 300):\n"
        "  try: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0))\n"
        "  except ProcessLookupError: pass\n  else: raise SystemError\n1 / 0"
    ),
    "write to the trainer's terminal": (
        "import os\n1 / (os.fstat(2).st_rdev != os.fstat(1).st_rdev)"
    ),
    "more memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))\nprint('got it')"
    ),
    "capabilities": "import ctypes\n1 / (1 + ctypes.CDLL(None).unshare(0x10000000))",
    "mount": "import ctypes\n1 / (1 + ctypes.CDLL(None).mount(b'proc', b'/', b'proc', 0, 0))",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_refused_by_the_kernel(lawless, attempt):
    name = f"\0agent-envs-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(name)
        abstract.listen()
        code = ATTEMPTS[attempt].format(
            repository=str(REPOSITORY / "CONTRIBUTING.md"),
            port=server.getsockname()[1],
            abstract=name,
            pid=os.getpid(),
        )
        other = Interpreter("2024-05-03T10:30:00", "", timeout=20)
        other.execute("x = 1", None)
        pid = other._process.number
        assert "Execution failed" in execute(code)
        assert other.execute("print(x)", None) == "1"
        assert other._process.number == pid
        other.close()
    assert warden() is lawless
    assert lawless.alive


def test_agent_code_is_nobody(lawless):
    told = execute("import os\nprint(os.getuid(), os.getgid(), os.getgroups(), os.getpid())")
    assert told == "65534 65534 [] 1"  # an unknown user, who sees no process but their own


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(3)",
        "import os\nos.abort()",
        "channel.sendall(b'xxxxxxxx')",
        "channel.sendall(b'\\0\\0\\0\\2[]')",
        "channel.sendall(b'\\xff' * 8)",
        "channel.close()",
        "import os\nos.close(channel.fileno())",
    ],
)
def test_a_broken_interpreter_is_the_codes_fault(lawless, code):
    interpreter = Interpreter("2024-05-03T10:30:00", "", timeout=20)
    nothing = lambda *call: {"value": None}  # noqa: E731
    interpreter.execute("x = 1", nothing)
    output = interpreter.execute(code, nothing)
    assert "Exception: The interpreter ended while the code ran (" in output
    assert interpreter.execute("print(x)", nothing) == "1"


def test_signal_handlers_do_not_stop_the_watchdog(lawless):
    code = (
        "import signal\nfor s in range(1, 60):\n"
        "  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
        "while True: pass"
    )
    assert "timed out after 1 seconds" in execute(code, timeout=1)


NO_JAIL = """
from agent_envs.appworld.guest import jail, warden
jail.enter = lambda: None
jail.shut = lambda root: None
jail.Cells.fork = lambda self: jail.os.fork()
"""


def test_what_the_kernel_does_not_enforce_is_said():
    missing = "network, files, processes"
    with warden_with(NO_JAIL):
        with pytest.raises(SandboxError, match=f"isolate agent code from {missing}: allow"):
            warden()
        with pytest.warns(
            RuntimeWarning, match=f"own rules isolate agent code from {missing} here"
        ):
            assert not any(warden("best-effort").enforced.values())


def test_a_sandbox_of_another_name():
    with pytest.raises(ValueError, match="did you mean 'strict'"):
        warden("strickt")


def test_a_warden_that_cannot_start():
    with (
        pytest.raises(SandboxError, match="the sandbox's warden did not start"),
        warden_with("raise SystemExit(1)\n"),
    ):
        pass


PROGRAM = """
import sys, time
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.sandbox import warden
made = [Interpreter("2024-05-03T10:30:00", "", timeout=100) for _ in range(3)]
for one in made:
    one.execute("x = 1", None)
print(warden().pid, flush=True)
made[0].execute("while True: pass", None)
"""


def living():
    """All processes that are not zombies, each with the one that started it."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [line.split() for line in listed]
    return {int(pid): int(parent) for pid, parent, state in rows if state[0] != "Z"}


def family(pid):
    """A process and all below it."""
    found, parents = {pid}, living()
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found & parents.keys()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_trainer(how):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as trainer:
        pid = int(trainer.stdout.readline())
        started = family(pid)
        assert len(started) == 5  # the warden is two processes
        trainer.send_signal(how)
        trainer.wait()
    for _ in range(500):
        if not started & living().keys():
            return
        time.sleep(0.01)
    raise AssertionError(started & living().keys())


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
@pytest.mark.parametrize(
    "part",
    [
        "by_the_kernel or nobody or ordinary_user",
        pytest.param("test", marks=pytest.mark.long, id="all"),
    ],
)
def test_all_of_this_as_an_ordinary_user(part):
    command = [
        python_of_all(),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        __file__,
        "-k",
        part,
    ]
    child = subprocess.run(
        [*command, "--rootdir", REPOSITORY, "-c", REPOSITORY / "pyproject.toml"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([*map(str, SOURCES), *site.getsitepackages()]),
        },
        **ORDINARY,
    )
    assert child.returncode == 0, child.stdout[-3000:] + child.stderr[-500:]
    assert "2 skipped" in child.stdout.splitlines()[-1]
