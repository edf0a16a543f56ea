"""Parts of a user's own in a recipe: the example of docs/recipes.md, run from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainer import evaluate, metrics, recipe
from trainer.train import train

from .conftest import quiet

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src"
BRIEF = [
    "run.threads=1", "sampling.tasks=2", "sampling.rollouts=2", "sampling.max_reply_tokens=8",
    "eval.tasks=3",
]  # fmt: skip


CALLS = """
import sys
from trainer.cli import main

for words in sys.argv[1:]:
    sys.argv = ["agent-envs", *words.split()]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""


def block(page: str, language: str, holds: str) -> str:
    """The block of a page that holds some text."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    (found,) = [one for one in blocks if holds in one]
    return found


@pytest.fixture
def folder(tmp_path):
    """A folder outside of the project with the files of the page."""
    (tmp_path / "drawers.py").write_text(block("environments.md", "python", "class Drawers"))
    (tmp_path / "mine.py").write_text(block("recipes.md", "python", "class OutcomeAndValidity"))
    (tmp_path / "mine.toml").write_text(block("recipes.md", "toml", "drawers:Drawers"))
    return tmp_path


@pytest.fixture
def call(folder):
    """`agent-envs` in the folder, once or more in one process: exit code and what was printed."""

    def run(*commands):
        command = [sys.executable, "-c", CALLS, *(" ".join(map(str, words)) for words in commands)]
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_pages_example_is_trained_evaluated_and_reported(call, folder, tiny_folder):
    code, told = call(
        ("train", "mine.toml", "run.steps=2", f"policy.model={tiny_folder}", *BRIEF),
        ("eval", "runs/pocket-mine", "--out", "again.json"),
    )
    assert code == 0, told
    run = folder / "runs" / "pocket-mine"
    lines = [line for line in metrics.read(run / "metrics.jsonl") if line["stage"] == "rl"]
    assert len(lines) == 2
    assert {"mine:opens_a_drawer", "valid"} <= lines[0].keys(), lines[0]
    assert "drawers:Drawers" in (run / "report.html").read_text()
    ends = [evaluate.load(folder / name) for name in ("again.json", f"{run}/eval/step_2.json")]
    assert ends[0] == ends[1]
    assert ends[0].split == "train"  # the one panel that the environment has


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("env.id=drawers:Drawers-v0", "drawers registers no environment 'Drawers-v0'"),
        ("env.split=foo", "drawers:Drawers has no splits, got env.split='foo'"),
        ("eval.split=bar", "drawers:Drawers has no splits, got eval.split='bar'"),
        ("env.id=drawers:Drawrs", "drawers has no 'Drawrs', did you mean 'Drawers'?"),
        ("env.id=drawer:Drawers", "there is no module 'drawer'; install it, or put its folder on"),
        ("env.id=drawers:re.x", "package.module:Name"),
        ("env.id=mine:PROMPT", "class type, and 'mine:PROMPT' is of class Template"),
        ("env.id=mine:OutcomeAndValidity", "training needs an agent_envs.AgentEnv"),
        ("credit.name=mine:Outcome", "mine has no 'Outcome', did you mean 'OutcomeAndValidity'?"),
        ("credit.name=mine:PROMPT", "must be callable: (turns, rng) -> advantage"),
        ("credit.options.bonnus=1", "unexpected keyword argument 'bonnus'"),
        ("prompt.template=mine:opens_a_drawer", "of class Template"),
        ("prompt.template=mine.PROMPT", "package.module:Name"),
        ("env.wrappers={'mine:None_such'={}}", "mine has no 'None_such'"),
        ("env.wrappers={'credit.wrappers:InvalidPenalty'={penaltie=1}}", "'penaltie'"),
        (
            "env.wrappers={'credit.wrappers:TurnVerifier'={weights={'mine:x'=1}}}",
            "mine has no function 'x'",
        ),
    ],
)
def test_what_does_not_exist_or_fit_is_one_line(folder, tiny_folder, monkeypatch, option, message):
    monkeypatch.syspath_prepend(folder)
    for name in ("drawers", "mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    options = [f"policy.model={tiny_folder}", *BRIEF, option]
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        train(recipe.load(folder / "mine.toml", options), folder / "run", console=quiet())
    assert "\n" not in str(refused.value)
    assert not (folder / "run").exists()
