"""With `--quick` a test that needs torch or another process fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NEEDY = """
import multiprocessing, os, subprocess, sys

def test_torch():
    import torch

def test_selenium():
    import selenium.webdriver

def test_process():
    subprocess.run([sys.executable, "-c", ""])

def test_fork():
    os.fork()

def test_multiprocessing():
    multiprocessing.get_context("spawn").Process(target=print).start()

def test_neither():
    pass
"""


def quick(folder, *arguments):
    command = ["-m", "pytest", "--quick", "-q", f"--basetemp={folder / 'temporary'}", *arguments]
    done = subprocess.run(
        [sys.executable, *command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_what_needs_torch_or_a_process_fails(tmp_path):
    (tmp_path / "test_needy.py").write_text(NEEDY)
    code, said = quick(tmp_path, "-p", "tests.conftest", f"--rootdir={tmp_path}", str(tmp_path))
    assert code == 1
    assert "5 failed, 1 passed" in said
    assert said.count("mark the test `slow`") >= 3
