"""The log: one line a step, whole lines only, no step twice; copies of it, and its warnings."""

import io
import json
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agent_envs.cli.console import format_seconds
from trainer.run import metrics
from trainer.run.metrics import TRACKERS, Metrics, TrackerError, open_tracker

from .conftest import quiet


def logged(folder, values, *, console=None, trackers=()):
    with Metrics(folder, {"rl": 10}, console=console or quiet(), trackers=trackers) as log:
        for step, success in values:
            log.log(step, "rl", step, {"success": success, "seconds": 0.1 * step})


def test_one_line_a_step_and_the_same_numbers_for_tensorboard(tmp_path):
    logged(tmp_path, [(1, 0.25), (2, 0.5)])
    lines = metrics.read_log(tmp_path / "metrics.jsonl")
    assert [(line["step"], line["stage"], line["success"]) for line in lines] == [
        (1, "rl", 0.25),
        (2, "rl", 0.5),
    ]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.value for event in events.Scalars("rl/success")] == [0.25, 0.5]


def test_a_line_cut_short_by_a_kill_is_repaired(tmp_path):
    logged(tmp_path, [(1, 0.25), (2, 0.5)])
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 3, "sta')
    assert [line["step"] for line in metrics.read_log(path)] == [1, 2]
    logged(tmp_path, [(3, 0.75)])
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_a_step_done_again_is_not_logged_again_and_told_if_it_differs(tmp_path):
    logged(tmp_path, [(1, 0.25), (2, float("nan"))])
    before = (tmp_path / "metrics.jsonl").read_text()
    assert '"success": null' in before
    logged(tmp_path, [(2, float("nan"))])
    with pytest.warns(UserWarning, match="step 1, repeated after a resume, differs"):
        logged(tmp_path, [(1, 0.26)])
    assert (tmp_path / "metrics.jsonl").read_text() == before


def test_every_step_has_a_plain_line_where_there_is_no_terminal(tmp_path):
    console = quiet()
    logged(tmp_path, [(step, step / 20) for step in range(1, 11)], console=console)
    shown = console.file.getvalue().splitlines()
    assert [line.partition("  eta")[0] for line in shown] == [
        f"rl {step}/10  success {5 * step}%" for step in range(1, 11)
    ]


def test_a_bar_on_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics.time, "monotonic", lambda: 1000.0)
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    with Metrics(tmp_path, {"rl": 10}, console=console) as log:
        values = {"success": 0.5, "valid": 0.9, "return": 0.4, "tokens_per_second": 1234.0}
        values["loss"] = 0.25
        log.log(4, "rl", 4, values)
    shown = console.file.getvalue()
    line = "rl 4/10  success 50%  valid 90%  return 0.40  1,234 tokens/s  eta 0 s"
    assert line in re.sub(r"\x1b.*?m", "", shown)  # above the bar
    assert "4/10" in shown.replace(line, "")


def test_a_step_of_any_length_has_an_eta(tmp_path, monkeypatch):
    """Steps of 100 s; 12 of 20 are done after two of them, after a resume."""
    clock = [1000.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: clock[0])
    console = quiet()
    with Metrics(tmp_path, {"start": 1, "rl": 20}, console=console) as log:
        clock[0] += 900
        log.log(10, "start", 1, {})  # an evaluation alone
        for done in (11, 12):
            clock[0] += 100
            log.log(done, "rl", done, {"success": 0.5, "episodes": 2})
    assert "rl 12/20  success 50%  eta 13:20" in console.file.getvalue()  # 8 steps of 100 s


def test_durations():
    assert [format_seconds(x) for x in (0, 59.4, 60, 725, 3600, 90061)] == [
        "0 s", "59 s", "1:00", "12:05", "1:00:00", "25:01:01",
    ]  # fmt: skip


def test_a_warning_is_shown_and_kept_once(tmp_path):
    console = quiet()
    for _ in range(2):  # the second time after a resume
        with Metrics(tmp_path, {"rl": 10}, console=console) as log:
            log.warning(3, "groups are dead")
            log.warning(4, "groups are dead")
    assert console.file.getvalue().count("warning: step 3: groups are dead") == 2
    kept = (tmp_path / metrics.WARNINGS).read_text().splitlines()
    assert [json.loads(line)["step"] for line in kept] == [3, 4]


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


def track(name, folder, steps):
    tracker = open_tracker(name, folder, {"name": "alfworld-mgr", "run": {"seed": 3}})
    logged(folder, [(step, 0.5) for step in steps], trackers=[tracker])


def test_steps_reach_the_library_once_and_resume_the_same_run(library, tmp_path):
    name, made = library
    track(name, tmp_path, [1, 2])
    track(name, tmp_path, [2, 3])  # step 2 is repeated after a resume
    kinds = [call[0] for call in made.calls]
    assert kinds == ["init", "log", "log", "finish", "init", "log", "finish"]
    assert [call[1] for call in made.calls if call[0] == "log"] == [1, 2, 3]
    assert made.calls[1][2] == {"rl/success": 0.5, "rl/seconds": 0.1}
    first, second = (call[1] for call in made.calls if call[0] == "init")
    assert first == second
    assert (first["project"], first["resume"]) == ("agent-envs", "allow")
    assert first["name"].startswith("alfworld-mgr-")
    assert first["config"]["run"] == {"seed": 3}
    (tmp_path / "another").mkdir()
    track(name, tmp_path / "another", [1])
    assert made.calls[-3][1]["name"] != first["name"]


def test_a_library_that_refuses_says_what_to_do(monkeypatch, tmp_path):
    def init(**_):
        raise RuntimeError("api_key not configured\n(no-tty)")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    message = (
        r"wandb did not start \(api_key not configured \(no-tty\)\); log in with `wandb login`"
    )
    with pytest.raises(TrackerError, match=message):
        open_tracker("wandb", tmp_path, {"name": "x"})


@pytest.mark.parametrize("dies", ["log", "finish"])
def test_a_library_that_dies_ends_no_run(monkeypatch, tmp_path, dies):
    def die(*_, **__):
        raise ConnectionError("no route to the server")

    run = SimpleNamespace(**{"log": lambda *_, **__: None, "finish": lambda: None, dies: die})
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: run))
    track("wandb", tmp_path, [1, 2])
    assert [line["step"] for line in metrics.read_log(tmp_path / "metrics.jsonl")] == [1, 2]
    (warned,) = (tmp_path / metrics.WARNINGS).read_text().splitlines()
    assert "failed (no route to the server) and gets no more of the log" in warned
