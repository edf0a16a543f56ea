"""`make test` of this Makefile and conftest, on a small project with a fault of each kind."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/environ").is_file(), reason="no /proc")
pytestmark = pytest.mark.slow

STEADY = "def test_steady(): pass\n"
UNSTEADY = """from pathlib import Path

def test_unsteady(request):
    first = Path(request.config.rootpath, "build", "first")
    if not first.exists():
        first.write_text("")
        raise AssertionError
"""


LEFT_OVER = """import subprocess, sys

def test_left_over():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""
CHILD = """import subprocess, sys

def test_child():
    subprocess.run([sys.executable, "-c", "open('new', 'w')"], check=True)
"""
EXIT = "import os\ndef test(): os._exit({})\n"
FIRST = "first = not os.path.exists('build/no'); open('build/no', 'w').close()"
FEW = f"import os\n{FIRST}\nassert not first\ndef test(): pass\n"  # collected at the second try
KEPT = "import pathlib\ndef test(): pathlib.Path('new').mkdir(exist_ok=True)\n"
CRASHING = """import os, pytest

@pytest.mark.parametrize("number", range(30))
def test(number):
    path = f"build/{number}"
    if number < 8 and not os.path.exists(path):
        open(path, "w").close()
        os._exit(9)
"""
WRITER = "def test_writer(request):\n    open(request.config.rootpath / 'new', 'w').close()\n"


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """Runs `make test` on these test files: exit code and output."""
    monkeypatch.setenv("CI", "true")
    for name in ("build", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def run(**tests):
        for name in ("Makefile", "pyproject.toml", "tests/conftest.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
        for name, text in tests.items():
            (tmp_path / "tests" / f"test_{name}.py").write_text(text)
        command = ["make", "test", "WORKERS=1", f"VENV={sys.prefix}"]
        command += ["-o", f"{sys.prefix}/dev.stamp"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    return run


def test_what_passes_at_the_second_try_is_named_and_green(gate):
    code, said = gate(steady=STEADY, unsteady=UNSTEADY)
    assert code == 0, said
    assert said.count("unsteady: tests/test_unsteady.py::test_unsteady failed") == 1


@pytest.mark.long
@pytest.mark.parametrize("fault", [
    "def test_red(): assert 0\n", "import no_such_module\n", EXIT.format(3), EXIT.format(0), FEW,
    CRASHING, KEPT,
])  # fmt: skip
def test_what_fails_twice_is_red(gate, fault):
    code, said = gate(steady=STEADY, unsteady=UNSTEADY, fault=fault)
    assert code, said


@NEEDS_PROC
def test_what_leaves_something_is_named(gate):
    code, said = gate(writer=WRITER, child=CHILD, left=LEFT_OVER)
    assert code, said
    for told in ("\nleft over: process ", "\nwritten outside the folder of the run: "):
        assert said.count(told) == 1
    assert "Failed: written outside the folder of the run: " in said


@pytest.mark.long
@pytest.mark.parametrize("fault", [WRITER, CHILD, pytest.param(LEFT_OVER, marks=NEEDS_PROC)])
def test_what_leaves_something_is_red(gate, fault):
    """Even beside a test that passes at the second try."""
    code, said = gate(steady=STEADY, unsteady=UNSTEADY, fault=fault)
    assert code, said
