"""One training in a folder at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from agent_envs.machine import LOCK, FolderLock, LockedError
from trainer.train import train

from .conftest import quiet, short

HOLD = """
import sys, time
from pathlib import Path
from agent_envs.machine import FolderLock
lock = FolderLock(Path(sys.argv[1]))
lock.take()
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock of `tmp_path`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_training_is_refused_in_one_line(holder, tmp_path, tiny_folder):
    before = sorted(tmp_path.iterdir())
    message = rf"^{tmp_path} is in use: another process .* .process {holder.pid} on .*--out DIR$"
    for resume in (False, True):
        with pytest.raises(LockedError, match=message):
            train(short(tiny_folder), tmp_path, resume=resume, console=quiet())
    assert sorted(tmp_path.iterdir()) == before


def test_a_killed_process_leaves_no_lock(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).is_file()
    with closing(FolderLock(tmp_path)) as lock:
        lock.take()
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()


@pytest.mark.parametrize("content", [None, "", "[]", "\x00\xff", "process 3 on \x1b"])
def test_a_lock_counts_whatever_its_file_holds(content, tmp_path):
    with closing(FolderLock(tmp_path)) as lock:
        lock.take()
        lock.take()
        if content is not None:
            (tmp_path / LOCK).write_text(content, encoding="latin-1")
        holder = f"process {os.getpid()} on" if content is None else ""
        with pytest.raises(LockedError, match=f"another process trains in it .{holder}") as raised:
            FolderLock(tmp_path).take()
        assert str(raised.value).isprintable()
    with closing(FolderLock(tmp_path)) as lock:
        lock.take()


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOLCK, pytest.warns(UserWarning, match="cannot be locked")),  # no locks there
        (errno.EACCES, pytest.raises(LockedError, match="trains in it")),  # held, over NFS
        (errno.EIO, pytest.raises(OSError, match="broken")),
    ],
)
def test_what_the_file_system_says(number, expected, tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(number, "broken")

    monkeypatch.setattr(fcntl, "flock", flock)
    with expected, closing(FolderLock(tmp_path)) as lock:
        lock.take()
