"""Every benchmark starts: files beside it with the names of packages do not get in its way."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_a_benchmark_starts(name):
    done = subprocess.run(
        [sys.executable, FOLDER / name, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_the_trainers_benchmark_measures():
    command = [sys.executable, FOLDER / "trainer.py", "--only", "mgr", "--tasks", "1"]
    done = subprocess.run([*command, "--turns", "2"], capture_output=True, text=True, check=True)
    assert '"peak MiB"' in done.stdout.splitlines()[-1]
