"""The command line: what it says when asked, and when asked wrongly."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys

import pytest

from trainer import cli, evaluate, recipe

TRAIN = ("train", "alfworld", "mgr", "pocket")
SHORT = [
    "env.id=Corridor-v0",
    "env.max_turns=3",
    "sft.steps=2",
    "sft.episodes=2",
    "run.steps=1",
    "run.threads=1",
    "sampling.tasks=2",
    "sampling.rollouts=2",
    "sampling.max_reply_tokens=8",
    "sampling.max_tokens=2000",
    "eval.tasks=3",
]


@pytest.fixture
def call(monkeypatch, capsys):
    """One call: exit code, what was printed, what was complained about."""

    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["agent-envs", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        printed, code = capsys.readouterr(), stopped.value.code
        said = code if isinstance(code, str) else ""
        return (1 if said else code or 0), printed.out, printed.err + said

    monkeypatch.setenv("COLUMNS", "200")
    return called


@pytest.fixture(scope="module")
def trained(corridor, tiny_folder, tmp_path_factory):
    """A run folder made by the command line, and what the command printed."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    with pytest.MonkeyPatch.context() as patch:
        model = f"policy.model={tiny_folder}"
        call = [
            "agent-envs",
            "train",
            "alfworld",
            "mgr",
            "pocket",
            *SHORT,
            model,
            "--out",
            str(folder),
        ]
        patch.setattr(sys, "argv", call)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    assert not stopped.value.code
    return folder


@pytest.mark.parametrize("name", ["train", "eval", "report", "play", "audit", "assets"])
def test_every_command_has_help(call, name):
    code, out, _ = call(name, "--help")
    assert code == 0
    assert f"agent-envs {name}" in out
    code, out, _ = call("--help")
    assert name in out


def test_no_command_is_a_question_for_help(call):
    assert "Usage" in "".join(call()[1:])


def test_a_run_ends_with_a_summary(trained, call):
    code, out, _ = call("train", trained, "--resume")
    assert code == 0
    assert "held out, step 2 against step 3" in out
    for part in ("before", "now", "walk", "overall", "valid turns", "exact McNemar p = 1"):
        assert part in out
    assert f"{trained / 'report.html'}" in out


def test_a_second_run_into_the_same_folder(trained, call):
    code, _, said = call(*TRAIN, *SHORT, "--out", trained)
    assert code == 1
    assert "--resume continues it" in said
    assert "Traceback" not in said


def test_eval_of_a_run(trained, call, tmp_path):
    saved = tmp_path / "now.json"
    code, out, _ = call("eval", trained, "--out", saved)
    assert code == 0
    assert "overall" in out
    assert evaluate.load(saved) == evaluate.load(trained / "eval" / "step_3.json")
    code, out, _ = call("eval", trained, "--against", saved)
    assert code == 0
    assert "0 tasks newly solved, 0 newly failed" in out


def test_eval_of_a_model(tiny_folder, corridor, call):
    code, out, _ = call("eval", tiny_folder, *SHORT)
    assert code == 0
    assert "train (embedded), 3 tasks, greedy" in " ".join(out.split())


def test_other_panels_are_not_compared(trained, call, tmp_path):
    other = tmp_path / "other.json"
    tree = json.loads((trained / "eval" / "step_3.json").read_text())
    other.write_text(json.dumps(tree | {"panel_hash": "another"}))
    code, _, said = call("eval", trained, "--against", other)
    assert code == 1
    assert "panels differ" in said


def test_report_says_where_it_is(trained, call):
    code, out, _ = call("report", trained)
    assert code == 0
    assert out.strip() == str(trained / "report.html")


AUDIT = ["--tasks", "2", "--episodes", "6", "--players", "6"]


def test_audit_prints_its_tables_and_passes(call):
    code, out, _ = call("audit", "EZPoints-v0", "split=test", *AUDIT)
    assert code == 0
    assert "contract of EZPoints-v0\nkept" in out
    assert "anchors of EZPoints-v0, seed 0\n2 tasks, 12 episodes" in out
    assert "says 2+10=" in out


def test_audit_as_json(call):
    code, out, _ = call("audit", "agent_envs:Sokoban-v0", "--json", "--seed", "3", *AUDIT)
    found = json.loads(out)
    assert (code, found["passed"], found["violation"], found["missing"]) == (0, True, "", [])
    assert found["anchors"]["seed"] == 3
    assert found["anchors"]["anchor"]["diverging"] == 0
    assert found["rewards"]["players"]["circles"]["success"]["total"] == 6


@pytest.mark.parametrize("option", ["max_turns=abc", "max_tuns=3", "max_turns=0"])
def test_audit_answers_a_wrong_option_in_a_line(call, option):
    code, _, err = call("audit", "Sokoban-v0", option, *AUDIT)
    assert code == 1
    assert option.partition("=")[0] in err
    assert "Traceback" not in err


OTHERS = """
import gymnasium as gym
from agent_envs import FreeText

class Door(gym.Env):
    action_space, observation_space = FreeText(), FreeText()

    def __init__(self, code="12", render_mode=None):
        self.code = code

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.typed = ""
        return "A door with two keys.", {"success": False}

    def step(self, action):
        self.typed += action if action in ("1", "2") else ""
        opened = self.typed.endswith(self.code)
        return "Open." if opened else "Click.", float(opened), opened, False, {"success": opened}

gym.register("Door-v0", entry_point=Door, max_episode_steps=8)
"""


def test_audit_of_someone_elses_environment(call, tmp_path, monkeypatch):
    (tmp_path / "doors.py").write_text(OTHERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["--word", "1", "--word", "2", "--tasks", "3", "--episodes", "30", "--players", "5"]
    code, out, _ = call("audit", "doors:Door-v0", "code='21'", *words)
    assert code == 1
    assert "info lacks goal, valid, invalid_reason, progress, anchor, admissible_actions" in out
    assert "first violation:" in out
    assert "anchor        info has no 'anchor'" in out
    assert "lead to the anchor 'Click.', where '1' gives" in out
    assert "random" in out


def test_assets_tells_how_to_prepare_appworld(call, monkeypatch):
    monkeypatch.setenv("APPWORLD_ROOT", "/my data")
    code, out, _ = call("assets", "appworld", "--venv", "/my/venv")
    assert code == 0
    assert "/my/venv/bin/pip install appworld" in out
    assert "APPWORLD_ROOT='/my data' /my/venv/bin/appworld download data" in out
    assert "--host 127.0.0.1 --port {port}" in out
    command = shlex.split(out.splitlines()[-1])
    loaded = recipe.load("appworld mgr", command[4:])
    assert loaded.env.data == "/my data"
    assert loaded.env.options["backend"] == "http"
    assert loaded.env.options["server"].startswith("/my/venv/bin/python -m uvicorn appworld.")
    assert "did you mean 'appworld'?; known are appworld" in call("assets", "alfworld")[2]


def test_assets_lists_and_advises(call, monkeypatch, tmp_path):
    for variable in ("ALFWORLD_DATA", "WEBSHOP_DATA", "SEARCH_QA_DATA"):
        monkeypatch.delenv(variable, raising=False)
    code, out, _ = call("assets")
    assert code == 0
    assert "alfworld-download" in out
    assert "search_qa/corpus.jsonl.xz" in out
    game = tmp_path / "json_2.1.1" / "train" / "a" / "b" / "game.tw-pddl"
    game.parent.mkdir(parents=True)
    game.write_text("{}")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    (tmp_path / "qa.jsonl").write_text("")
    monkeypatch.setenv("SEARCH_QA_DATA", str(tmp_path))
    told = call("assets")[1]
    assert "(1 files game.tw-pddl)" in told
    assert "(1 files *.jsonl*)" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "alfword", "mgr"], "did you mean 'alfworld'"),
        ([*TRAIN, "run.step=3"], "did you mean 'run.steps'"),
        ([*TRAIN, "credit.name=mgrr"], "mgr"),
        ([*TRAIN, "credit.options.beeta=1"], "beta"),
        ([*TRAIN, "env.id=AlfWord-v0"], "AlfWorld"),
        ([*TRAIN, "env.split=trian"], "train"),
        ([*TRAIN, "env.options.task_typ=x"], "task_types"),
        (
            [*TRAIN, "env.options.facts='no'"],
            "facts must be a bool, got 'no'",
        ),
        ([*TRAIN, "data=/no/such/folder"], "/no/such/folder"),
        ([*TRAIN, "policy.model=/no/model"], "/no/model"),
        ([*TRAIN, "eval.tasks=100000"], "eval.tasks=100000"),
        (["eval", "/no/model"], "/no/model"),
        (["report", "/no/run"], "holds no run"),
    ],
)
def test_mistakes_are_answered_in_a_line(call, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = call(*arguments)
    assert code == 1
    assert message in said
    assert "Traceback" not in said


def test_ctrl_c_says_how_to_go_on(call, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trainer.train.train", interrupted)
    code, out, _ = call(*TRAIN, "--out", tmp_path)
    assert code == 130
    assert f"agent-envs train {tmp_path} --resume" in out


def test_a_run_that_explodes_keeps_its_batch(call, corridor, tiny_folder, tmp_path):
    options = [*SHORT, f"policy.model={tiny_folder}", "sft.learning_rate=1e30"]
    code, _, said = call(*TRAIN, *options, "--out", tmp_path)
    assert code == 1
    (kept,) = tmp_path.glob("not_finite*.pt")
    assert str(kept) in said


def test_a_wrong_call_exits_with_2(call):
    assert call("trian")[0] == 2
    assert call("train")[0] == 2


def test_the_traceback_is_there_for_who_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv(cli.TRACEBACK, "1")
    monkeypatch.setattr(sys, "argv", ["agent-envs", "report", str(tmp_path)])
    with pytest.raises(FileNotFoundError):
        cli.main()


@pytest.mark.parametrize("who", ["judge", "partner"])
def test_a_server_that_is_not_there_is_an_error_in_a_line(call, who, tiny_folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    endpoint = f'{{model="stub", url="{url}", retries=0, outage=0.2}}'
    options = (
        f"env.options.{who}={endpoint}", f"policy.model={tiny_folder}", "sft.steps=0",
        "eval.tasks=2", "env.max_turns=1", "run.threads=1",
    )  # fmt: skip
    code, _, said = call("train", "sotopia", "grpo", "pocket", *options, "--out", tmp_path)
    assert code == 1
    assert f"stub at {url} gave no answer on the conversation" in said
    assert "refused" in said
    assert "Traceback (" not in said


BARE = """
import importlib.util, sys
find = importlib.util.find_spec
hidden = {"typer", "torch"}
importlib.util.find_spec = lambda name: None if name in hidden else find(name)
from trainer.cli import main
assert not {"torch", "typer", "rich", "pydantic"} & set(sys.modules)
main()
"""


def test_without_the_extra_it_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "(torch, typer)" in done.stderr
    assert "pip install 'agent-envs[train]'" in done.stderr
    assert "Traceback" not in done.stderr
