"""What ordinary code can do, and what the kernel refuses, as root and as an ordinary user."""

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
from agent_envs.appworld.sandbox import SandboxError, start_warden

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
SOURCES = REPOSITORY / "src", REPOSITORY
PACKAGES = [path for path in sys.path if path.endswith("site-packages")]
# The real modules and builtins instead of the sandbox's.
UNLOCK = """
import re
real = re.compile.__globals__["enum"].sys.modules
__builtins__["__import__"] = real["builtins"].__import__
__builtins__["open"] = real["io"].open
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
    start = "warden.main("
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "_BOOT", sandbox._BOOT.replace(start, f"{lines}\n{start}"))
        made = sandbox.Warden()
        patch.setattr(sandbox, "_warden_of", lambda pid: made)
        yield made
    made.close()


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("match [1, {'a': 2}]:\n  case [x, {'a': y}]: print(x, y)", "1 2"),
        (
            (
                "from dataclasses import dataclass, field, asdict\n@dataclass(order=True)\n"
                "class P:\n  x: int\n  y: list = field(default_factory=list)\n"
                "print(P(1), asdict(P(2)), P(1) < P(2))"
            ),
            "P(x=1, y=[]) {'x': 2, 'y': []} True",
        ),
        (
            (
                "from __future__ import annotations\nfrom dataclasses import dataclass, replace\n"
                "@dataclass(frozen=True, slots=True)\nclass P:\n  x: int\nprint(replace(P(1), x=2))"
            ),
            "P(x=2)",
        ),
        (
            (
                "from enum import Enum, auto\nclass C(Enum):\n  RED = auto()\n"
                "print(C.RED, C['RED'].value, [c.name for c in C])"
            ),
            "C.RED 1 ['RED']",
        ),
        (
            (
                "from typing import NamedTuple, TypedDict, get_type_hints\nclass P(NamedTuple):\n"
                "  x: 'int' = 1\nprint(P(), get_type_hints(P))"
            ),
            "P(x=1) {'x': <class 'int'>}",
        ),
        ("print('upper' in dir('a'), getattr('a', 'upper')(), hasattr(1, 'real'))", "True A True"),
        (
            "class A: pass\na = A()\nsetattr(a, 'x', 1)\nprint(vars(a), a.__dict__)",
            "{'x': 1} {'x': 1}",
        ),
        ("print(type('A', (), {'x': 1}).x, isinstance(type(1), type))", "1 True"),
        ("print(eval('1 + 1'), [].__class__.__name__, (lambda: 0).__name__)", "2 list <lambda>"),
        ("exec('x = 3')\nprint(x, globals()['x'], 'x' in locals())", "3 3 True"),
        ("print('{0.__class__.__name__} {1!r:>4}'.format(1, 'b'))", "int  'b'"),
        (
            (
                "from functools import wraps\ndef d(f):\n  @wraps(f)\n"
                "  def g(): return f()\n  return g\n"
                "@d\ndef named(): return 1\nprint(named.__name__, named())"
            ),
            "named 1",
        ),
        (
            "import operator as o\nprint(o.attrgetter('real')(3), o.methodcaller('upper')('a'))",
            "3 A",
        ),
        ("from contextlib import suppress\nwith suppress(KeyError): {}['a']\nprint(1)", "1"),
        (
            (
                "from json.decoder import JSONDecodeError\nimport json\n"
                "try: json.loads('{')\nexcept JSONDecodeError as e: print(e.pos)"
            ),
            "1",
        ),
        (
            "import io\nf = io.StringIO('a,b')\nprint(f.read(), io.open('x', 'w').close())",
            "a,b None",
        ),
        (
            "import traceback\ntry: 1 / 0\nexcept Exception: traceback.print_exc()",
            (
                'Traceback (most recent call last):\n  File "<code>", line 2, in <module>\n'
                "ZeroDivisionError: division by zero"
            ),
        ),
        ("import inspect\ndef f(a, b=1): pass\nprint(inspect.signature(f))", "(a, b=1)"),
        (
            (
                "from abc import ABC, abstractmethod\nclass A(ABC):\n  @abstractmethod\n"
                "  def f(self): ...\ntry: A()\nexcept TypeError as e: print('abstract' in str(e))"
            ),
            "True",
        ),
        (
            "from datetime import datetime\nprint(datetime.strptime('5 May 2024', '%d %b %Y').day)",
            "5",
        ),
        ("import time\nprint(time.strptime('2024', '%Y').tm_year)", "2024"),
        ("import copy\nclass A: pass\na = A()\na.x = [1]\nprint(copy.deepcopy(a).x)", "[1]"),
        (
            (
                "try:\n  raise ExceptionGroup('g', [ValueError(1)])\n"
                "except* ValueError as g: print(len(g.exceptions))"
            ),
            "1",
        ),
        (
            (
                "async def f(): return 1\nc = f()\ntry: c.send(None)\n"
                "except StopIteration as e: print(e.value)"
            ),
            "1",
        ),
        (
            "print(memoryview(b'ab')[1], frozenset('a'), NotImplementedError.__mro__[1].__name__)",
            "98 frozenset({'a'}) RuntimeError",
        ),
        ("x = " + "+".join(["'a'"] * 900) + "\nprint(len(x))", "900"),
    ],
)
def test_ordinary_python(code, printed):
    assert execute(code) == printed


@pytest.mark.parametrize("name", ["os", "sys", "subprocess", "agent_envs", "numpy"])
def test_modules_that_are_not_there(name):
    output = execute(f"import {name}")
    assert (
        f"ModuleNotFoundError: there is no module '{name}' in the sandbox; modules are " in output
    )
    assert "abc, array, ast" in output


def test_input_is_empty():
    assert "EOFError" in execute("input()")


def test_a_traceback_shows_lines_of_earlier_turns():
    interpreter = Interpreter("2024-05-03T10:30:00", "", timeout=20)
    interpreter.execute("def inverse(x):\n    return 1 / x", None)
    assert interpreter.execute("# none\n# none\ninverse(0)", None) == (
        "Execution failed. Traceback:\n"
        '  File "<code>", line 3, in <module>\n    inverse(0)\n'
        '  File "<code>", line 2, in inverse\n    return 1 / x\n'
        "ZeroDivisionError: division by zero"
    )
    interpreter.close()


def test_what_changes_modules_has_no_readable_key():
    """Two ways to one state may have two keys, but two states never have one."""
    keys = set()
    for code in (
        "x = 1",
        "import json\njson.dumps = 1\nx = 1",
        "import json\nvars(json)['dumps'] = 1\nx = 1",
        "import json\njson.__dict__['dumps'] = 1\nx = 1",
        "import json\ngetattr(json, '__di' + 'ct__')['dumps'] = 1\nx = 1",
        "import json\nexec('json.dumps = 1')\nx = 1",
        "import json\nmatch json:\n  case object(__dict__=d): d['dumps'] = 1\ndel d\nx = 1",
        "import json, operator as o\no.attrgetter('__dict__')(json)['dumps'] = 1\nx = 1",
        "del apis\nx = 1",
        "__name__ = 'other'\nx = 1",
        "import copy, json\nx = 1",
        (
            "import copy, json\nclass A:\n  def __reduce_ex__(self, _):\n"
            "    return lambda: json, (), {'dumps': 1}\ncopy.copy(A())\ndel A\nx = 1"
        ),
    ):
        interpreter = Interpreter("2024-05-03T10:30:00", "", timeout=20)
        assert interpreter.execute(code, None) == "Execution successful."
        keys.add(interpreter.key)
        interpreter.close()
    assert len(keys) == 12


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
    names = ["apis", "apis.notes", "apis.notes.login", "tell", "open", "print", "type"]
    lines = [TEXTS]
    for module in modules.MODULES:
        lines += [f"import {module}", f"fail(lambda: {module}.nothing)", f"tell({module})"]
        skipped = {"sleep", "help", "main"}
        names += [f"{module}.{name}" for name in modules.list_public(module) if name not in skipped]
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
def test_refused_by_the_kernel(attempt):
    name = f"\0agent-envs-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(name)
        abstract.listen()
        code = UNLOCK + ATTEMPTS[attempt].format(
            repository=str(REPOSITORY / "CONTRIBUTING.md"),
            port=server.getsockname()[1],
            abstract=name,
            pid=os.getpid(),
        )
        other = Interpreter("2024-05-03T10:30:00", "", timeout=20)
        other.execute("x = 1", None)
        pid = other._process.number
        keeper = start_warden()
        assert "Execution failed" in execute(code)
        assert other.execute("print(x)", None) == "1"
        assert other._process.number == pid
        other.close()
    assert start_warden() is keeper
    assert keeper.alive


def test_agent_code_is_nobody():
    told = execute(f"{UNLOCK}import os\nprint(os.getuid(), os.getgid(), os.getpid())")
    assert told == "65534 65534 1"  # an unknown user, who sees no process but their own


NO_JAIL = """
from agent_envs.appworld.guest import jail, syscalls
jail.enter = lambda: {"namespaces": "none here"}
jail.hide_files = lambda root: {"empty root folder": "none here"}
jail.Cells.fork = lambda self: jail.os.fork()
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


@pytest.mark.parametrize(
    ("platform", "marker", "remedy"),
    [
        ("darwin", None, "use Linux, in a virtual machine or a container"),
        ("linux", "/.dockerenv", "give the container a seccomp profile"),
        ("linux", "/run/.containerenv", "give the container a seccomp profile"),
        ("linux", None, "sysctl user.max_user_namespaces"),
    ],
)
def test_the_remedy_depends_on_the_machine(monkeypatch, platform, marker, remedy):
    monkeypatch.setattr(sandbox.sys, "platform", platform)
    monkeypatch.setattr(sandbox.Path, "exists", lambda self: str(self) == marker)
    assert remedy in sandbox._find_remedy()


def test_a_warden_that_cannot_start():
    with (
        pytest.raises(SandboxError, match="the sandbox's warden did not start"),
        warden_with("raise SystemExit(1)\n"),
    ):
        pass


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
    ("file", "part"),
    [
        ("test_sandbox.py", "by_the_kernel or nobody or ordinary_user"),
        ("test_attacks.py", "sent_before or between or no_key"),
        pytest.param("test_attacks.py", "held or left or alone", marks=pytest.mark.long),
        pytest.param("test_sandbox.py", "test", marks=pytest.mark.long),
        pytest.param("test_attacks.py", "test", marks=pytest.mark.long),
        pytest.param("test_ends.py", "test", marks=pytest.mark.long),
    ],
)
def test_all_of_this_as_an_ordinary_user(file, part):
    command = [
        python_of_all(),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        Path(__file__).with_name(file),
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
            "PYTHONPATH": os.pathsep.join([*map(str, SOURCES), *PACKAGES]),
        },
        **ORDINARY,
    )
    assert child.returncode == 0, child.stdout[-3000:] + child.stderr[-500:]
    last = child.stdout.splitlines()[-1]
    assert ("skipped" in last) == (file == "test_sandbox.py")  # only this test itself
