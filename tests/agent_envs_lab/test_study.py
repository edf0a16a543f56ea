"""The study: statistics by hand, runs that go on, a table and a figure of what there is."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agent_envs import cli
from agent_envs_lab.study import runs
from agent_envs_lab.study.results import BASELINE, collect, compare_pairs, interval, samples_to
from agent_envs_lab.study.runs import StudyError
from tests.trainer.conftest import figures
from trainer import recipe
from trainer.errors import RecipeError

BRIEF = [
    "env.id=corridor:Corridor",
    "env.data=auto",
    "env.games=0",
    "run.steps=1",
    "run.threads=1",
    "sft.steps=1",
    "sft.episodes=1",
    "sampling.tasks=1",
    "sampling.rollouts=2",
    "env.max_turns=3",
    "sampling.max_reply_tokens=8",
    "sampling.max_tokens=2000",
    "eval.tasks=2",
]
METHODS = ["grpo", "mgr"]
HERE = str(Path(__file__).parents[1] / "trainer")
CALL = """
sys.path.insert(0, here)
sys.argv = arguments
from agent_envs.cli import main
main()
"""


@pytest.fixture(scope="module")
def soon(forked, tmp_path_factory):
    """What the study takes for `subprocess`: its calls are forked from a server with torch."""

    def run(command, **_):
        arguments = ["agent-envs", *command[3:]]
        process = forked(CALL, tmp_path_factory.mktemp("said"), here=HERE, arguments=arguments)
        process.join()
        return SimpleNamespace(returncode=process.exitcode)

    return SimpleNamespace(run=run)


@pytest.fixture(scope="module")
def brief(tiny_folder, soon):
    """Runs a study whose runs are short, each in a process that finds the corridor."""
    options = [*BRIEF, f"policy.model={tiny_folder}"]

    def run(out, methods, *more, processes=soon, curve=""):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join([HERE, *sys.path]))
            patch.syspath_prepend(HERE)
            patch.setattr(runs, "subprocess", processes)
            runs.run("household", methods, 1, out, [*options, *more], curve=curve)

    return run


@pytest.fixture(scope="module")
def done(brief, tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    brief(out, METHODS[1:], processes=subprocess)
    brief(out, METHODS)
    return out


@pytest.mark.parametrize("name", runs.list_studies())
def test_every_method_has_the_same_budget(name):
    found = runs.read_study(name)
    made = [recipe.load(one) for one in found.values()]
    assert len(made) >= 2
    assert len({(r.run.steps, r.sampling.tasks, r.sampling.rollouts) for r in made}) == 1
    shared = [(r.env.id, r.policy, r.sft, r.eval, r.update.learning_rate) for r in made]
    assert all(one == shared[0] for one in shared)
    assert BASELINE in found


@pytest.mark.long
def test_a_study_leaves_a_run_for_each_method_and_seed(done):
    assert sorted(str(p.parent.relative_to(done)) for p in done.glob("*/*/report.html")) == [
        "grpo/seed_0",
        "mgr/seed_0",
    ]


@pytest.mark.long
def test_a_study_goes_on_where_it_stopped(brief, done):
    before = {path: path.stat().st_mtime_ns for path in done.glob("*/*/metrics.jsonl")}
    lines = [figures(path.parent) for path in sorted(before)]
    brief(done, METHODS[:1])
    assert [figures(path.parent) for path in sorted(before)] == lines


@pytest.mark.long
def test_an_unfinished_run_is_named(done):
    with pytest.raises(StudyError, match="seed_1 is not finished; start the study again"):
        collect(METHODS, 2, done, level=0.5)


@pytest.mark.long
def test_a_curve_that_was_not_logged_is_refused_before_another_run(brief, done, tmp_path):
    refused = SimpleNamespace(run=lambda *_, **__: pytest.fail("started a run"))
    with pytest.raises(StudyError, match=r"logged no 'nan'; they logged .*valid"):
        brief(done, METHODS, processes=refused, curve="nan")
    with pytest.raises(StudyError, match="logged no 'nan'"):
        brief(tmp_path, METHODS, curve="nan")
    assert not (tmp_path / "mgr" / "seed_0").exists()  # one run told what is logged


@pytest.mark.parametrize("level", ["nan", "-0.1", "1.5"])
def test_a_level_that_is_no_success_is_refused_before_anything_runs(monkeypatch, tmp_path, level):
    monkeypatch.chdir(tmp_path)
    arguments = ["agent-envs", "study", "household", "--level", level]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(runs, "run", lambda *_, **__: pytest.fail("started a study"))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_run_that_fails_is_named(tmp_path, soon, monkeypatch):
    monkeypatch.setattr(runs, "subprocess", soon)
    with pytest.raises(StudyError, match=r"1 of 1 runs failed; see .*grpo/seed_0/log\.txt"):
        runs.run("household", ["grpo"], 1, tmp_path, ["policy.model=/no/such/model"])


@pytest.mark.parametrize(
    ("name", "method", "options", "said"),
    [
        ("housework", "mgr", [], r"no study 'housework', did you mean 'household'\?"),
        ("household", "mrg", [], "household has no method 'mrg', did you mean 'mgr'"),
        ("household", "mgr", ["run.step=1"], r"no option 'run\.step'; nearest are run\.steps"),
    ],
)
def test_a_wrong_recipe_is_refused_before_anything_runs(tmp_path, name, method, options, said):
    with pytest.raises(RecipeError, match=said):
        runs.run(name, [method], 1, tmp_path / "out", options)
    assert not (tmp_path / "out").exists()


def test_interval_covers_tasks_and_seeds():
    rng = np.random.default_rng(0)
    low, high = interval((rng.random((5, 400)) < 0.6).astype(float))
    assert low < 0.6 < high
    assert 0.03 < high - low < 0.15
    apart = np.repeat([[0.0], [1.0]], 400, axis=1)  # seeds that disagree altogether
    assert interval(apart) == (0.0, 1.0)
    assert interval(np.ones((3, 7))) == (1.0, 1.0)


def test_paired_test_of_tasks():
    rng = np.random.default_rng(1)
    one = (rng.random((5, 120)) < 0.5).astype(float)
    assert compare_pairs(one, one) == 1.0
    better = np.maximum(one, rng.random((5, 120)) < 0.3)
    assert compare_pairs(better, one) < 0.001
    assert compare_pairs(better, one) == compare_pairs(one, better)


def test_rollouts_to_a_level():
    def line(success, stage="rl"):
        return {"stage": stage, "success": success, "episodes": 10}

    log = [line(1.0, "sft"), *(line(x / 10) for x in range(10))]
    assert samples_to(log, 0.4) == 70.0  # .2 to .6 are the first five of mean .4
    assert samples_to(log, 0.95) is None
