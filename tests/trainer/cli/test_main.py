"""The command line as a whole: help, mistakes, and packages that are not installed."""

import sys
import warnings
from importlib.metadata import version

import pytest

from agent_envs import cli
from agent_envs.retrieval import dense, factory
from trainer import recipe

TRAIN = ["train", "alfworld", "mgr", "pocket"]

COMMANDS = [
    "train", "eval", "paper", "report", "compare", "truth", "recipes", "play", "audit",
    "assets", "retrieval",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(call, name):
    code, out, _ = call(name, "--help")
    assert code == 0
    assert f"agent-envs {name}" in out
    code, out, _ = call("--help")
    assert name in out


def test_help_lists_every_command_in_the_group_where_people_look_for_it(call):
    out = call("--help")[1]
    places = [out.index(f" {group} ─") for group in ("Start", "Train", "Measure", "Serve")]
    assert places == sorted(places)
    assert " Commands ─" not in out  # where those of other packages are


def test_the_version_is_the_distributions_and_help_of_retrieval_names_what_there_is(call):
    assert call("--version")[:2] == (0, f"agent-envs {version('agent-envs')}\n")
    told = call("retrieval", "serve", "--help")[1]
    assert all(name in told for name in (*factory.NAMES, *dense.INDEXES))
    told = call("retrieval", "index", "--help")[1]
    assert all(name in told for name in dense.INDEXES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "alfword", "mgr"], "did you mean 'alfworld'"),
        ([*TRAIN, "run.step=3"], "no option 'run.step'; nearest are run.steps"),
        ([*TRAIN, "credit.name=mgrr"], "mgr"),
        ([*TRAIN, "credit.options.beeta=1"], "beta"),
        ([*TRAIN, "env.id=AlfWord-v0"], "AlfWorld"),
        ([*TRAIN, "env.options.task_typ=x"], "task_types"),
        ([*TRAIN, "env.options.facts='no'"], "facts must be a bool, got 'no'"),
        ([*TRAIN, "env.split=trian"], "unknown split 'trian', did you mean 'train'"),
        ([*TRAIN, "run.threads=1000000"],
         "run.threads = 1000000: Input should be less than or equ"),
        ([*TRAIN, "env.max_turns=-1"], "env.max_turns: a number of turns, at least 0, or"),
        ([*TRAIN, "env.max_turns=oracle"], 'or "oracle+K" such as "oracle+5", got \'oracle\''),
        ([*TRAIN, "prompt.template=a.b:C"],
         "is not read with context=history; leave"),
        ([*TRAIN, "eval.split=tset"], "unknown split 'tset'; known are train"),
        ([*TRAIN, "env.games=1000000"], "env.games=1000000, but split 'train' has"),
        ([*TRAIN, "env.id=agent_envs:AlfWord-v0"],
         "no environment 'AlfWord-v0', did you mean 'Alf"),
        ([*TRAIN, "sft.expert=explorr"], "unknown expert 'explorr'"),
        ([*TRAIN, "env.options.nosuch=1"], "agent-envs: AlfWorld-v0 has no option 'nosuch'"),
        (["recipes", "a.toml"], "no option 'nosection'"),
        (["recipes", "alfworld", "mgr", "b.toml"], "run.steps = 'two'"),
        (["eval", "/no/model", "--against", "b.toml"], "holds no evaluation"),
        ([*TRAIN, "data=/no/such/folder"], "/no/such/folder"),
        ([*TRAIN, "policy.model=/no/model"], "/no/model"),
        (["eval", "/no/model"], "/no/model"),
        (["report", "/no/run"], "holds no run"),
        (["train", "alfwrld", "mgr"], "no recipe part, TOML file or run folder 'alfwrld'"),
        ([*TRAIN, "run.steps", "5"], "'run.steps' needs its value behind '=', without a space"),
        (["train", "nofile.toml"], "no file or run folder 'nofile.toml' in /"),
        ([*TRAIN, "sede=1", "stepz=2"], "2 problems: (1) no option 'sede'"),
        (["train", "patrol", "mgr"], "module:World, or credit.name=module:"),
        (["train", "a" * 300], "no recipe part, TOML file or run folder"),
        (["train", "lr=1", "mgr"], "lr=1 is a run folder and has its whole recipe, got lr=1 mgr"),
        ([*TRAIN, f"env.options.facts={'none,' * 200}"], "facts must be a bool"),
        (["play", "alfworld", "seed=3"], "write --seed 3 instead of seed=3"),
        (["play", "sokoban", "task=sokoban/1"], "write --task sokoban/1 instead of task=sokoban/1"),
        (["audit", "Sokoban-v0", "seed=3"], "write --seed 3 instead of seed=3"),
    ],
)  # fmt: skip
def test_mistakes_are_answered_in_a_line(call, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = "environment = 'alfworld'\nmethod = 'mgr'\n"
    (tmp_path / "a.toml").write_text(f"{parts}nosection = 3\n")
    (tmp_path / "b.toml").write_text("[run]\nsteps = 'two'\n")
    recipe.save(recipe.load("alfworld grpo"), tmp_path / "lr=1" / "config.toml")
    code, _, said = call(*arguments)
    assert code == 1
    assert "delete it" not in said
    assert message in said
    assert "\n" not in said.strip()
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\n  two\n\nthree"), "one two three"),
        (FloatingPointError(), "FloatingPointError"),
    ],
)
def test_an_error_is_printed_in_one_line(call, monkeypatch, tmp_path, error, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("trainer.run.report.write", fail)
    said = call("report", tmp_path)[2]
    assert said == f"agent-envs: {line} ({cli.TRACEBACK}=1 shows the traceback)"


def test_a_wrong_call_exits_with_2_and_none_is_a_question_for_help(call):
    assert "Usage" in "".join(call()[1:])
    assert call("trian")[0] == 2
    assert call("train")[0] == 2
    assert call(*TRAIN, "--out", "")[0] == 2


def test_a_warning_of_ours_is_a_line_and_the_traceback_is_there_for_who_wants_it(
    monkeypatch, tmp_path
):
    monkeypatch.setenv(cli.TRACEBACK, "1")
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "argv", ["agent-envs", "report", str(tmp_path)])
    with pytest.raises(FileNotFoundError):
        cli.main()
    said = warnings.formatwarning("left out", UserWarning, "a.py", 3)
    other = warnings.formatwarning("old", DeprecationWarning, "a.py", 3)
    assert said == "agent-envs: left out\n"
    assert "a.py:3: DeprecationWarning: old" in other
