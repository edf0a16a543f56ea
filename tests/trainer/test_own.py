"""Parts of a user's own in a recipe: the example of docs/recipes.md, run from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import credit
from agent_envs import evaluation
from tests.credit.batches import batch
from trainer import recipe
from trainer.methods import make_method
from trainer.play import episode_files as episodes
from trainer.run import metrics
from trainer.train import train

from .conftest import quiet, write_parts

SOURCE = Path(__file__).parents[2] / "src"
BRIEF = [
    "run.threads=1", "sampling.tasks=2", "sampling.rollouts=2", "sampling.max_reply_tokens=8",
    "eval.tasks=3",
]  # fmt: skip
CHOSEN = ["sampling.decode=admissible", "sampling.max_reply_tokens=60"]


@pytest.fixture
def folder(tmp_path):
    """A folder outside of the project with the files of the page."""
    write_parts(tmp_path)
    return tmp_path


@pytest.mark.long
def test_the_pages_example_is_trained_evaluated_and_reported(folder, tiny_folder):
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    for words in (
        [
            "train",
            "mine.toml",
            "sft.steps=2",
            "run.steps=2",
            f"policy.model={tiny_folder}",
            *BRIEF,
            *CHOSEN,
        ],
        ["eval", "runs/pocket-mine", "--out", "again.json"],
    ):
        command = [sys.executable, "-c", "from agent_envs.cli import main; main()", *words]
        subprocess.run(command, cwd=folder, env=environment, check=True)
    run = folder / "runs" / "pocket-mine"
    lines = [line for line in metrics.read_log(run / "metrics.jsonl") if line["stage"] == "rl"]
    assert len(lines) == 2
    assert {"mine:opens_a_drawer", "valid"} <= lines[0].keys(), lines[0]
    played = [
        one for path in run.glob("episodes/*.parquet") for one in episodes.read_episodes(path)
    ]
    steps = [step for episode in played for step in episode.steps]
    opened = [step.action.startswith("open") for step in steps]
    assert any(opened)
    assert [step.turn_reward["mine:opens_a_drawer"] for step in steps] == [0.1 * o for o in opened]
    assert "drawers:Drawers" in (run / "report.html").read_text()
    ends = [evaluation.load(folder / name) for name in ("again.json", f"{run}/eval/step_4.json")]
    assert ends[0] == ends[1]
    assert ends[0].split == "test"


ESTIMATORS = """
import numpy as np

def one(turns): return np.ones(len(turns))
def fine(turns, rng=None): return [1.0] * len(turns)
"""


PARTS = """
import gymnasium as gym
from drawers import Drawers

class Disk(Drawers):
    def __init__(self): raise OSError("disk")

class Player:
    def __init__(self, env): pass
    def act(self): return None
    def think(self): return ""

class Broken(gym.Wrapper):
    def __init__(self, env): raise OSError("wboom")

gym.register("NoEntry-v0", entry_point="parts:Nothing")
"""


@pytest.fixture
def parts(folder, monkeypatch):
    """The folder with parts that do not fit; nothing is imported from it yet."""
    for name, text in (("parts", PARTS), ("failing", "1 / 0\n"), ("estimators", ESTIMATORS)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    for name in ("drawers", "mine", "parts", "failing", "estimators"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(gym, "registry", dict(gym.registry))
    monkeypatch.setattr("gymnasium.envs.registration.registry", gym.registry)
    return folder


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("env.id=drawers:Drawers-v0", "drawers registers no environment 'Drawers-v0'"),
        ("env.split=foo", "env.id='drawers:Drawers': split must be one of train, test, got 'foo'"),
        ("env.id=drawers:Drawrs", "drawers has no 'Drawrs', did you mean 'Drawers'?"),
        ("env.id=drawer:Drawers", "there is no module 'drawer'; install it, or put its folder on"),
        ("env.id=mine:PROMPT", "class type, and 'mine:PROMPT' is of class Template"),
        ("env.id=parts:Player", "env.id names 'parts:Player', a class that is no gymnasium.Env"),
        ("env.id=patrol", "your own is given as package:Id-v0 or package.module:Class"),
        ("env.id=failing:Name", "env.id names 'failing:Name', but the module failing fails when"),
        ("env.id=parts:Disk", "env.id='parts:Disk': disk"),
        ("env.id=parts:NoEntry-v0", "the entry point 'parts:Nothing', which does not exist"),
        ("credit.name=patrol", "give your own as module:Name"),
        ("credit.name=mine:PROMPT", "must be, or make, something callable: (turns, rng) -> adv"),
        ("credit.options.bonnus=1", "unexpected keyword argument 'bonnus'"),
        ("prompt.template=mine:opens_a_drawer", "of class Template"),
        ("env.wrappers={'mine:None_such'={}}", "mine has no 'None_such'"),
        ("env.wrappers={'credit.rewards:InvalidPenalty'={penaltie=1}}", "'penaltie'"),
        ("env.wrappers={'parts:Broken'={}}", "env.wrappers parts:Broken: wboom"),
        ("sft.expert=failing:Expert", "failing fails when it is imported"),
    ],
)
def test_what_does_not_exist_or_fit_is_one_line(parts, tiny_folder, option, message):
    options = [f"policy.model={tiny_folder}", *BRIEF, "sft.steps=1", option]
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        train(recipe.load(parts / "mine.toml", options), parts / "run", console=quiet())
    assert "\n" not in str(refused.value)
    assert not (parts / "run").exists()


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("name", ["one", "fine"])
def test_an_estimator_of_ones_own_is_a_function_of_turns(name):
    chosen = recipe.load("alfworld grpo pocket", [f"credit.name=estimators:{name}"])
    turns = batch([2, 2], [1.0, 0.0], [0, 0])
    assert credit.estimate(make_method(chosen).estimator, turns).tolist() == [1.0] * 4
