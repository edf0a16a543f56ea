"""Checkpoints: whole or not there, whatever happens while they are written."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from agent_envs.machine import append_line, write_text
from trainer.run.checkpoint import MANIFEST, CheckpointError, Checkpoints, find_damage


def filled(folder):
    """What a policy would write: files, one of them in a folder."""
    (folder / "policy").mkdir()
    (folder / "policy" / "weights.bin").write_bytes(bytes(range(256)) * 64)
    (folder / "state.json").write_text('{"step": 1}')


@pytest.fixture
def two(tmp_path):
    made = Checkpoints(tmp_path / "checkpoints", keep=2)
    for step in (10, 20):
        made.save(step, filled)
    return made


def test_the_newest_is_the_latest(two):
    assert two.latest() == two.folder / "step_20"
    assert find_damage(two.latest()) == ""
    assert Checkpoints(two.folder / "none").latest() is None


def test_the_oldest_go_and_the_pinned_stay(tmp_path):
    made = Checkpoints(tmp_path, keep=2, pinned=frozenset({2}))
    for step in (*range(1, 7), 10):
        made.save(step, filled)
    assert made.steps() == [2, 6, 10]  # by number


def test_the_same_step_may_be_saved_again(two):
    two.save(20, lambda folder: (folder / "other").write_text("new"))
    assert (two.folder / "step_20" / "other").read_text() == "new"
    assert find_damage(two.folder / "step_20") == ""


MANIFESTS = [
    b"[]", b"{}", b"3", b"null", b"", b"\xff", b'{"a": [1, ""]}', b'{"version": 1, "files": {}}',
    b'{"version": 2, "files": {"a": [1, ""]}}', b'{"version": 1, "files": {"a": ["x", "y"]}}',
    b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: os.truncate(p / "policy" / "weights.bin", 100),
         r"weights\.bin is missing, truncated or not"),
        (lambda p: (p / "state.json").unlink(), r"state\.json is missing"),
        (lambda p: (p / "state.json").write_text('{"step": 2}'),
         r"state\.json is missing, truncated or not as it was written"),
        (lambda p: (p / MANIFEST).unlink(), rf"No such file.*{MANIFEST}"),
        (lambda p: os.truncate(p / MANIFEST, 30), f"{MANIFEST} holds no manifest"),
        *(
            (lambda p, text=text: (p / MANIFEST).write_bytes(text), f"{MANIFEST} holds no manifest")
            for text in MANIFESTS
        ),
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(two, damage, message):
    damage(two.folder / "step_20")
    with pytest.warns(UserWarning, match=rf"{message}.*continuing from .*step_10"):
        assert two.latest() == two.folder / "step_10"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"),
         r"No space left.*intact; the disk is full; make room"),
        (RuntimeError("PytorchStreamWriter failed writing file data/0"), "failed writing.*make ro"),
        (MemoryError(), r"intact; memory ran out"),
        (torch.OutOfMemoryError("CUDA out of memory"), r"intact; memory ran out"),
        (OSError(errno.EMFILE, "files"), r"intact; too many files are open"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_cannot_be_written_leaves_the_old_ones_valid(two, error, said):
    def fail(folder):
        (folder / "weights.bin").write_bytes(b"half")
        raise error

    with pytest.raises(CheckpointError, match=rf"step_30 could not.*{said}.*with --resume"):
        two.save(30, fail)
    assert two.latest() == two.folder / "step_20"
    assert sorted(path.name for path in two.folder.iterdir()) == ["step_10", "step_20"]


ENDLESS = """
import sys
from pathlib import Path
from trainer.run.checkpoint import Checkpoints
made = Checkpoints(Path(sys.argv[1]), keep=2)
def write(folder):
    for part in range(20):
        (folder / f"{part}.bin").write_bytes(bytes([step % 256]) * 20_000)
for step in range(1, 100_000):
    made.save(step, write)
    print(step, flush=True)
"""


@pytest.mark.parametrize(
    "delay", [0.013, *(pytest.param(d, marks=pytest.mark.long) for d in (0.057, 0.111))]
)
def test_killed_while_writing(tmp_path, delay):
    """After SIGKILL the newest checkpoint that was announced, or a newer one, is whole."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        announced = [int(line) for line in process.stdout.read().split()]
    made = Checkpoints(tmp_path, keep=2)
    latest = made.latest()
    assert int(latest.name[5:]) >= max(announced, default=1)
    step = int(latest.name[5:]) + 1
    made.save(step, filled)  # what the kill left lying about is no obstacle
    assert made.latest().name == f"step_{step}"
    assert not list(tmp_path.glob(".*"))


def test_lines_and_texts_arrive_whole(tmp_path):
    append_line(tmp_path / "log", "one")
    append_line(tmp_path / "log", "two")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"
    write_text(tmp_path / "new" / "text", "first")
    write_text(tmp_path / "new" / "text", json.dumps([1]))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["text"]
    assert (tmp_path / "new" / "text").read_text() == "[1]"
