"""SIGTERM and Ctrl-C: a checkpoint at the end of the step, and a run that continues bit for bit."""

from __future__ import annotations

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainer.run import session
from trainer.run.checkpoint import Checkpoints
from trainer.run.checks import RunError
from trainer.run.metrics import WARNINGS
from trainer.run.stopping import Stopped, note_signals
from trainer.train import Loop, train

from .conftest import count_lines, figures, quiet, same, short, weights


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted_and_the_second_stops(number, capfd):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as raised, note_signals() as stop:  # noqa: PT012
        assert stop.agree() == 0
        stop.began = True
        os.kill(os.getpid(), number)
        assert stop.agree() == number
        assert f"{number.name}: the run stops after this step" in capfd.readouterr().err
        os.kill(os.getpid(), number)
    assert raised.value.code == 128 + number
    assert signal.getsignal(number) == before


def test_in_a_thread_signals_keep_their_meaning():
    before = signal.getsignal(signal.SIGTERM)

    def work():
        with note_signals() as stop:
            return stop.agree(), signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(work).result() == (0, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "line"),
    [(signal.SIGTERM, 3), pytest.param(signal.SIGINT, 9, marks=pytest.mark.long)],
)
def test_a_signal_in_a_step_ends_the_run_after_it(  # noqa: PLR0917
    number, line, whole, corridor, tiny_folder, tmp_path, monkeypatch
):
    """In the warm start and after it, at steps that write no checkpoint of their own."""
    log = Loop.log_step

    def logged(self, stage, done, values):
        log(self, stage, done, values)
        if self.step == line:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Loop, "log_step", logged)
    with pytest.raises(Stopped, match=f"stopped after step {line}") as raised:
        train(short(tiny_folder), tmp_path, console=quiet())
    assert raised.value.code == 128 + number
    assert Checkpoints(tmp_path / "checkpoints").steps()[-1] == line
    assert figures(tmp_path)[-1]["step"] == line
    monkeypatch.setattr(Loop, "log_step", log)
    train(short(tiny_folder), tmp_path, resume=True, console=quiet())
    assert figures(tmp_path) == figures(whole)
    assert same(weights(tmp_path, 12), weights(whole, 12))


def test_a_signal_before_the_first_step_ends_at_once(tiny_folder, corridor, tmp_path, monkeypatch):
    """While the model is loaded; nothing is promised and nothing is written."""
    load = session.load_policy
    monkeypatch.setattr(
        session, "load_policy", lambda model: (os.kill(os.getpid(), signal.SIGTERM), load(model))
    )
    with pytest.raises(Stopped, match="stopped before a step") as raised:
        train(short(tiny_folder), tmp_path / "run", console=quiet())
    assert raised.value.code == 143
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("last", [6, 12, pytest.param(9, marks=pytest.mark.long)])
def test_a_signal_before_an_evaluation_leaves_it_to_the_resumed_run(  # noqa: PLR0917
    last, whole, corridor, tiny_folder, tmp_path, monkeypatch
):
    """After the warm start, within and after the last step; a second stop changes nothing."""
    take = Loop.take_step

    def taken(self):
        take(self)
        if self.step == last:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Loop, "take_step", taken)
    with pytest.raises(Stopped, match=f"stopped after step {last}"):
        train(short(tiny_folder), tmp_path, console=quiet())
    assert not (tmp_path / "eval" / f"step_{last}.json").exists()
    assert Checkpoints(tmp_path / "checkpoints").steps()[-1] == last
    monkeypatch.setattr(Loop, "take_step", take)
    train(short(tiny_folder), tmp_path, resume=True, console=quiet())
    assert figures(tmp_path) == figures(whole)
    assert same(weights(tmp_path, 12), weights(whole, 12))
    assert (tmp_path / "eval" / f"step_{last}.json").is_file()
    assert "lacks the lines" not in "".join(p.read_text() for p in tmp_path.glob(WARNINGS))


@pytest.mark.slow
@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("left", ["checkpoints", "metrics.jsonl", "eval", "episodes"])
def test_a_run_without_its_recipe_is_refused(left, resume, whole, tiny_folder, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    copied = shutil.copytree if (whole / left).is_dir() else shutil.copy
    copied(whole / left, folder / left)
    with pytest.raises(RunError, match=f"run has {left}.* but no config.toml.*--out DIR"):
        train(short(tiny_folder), folder, resume=resume, console=quiet())
    assert [one.name for one in folder.iterdir()] == [left]


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_says_how_to_go_on(number, code, start_training, tmp_path):
    folder, end = tmp_path / "run", time.monotonic() + 120
    process = start_training(folder, "run.steps=400")
    while count_lines(folder) < 8 and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(process.pid, number)
    process.join(60)
    said = process.said.read_text()
    assert process.exitcode == code, said
    last = figures(folder)[-1]["step"]
    assert f"stopped after step {last}; continue with: agent-envs train {folder} --resume" in said
    assert "Traceback" not in said
    assert Checkpoints(folder / "checkpoints").latest().name == f"step_{last}"
