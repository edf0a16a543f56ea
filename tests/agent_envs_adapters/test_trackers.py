"""The real wandb, offline, and the real trackio keep what a run logs, also after a resume."""

import json
import re
import sqlite3
import time

from trainer.run.metrics import open_tracker

from .solving import needs

pytestmark = needs("trackers", "wandb", "trackio")
OPTIONS = {"name": "alfworld-mgr", "run": {"seed": 3}, "engine": {"urls": []}}


def logged(name, folder):
    for steps in ((1, 2), (3,)):
        tracker = open_tracker(name, folder, OPTIONS)
        for step in steps:
            tracker.log({"rl/success": step / 10}, step=step)
        tracker.finish()
        time.sleep(1.1)  # wandb names a folder by the second, and would write into the same one


def test_wandb_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    logged("wandb", tmp_path)
    kept = set()
    for path in (tmp_path / "wandb").glob("offline-run-*/*.wandb"):
        kept |= {*re.findall(rb"rl/success.{1,4}?(0\.\d)", path.read_bytes(), re.DOTALL)}
    assert kept == {b"0.1", b"0.2", b"0.3"}
    assert len({path.name for path in (tmp_path / "wandb").glob("offline-run-*/*.wandb")}) == 1


def test_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read at its import
    logged("trackio", tmp_path)
    (file,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(file) as base:
        rows = base.execute("SELECT run_name, step, metrics FROM metrics").fetchall()
    assert {step: json.loads(line)["rl/success"] for _, step, line in rows} == {
        1: 0.1, 2: 0.2, 3: 0.3,
    }  # fmt: skip
    assert len({name for name, _, _ in rows}) == 1
