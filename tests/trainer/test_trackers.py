"""Copies of the log: what reaches the library, once, under one id; stubs have the two's calls."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from trainer.run.metrics import (
    TRACKERS,
    WARNINGS,
    Metrics,
    TrackerError,
    open_tracker,
    read_log,
)


class Library:
    """Records the calls that wandb and trackio document: init, and log and finish of a run."""

    def __init__(self):
        self.calls = []

    def init(self, **options):
        self.calls.append(("init", options))

        def log(values, step):
            self.calls.append(("log", step, values))

        return SimpleNamespace(log=log, finish=lambda: self.calls.append(("finish",)))


@pytest.fixture(params=TRACKERS)
def library(request, monkeypatch):
    made = Library()
    monkeypatch.setitem(sys.modules, request.param, made)
    return request.param, made


def logged(name, folder, steps):
    page = Console(file=io.StringIO(), width=80)
    trackers = [open_tracker(name, folder, {"name": "alfworld-mgr", "run": {"seed": 3}})]
    with Metrics(folder, {"rl": 9}, console=page, trackers=trackers) as log:
        for step in steps:
            log.log(step, "rl", step, {"success": 0.5, "seconds": 1.0})


def test_steps_reach_the_library_once_and_resume_the_same_run(library, tmp_path):
    name, made = library
    logged(name, tmp_path, [1, 2])
    logged(name, tmp_path, [2, 3])  # step 2 is repeated after a resume
    kinds = [call[0] for call in made.calls]
    assert kinds == ["init", "log", "log", "finish", "init", "log", "finish"]
    assert [call[1] for call in made.calls if call[0] == "log"] == [1, 2, 3]
    assert made.calls[1][2] == {"rl/success": 0.5, "rl/seconds": 1.0}
    first, second = (call[1] for call in made.calls if call[0] == "init")
    assert first == second
    assert (first["project"], first["resume"]) == ("agent-envs", "allow")
    assert first["name"].startswith("alfworld-mgr-")
    assert first["config"]["run"] == {"seed": 3}


def test_two_runs_have_names_of_their_own(library, tmp_path):
    name, made = library
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        logged(name, tmp_path / folder, [1])
    names = [call[1]["name"] for call in made.calls if call[0] == "init"]
    assert len(set(names)) == 2


@pytest.mark.parametrize("dies", ["log", "finish"])
def test_a_library_that_dies_ends_no_run(monkeypatch, tmp_path, dies):
    def die(*_, **__):
        raise ConnectionError("no route to the server")

    run = SimpleNamespace(**{"log": lambda *_, **__: None, "finish": lambda: None, dies: die})
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: run))
    logged("wandb", tmp_path, [1, 2])
    assert [line["step"] for line in read_log(tmp_path / "metrics.jsonl")] == [1, 2]
    (warned,) = (tmp_path / WARNINGS).read_text().splitlines()
    assert "failed (no route to the server) and gets no more of the log" in warned


def test_a_library_that_refuses_says_what_to_do(monkeypatch, tmp_path):
    def init(**_):
        raise RuntimeError("api_key not configured\n(no-tty)")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    message = (
        r"wandb did not start \(api_key not configured \(no-tty\)\); log in with `wandb login`"
    )
    with pytest.raises(TrackerError, match=message):
        open_tracker("wandb", tmp_path, {"name": "x"})
