"""The commands train, eval and report."""

from __future__ import annotations

import json
import socket

import pytest

from agent_envs import evaluation
from tests.agent_envs.sotopia.test_published import PAIRING, PERSON, SITUATION
from trainer.cli import make_out_option


def test_a_run_ends_with_a_summary(trained, call):
    code, out, _ = call("train", trained, "--resume")
    assert code == 0
    assert "evaluation, step 0 against step 3" in out
    for part in ("before", "now", "walk", "overall", "valid turns", "exact McNemar p = 1"):
        assert part in out
    assert f"{trained / 'report.html'}" in out


def test_eval_of_a_run(trained, call, tmp_path):
    last = (trained / "metrics.jsonl").read_text().splitlines()[-1]
    assert 0 < json.loads(last)["reply_tokens"] <= 8
    saved = tmp_path / "now.json"
    code, out, _ = call("eval", trained, "--out", saved)
    assert code == 0
    assert "overall" in out
    assert evaluation.load(saved) == evaluation.load(trained / "eval" / "step_3.json")
    code, out, _ = call("eval", trained, "--against", saved)
    assert code == 0
    assert "0 tasks newly solved, 0 newly failed" in out


def test_eval_of_a_model(tiny_folder, corridor, call, short):
    read = ("env.", "run.threads", "sampling.max_", "eval.")
    code, out, _ = call("eval", tiny_folder, *(one for one in short if one.startswith(read)))
    assert code == 0
    assert "train (embedded), 3 tasks, greedy" in " ".join(out.split())


def write_situations(folder, ids):
    """Public profiles with a pairing in each of these situations, whose text is its number."""
    folder.mkdir()
    rows = {
        "environment_profiles.jsonl": [
            SITUATION | {"env_id": name, "scenario": f"Meeting {number}."}
            for number, name in enumerate(ids)
        ],
        "agent_profiles.jsonl": [PERSON, PERSON | {"agent_id": "A2"}],
        "env_agent_combo_storages.jsonl": [
            PAIRING | {"env_id": name, "combo_id": f"of {name}"} for name in ids
        ],
    }
    for name, listed in rows.items():
        (folder / name).write_text("\n".join(map(json.dumps, listed)))
    return folder


def test_no_command_evaluates_a_run_on_a_situation_of_its_training(tiny_folder, call, tmp_path):
    """iStar trains on SOTOPIA-pi and tests on SOTOPIA, which share none."""
    data = write_situations(tmp_path / "data", [f"E{number}" for number in range(40)])
    renamed = write_situations(tmp_path / "renamed", [f"F{number}" for number in range(40)])
    own = ["env.id=Sotopia-v0", "env.options={judge='none',partner='echo'}", "sampling.decode=free"]
    recipe = ["sotopia", "grpo", "pocket", f"policy.model={tiny_folder}", f"data={data}"]
    recipe += [*own, "env.max_turns=1", "sft.steps=0"]
    recipe += ["run.steps=0", "run.threads=1", "sampling.max_reply_tokens=4", "eval.tasks=0"]
    run = tmp_path / "run"
    code, _, said = call("train", *recipe, "eval.split=all", "--out", run)
    assert (code, run.exists()) == (1, False)
    assert "(split 'train') and evaluation (split 'all') share" in said
    assert call("train", *recipe, "eval.split=val", "--out", run)[0] == 0
    assert call("eval", run, "eval.split=test")[0] == 0
    (checkpoint,) = (run / "checkpoints").iterdir()
    for words in (
        ["eval", run],
        ["eval", run, f"eval.data={renamed}"],
        ["attribute", run],
        ["eval", checkpoint, "--recipe", "sotopia grpo pocket", *own, f"data={data}"],
    ):
        code, _, said = call(*words, "eval.split=all", "eval.tasks=0")
        assert code == 1
        assert "situations that tasks are made from, the first 'Meeting " in said
        assert "set another eval.split, or other data for one of the two" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipe", "alfworld mgr pocket"], "--recipe is for a model"),
        (["update.learning_rate=1"], "an evaluation does not read update.learning_rate; leave it"),
        (["learning_rate=1"], "is ambiguous"),
        (["credit.name=grpo"], "an evaluation does not read credit.name"),
        (["sampling.rollouts=3"], "an evaluation does not read sampling.rollouts"),
        (["eval.every=3"], "an evaluation does not read eval.every"),
        (["policy.model=pocket"], "an evaluation does not read policy.model"),
        (["policy.lora.rank=2"], "has its own adapters; leave policy.lora.rank out"),
        (["update.tokens=9"], "an evaluation does not read update.tokens"),
        (["sft.steps=3"], "an evaluation does not read sft.steps"),  # of a model
    ],
)
def test_what_an_evaluation_does_not_read_is_refused(trained, call, words, message):
    code, _, said = call("eval", "pocket" if words[0] == "sft.steps=3" else trained, *words)
    assert code == 1
    assert message in said


@pytest.mark.parametrize(
    ("command", "out", "message"),
    [
        ("eval", "", "'' is no file; name a file"),
        ("eval", "there", "is no file; name a file"),
        ("train", "file", "is no folder; name a folder"),
        ("train", "/dev/null", "is no folder; name a folder"),
        ("eval", "file/x.json", "nothing can be written in"),
        ("eval", "/proc/x.json", "nothing can be written in /proc"),
        ("train", "/proc/x/y", "nothing can be written in /proc"),
    ],
)
def test_an_impossible_out_is_refused_before_the_work(  # noqa: PLR0917
    call, command, out, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("kept")
    code, _, said = call(command, "alfworld", "--out", out)
    assert code == 2
    assert message in " ".join(said.replace("│", " ").split())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "there"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(("path", "folder"), [("new/x.json", False), ("a/b", True), (".", True)])
def test_a_possible_out_is_left_untouched(tmp_path, path, folder):
    parse = make_out_option("", folder=folder).parser
    assert parse(str(tmp_path / path)) == tmp_path / path
    assert not list(tmp_path.iterdir())


def test_a_table_in_a_pipe_is_as_wide_as_it_is(call, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    code, out, _ = call("recipes", "alfworld", "mgr", "pocket")
    assert code == 0
    assert "MGR Sec. 4.3: temporal dynamics" in out
    assert max(map(len, out.splitlines())) < 300
    assert "…" not in out


def test_other_panels_are_not_compared(trained, call, tmp_path):
    other = tmp_path / "other.json"
    tree = json.loads((trained / "eval" / "step_3.json").read_text())
    other.write_text(json.dumps(tree | {"panel_hash": "another"}))
    saved = tmp_path / "now.json"
    code, _, said = call("eval", trained, "--against", other, "--out", saved)
    assert code == 1
    assert "panels differ" in said
    assert evaluation.load(saved) == evaluation.load(trained / "eval" / "step_3.json")


def test_a_missing_evaluation_is_found_before_an_hour_of_play(trained, call, tmp_path):
    saved = tmp_path / "now.json"
    code, _, said = call("eval", trained, "--against", tmp_path / "none.json", "--out", saved)
    assert code == 1
    assert "no evaluation at" in said
    assert not saved.exists()


def test_report_says_where_it_is(trained, call):
    code, out, _ = call("report", trained)
    assert code == 0
    assert out.strip() == str(trained / "report.html")


@pytest.mark.parametrize(
    ("given", "form"),
    [(["--steps", "5"], "steps=VALUE"), (["--run.save-every=5"], "run.save_every=")],
)
def test_an_option_of_the_recipe_with_dashes_is_told_its_form(call, given, form):
    code, _, said = call("train", "alfworld", "mgr", "pocket", *given)
    assert code == 2
    assert form in said
    assert "--resume" in said


def test_ctrl_c_says_how_to_go_on(call, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trainer.train.train", interrupted)
    command = "train", "alfworld", "mgr", "pocket", "--out", tmp_path
    assert call(*command)[:2] == (130, "stopped\n")  # nothing was written
    (tmp_path / "config.toml").touch()
    code, out, _ = call(*command)
    assert code == 130
    assert f"agent-envs train {tmp_path} --resume" in out


def test_a_run_that_explodes_keeps_its_batch(call, corridor, tiny_folder, tmp_path, short):
    options = [*short, f"policy.model={tiny_folder}", "sft.learning_rate=1e30"]
    code, _, said = call("train", "alfworld", "mgr", "pocket", *options, "--out", tmp_path)
    assert code == 1
    (kept,) = tmp_path.glob("not_finite*.pt")
    assert str(kept) in said


@pytest.mark.parametrize("who", ["judge", pytest.param("partner", marks=pytest.mark.long)])
def test_a_server_that_is_not_there_is_an_error_in_a_line(call, who, tiny_folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    endpoint = f'{{model="stub", url="{url}", retries=0, outage=0.2}}'
    options = (
        f"env.options={{family='bargain',{who}={endpoint}}}", f"policy.model={tiny_folder}",
        "sft.steps=0", "eval.tasks=2", "env.max_turns=1", "run.threads=1", "sampling.decode=free",
    )  # fmt: skip
    code, _, said = call("train", "sotopia", "grpo", "pocket", *options, "--out", tmp_path)
    assert code == 1
    assert f"stub at {url} gave no answer on the conversation" in said
    assert "refused" in said
    assert "Traceback (" not in said


def test_compare_of_a_run_with_itself(trained, call):
    code, out, _ = call("compare", trained, trained)
    assert code == 0
    assert "second - first: +0.0 points" in out
    assert "The options of the runs are the same." in out
    code, _, said = call("compare", trained, trained / "nowhere")
    assert code == 1
    assert "holds no run" in said
