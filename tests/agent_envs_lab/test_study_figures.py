"""Figure and tables of a study with many methods: sorted, all named, 80 columns."""

import io
import json
import re
import shutil

import numpy as np
import pytest
from rich.console import Console

from agent_envs_lab import study
from agent_envs_lab.study import figures, table
from agent_envs_lab.study.results import Result, collect
from agent_envs_lab.study.runs import StudyError, read_log
from tests.trainer.run_folders import run_folder
from trainer.run.metrics import MetricsError

METHODS = (
    "grpo", "mgr", "gigpo", "stapo_dynamic", "rloo", "has_anchor", "turnrd", "loop", "istar",
    "prime", "empg", "kevin", "rtmc", "grpo_merged",
)  # fmt: skip


def result(number, method):
    """Methods that are better the later they are listed; the last three are above GRPO."""
    success = 0.3 + 0.03 * number
    return Result(
        method=method, seeds=2, start=0.25, success=success, low=success - 0.08,
        high=success + 0.08, gain_p=0.0123, versus=success - 0.3,
        versus_p=None if not number else 0.01 if number > 10 else 0.4, valid=0.987, turns=11.4,
        repeated=0.123, episodes=None if number % 2 else 12345.0, seconds=1234.5,
    )  # fmt: skip


RESULTS = [result(number, method) for number, method in enumerate(METHODS)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The logs of two seeds of each method: 20 steps of 128 rollouts."""
    out = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(0)
    for number, method in enumerate(METHODS):
        for seed in range(2):
            folder = out / method / f"seed_{seed}"
            folder.mkdir(parents=True)
            lines = [{"step": 0, "stage": "start"}]
            for step in range(1, 21):
                success = 0.25 + (0.1 + 0.03 * number) * step / 20 + 0.03 * rng.standard_normal()
                lines.append({"step": step, "stage": "rl", "episodes": 128, "success": success,
                              "valid": 0.9, "return": 3 * success})  # fmt: skip
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / "metrics.jsonl").write_text(text)
    return out


def test_every_method_has_a_row_and_two_small_figures(logs):
    text = figures.figure(RESULTS, logs, 2, "return")
    for method in METHODS:
        assert len(re.findall(rf">{method}</text>", text)) == 3
    for title in ("Held-out success", "Success in training", "Return in training"):
        assert title in text
    rows = [text.index(f">{method}</text>") for method in METHODS]
    assert rows == sorted(rows)  # from the bottom, GRPO, to the top


def test_a_study_without_the_baseline_has_a_figure(logs):
    some = [one for one in RESULTS if one.method != "grpo"]
    text = figures.figure(some, logs, 2, "valid")
    assert not re.search(r">grpo</text>|grpo\.|Green: above", text)  # nor a key to it
    assert "Orange: before training." in text


def test_what_was_not_logged_is_named(logs):
    with pytest.raises(StudyError, match="logged no 'validity'; they logged success, valid"):
        figures.figure(RESULTS, logs, 2, "validity")


def test_tables_fit_80_columns_and_the_best_is_first():
    page = Console(file=io.StringIO(), width=80)
    page.print(table(RESULTS, level=0.6))
    lines = page.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in page.file.getvalue()
    assert len(lines) == 2 * 15 + 1
    assert lines[1].split()[0] == lines[17].split()[0] == "grpo_merged"
    assert lines[14].split() == ["grpo", "25%", "30.0%", "[22–38%]", "0.012"]
    assert lines[30].split() == ["grpo", "98.7%", "11.4", "12.3%", "12,345", "1234"]


def test_files_are_written(logs, monkeypatch):
    monkeypatch.setattr(study, "figure", lambda *_: "drawn")
    study.save(RESULTS, logs, level=0.6, seeds=2, curve="valid")
    assert len(json.loads((logs / "study.json").read_text())) == len(METHODS)
    text = (logs / "study.md").read_text()
    assert [text.count(f"| {method} |") for method in METHODS] == [2] * len(METHODS)
    assert (logs / "study.svg").read_text() == "drawn"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"stage": "rl", "episodes": 128}, "it has no success"),
        ({"stage": "rl", "success": 0.5, "episodes": None}, "it has no episodes"),
        ({}, "it has no stage"),
        ({"stage": "rl", "success": float("nan"), "episodes": 1}, "success = nan: .* finite"),
        ({"stage": "rl", "success": "1", "episodes": 1}, "success = '1'"),
    ],
)
def test_a_log_without_what_is_compared_is_named(line, said, tmp_path):
    folder = tmp_path / "grpo" / "seed_0"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 1} | line) + "\n")
    with pytest.raises(MetricsError, match=rf"metrics\.jsonl line 1 .*{said}"):
        read_log(tmp_path, "grpo", 0)


@pytest.mark.parametrize("damage", ["{", "[]", '{"split": 1}'])
def test_a_damaged_evaluation_of_a_run_is_named(damage, tmp_path):
    run_folder(tmp_path / "grpo" / "seed_0")
    path = tmp_path / "grpo" / "seed_0" / "eval" / "step_25.json"
    path.write_text(damage)
    with pytest.raises(StudyError, match=rf"{path}.*restore it"):
        collect(["grpo"], 1, tmp_path, level=0.6)


def test_logs_of_different_lengths_are_named(logs, tmp_path):
    for seed in range(2):
        folder = tmp_path / METHODS[0] / f"seed_{seed}"
        shutil.copytree(logs / METHODS[0] / f"seed_{seed}", folder)
    path = folder / "metrics.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(StudyError, match="lack steps, or values of 'success'"):
        figures.figure(RESULTS[:1], tmp_path, 2, "success")
