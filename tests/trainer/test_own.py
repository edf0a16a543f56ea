"""Parts of a user's own in a recipe: the example of docs/recipes.md, run from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from tests.credit.batches import batch
from trainer import recipe
from trainer.build import make_method, make_rollouts
from trainer.engine import Decoding, Sampler
from trainer.engine.own import OwnEngine
from trainer.learn.sft import require_expert
from trainer.play import records as episodes
from trainer.play.rollout import Task
from trainer.run import evaluate, metrics
from trainer.train import train

from .conftest import quiet

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src"
BRIEF = [
    "run.threads=1", "sampling.tasks=2", "sampling.rollouts=2", "sampling.max_reply_tokens=8",
    "eval.tasks=3",
]  # fmt: skip
CHOSEN = ["sampling.decode=admissible", "sampling.max_reply_tokens=60"]


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


@pytest.mark.long
def test_the_pages_example_is_trained_evaluated_and_reported(call, folder, tiny_folder):
    code, told = call(
        ("train", "mine.toml", "run.steps=2", f"policy.model={tiny_folder}", *BRIEF, *CHOSEN),
        ("eval", "runs/pocket-mine", "--out", "again.json"),
    )
    assert code == 0, told
    run = folder / "runs" / "pocket-mine"
    lines = [line for line in metrics.read_log(run / "metrics.jsonl") if line["stage"] == "rl"]
    assert len(lines) == 2
    assert {"mine:opens_a_drawer", "valid"} <= lines[0].keys(), lines[0]
    played = [one for path in run.glob("episodes/*.parquet") for one in episodes.read(path)]
    steps = [step for episode in played for step in episode.steps]
    opened = [step.action.startswith("open") for step in steps]
    assert any(opened)
    assert [step.turn_reward["mine:opens_a_drawer"] for step in steps] == [0.1 * o for o in opened]
    assert "drawers:Drawers" in (run / "report.html").read_text()
    ends = [evaluate.load(folder / name) for name in ("again.json", f"{run}/eval/step_2.json")]
    assert ends[0] == ends[1]
    assert ends[0].split == "train"  # the one panel that the environment has


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("env.id=drawers:Drawers-v0", "drawers registers no environment 'Drawers-v0'"),
        ("env.split=foo", "drawers:Drawers has no splits, got env.split='foo'"),
        ("env.id=drawers:Drawrs", "drawers has no 'Drawrs', did you mean 'Drawers'?"),
        ("env.id=drawer:Drawers", "there is no module 'drawer'; install it, or put its folder on"),
        ("env.id=mine:PROMPT", "class type, and 'mine:PROMPT' is of class Template"),
        ("env.id=mine:OutcomeAndValidity", "derive it from agent_envs.AgentEnv"),
        ("env.id=patrol", "your own is given as package:Id-v0 or package.module:Class"),
        ("credit.name=patrol", "give your own as module:Name"),
        ("credit.name=mine:PROMPT", "must be, or make, something callable: (turns, rng) -> adv"),
        ("credit.options.bonnus=1", "unexpected keyword argument 'bonnus'"),
        ("prompt.template=mine:opens_a_drawer", "of class Template"),
        ("env.wrappers={'mine:None_such'={}}", "mine has no 'None_such'"),
        ("env.wrappers={'credit.rewards:InvalidPenalty'={penaltie=1}}", "'penaltie'"),
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


ESTIMATORS = """
import numpy as np

def none(turns, rng): return None
def table(turns, rng): return np.ones((len(turns), 2))
def nan(turns, rng): return np.full(len(turns), np.nan)
def typo(turns, rng): return turns.entropi
def one(turns): return np.ones(len(turns))
def fine(turns, rng=None): return [1.0] * len(turns)
def text_needs(turns, rng): return np.ones(len(turns))
text_needs.needs = "turn_reward"
class Breaks:
    def __init__(self): 1 / 0
"""


def own_method(tmp_path, monkeypatch, name):
    (tmp_path / "estimators.py").write_text(ESTIMATORS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "estimators", raising=False)
    return make_method(recipe.load("alfworld grpo pocket", [f"credit.name={name}"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "an estimator must return [4] finite numbers, got object of shape []"),
        ("table", "an estimator must return [4] finite numbers, got float64 of shape [4, 2]"),
        ("nan", "the advantage row 0 is nan; give finite numbers"),
        ("typo", "failed: AttributeError: 'Turns' object has no attribute 'entropi' ("),
    ],
)
def test_what_an_estimator_returns_is_checked_where_it_enters(tmp_path, monkeypatch, name, message):
    estimator = own_method(tmp_path, monkeypatch, f"estimators:{name}").estimator
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        estimator(batch([2, 2], [1.0, 0.0], [0, 0]), None)
    assert str(refused.value).startswith(f"credit.name='estimators:{name}' ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("estimators:one", "credit.name='estimators:one' cannot be called as (turns, rng) ->"),
        ("estimators:Breaks", "cannot be made: ZeroDivisionError: division by zero ("),
        (
            "estimators:text_needs",
            "must be a tuple of columns, of 'turn_reward', 'entropy', 'gold_logprob', got",
        ),
    ],
)
def test_an_estimator_that_does_not_fit_is_refused_at_the_start(
    tmp_path, monkeypatch, name, message
):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        own_method(tmp_path, monkeypatch, name)
    assert "\n" not in str(refused.value)


def test_an_estimator_that_fits_gives_floats(tmp_path, monkeypatch):
    estimator = own_method(tmp_path, monkeypatch, "estimators:fine").estimator
    assert estimator(batch([2, 2], [1.0, 0.0], [0, 0]), None).tolist() == [1.0] * 4


PARTS = """
import gymnasium as gym
from drawers import Drawers

class Pays(Drawers):
    paid = 0.5
    def step(self, action):
        *rest, info = super().step(action)
        return *rest, info | {"turn_reward": self.paid}

class PaysText(Pays):
    paid = {"a": "1"}

class Disk(Drawers):
    def __init__(self): raise OSError("disk")

class Player:
    def __init__(self, env): pass
    def act(self): return None
    def think(self): return ""

class Dumb:
    def __init__(self, env): pass
    def act(self): return "look"

class Sick(Player):
    def __init__(self, env): raise OSError("boom")

class Plain:
    def __init__(self, env): pass

class Broken(gym.Wrapper):
    def __init__(self, env): raise OSError("wboom")

class Fails(gym.Wrapper):
    def step(self, action): raise KeyError("shelf")

class Passes(gym.Wrapper):
    pass

class Bare(Drawers):
    def __init__(self, max_turns=5): super().__init__(max_turns=max_turns)

class Splits(Drawers):
    def __init__(self, split="train", **options): super().__init__(**options)

class Renames(Drawers):
    def step(self, action):
        *rest, info = super().step(action)
        return *rest, info | {"turn_reward": {f"turn {info['turn']}": 1.0}}

def make(**options): return Bare(**options)
def make_splits(**options): return Splits(**options)

gym.register("NoEntry-v0", entry_point="parts:Nothing")
gym.register("Made-v0", entry_point=make)
gym.register("MadeSplits-v0", entry_point=make_splits)
"""


@pytest.fixture
def parts(folder, monkeypatch):
    """A recipe of the page with options, where `parts` has parts that do not fit."""
    (folder / "parts.py").write_text(PARTS)
    (folder / "failing.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(folder)
    for name in ("drawers", "mine", "parts", "failing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(gym, "registry", dict(gym.registry))
    monkeypatch.setattr("gymnasium.envs.registration.registry", gym.registry)
    return lambda *options: recipe.load(folder / "mine.toml", [one for one in options if one])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("env.id=failing:Name", "env.id names 'failing:Name', but the module failing fails when"),
        ("env.id=parts:Player", "env.id names 'parts:Player', a class that is no gymnasium.Env"),
        ("env.id=parts:Disk", "env.id='parts:Disk': OSError: disk ("),
        ("env.id=parts:NoEntry-v0", "the entry point 'parts:Nothing', which does not exist"),
        ("env.wrappers={'parts:Plain'={}}", "env.wrappers parts:Plain makes a Plain; it must be"),
        ("env.wrappers={'parts:Broken'={}}", "env.wrappers parts:Broken: OSError: wboom ("),
        (
            "env.wrappers={'credit.rewards:TurnVerifier'={weights={'failing:x'=1}}}",
            "env.wrappers credit.rewards:TurnVerifier: verifier failing:x: ZeroDivisionError",
        ),
    ],
)
def test_a_part_that_fails_or_is_of_the_wrong_kind_names_its_option(parts, option, message):
    chosen = parts(option)
    with pytest.raises(recipe.RecipeError, match=re.escape(message)) as refused:
        make_rollouts(chosen, "train").envs(1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("expert", "message"),
    [
        ("parts:Dumb", "an expert needs the methods act and think"),
        ("parts:Sick", "OSError: boom ("),
        ("agent_envs.webshop.experts:Explorer", "this expert plays WebShop, got Drawers"),
        ("failing:Expert", "the module failing fails when it is imported"),
    ],
)
def test_an_expert_that_does_not_fit_is_refused_at_the_start(parts, expert, message):
    with pytest.raises(recipe.RecipeError, match=re.escape(message)) as refused:
        require_expert(make_rollouts(parts(""), "train"), expert)
    assert str(refused.value).startswith("sft.expert")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["Made-v0", "MadeSplits-v0"])
def test_an_environment_made_by_a_function_of_any_options(parts, name):
    chosen = f"env.id=parts:{name}"
    (env,) = make_rollouts(parts(chosen, "env.max_turns=4"), "train").envs(1)
    assert env.unwrapped.max_turns == 4
    with pytest.raises(recipe.RecipeError, match=r"parts:Made.* reads no data, got env.data='/d'"):
        make_rollouts(parts(chosen, "env.data=/d"), "train").envs(1)
    with pytest.raises(recipe.RecipeError, match=r"its options do not fit: .* 'colour'"):
        make_rollouts(parts(chosen, "env.options.colour=1"), "train").envs(1)


@pytest.mark.parametrize(
    ("wrappers", "message"),
    [
        (
            "'parts:Fails'={}",
            "env.wrappers parts:Fails, task 'drawers/train/2': KeyError: 'shelf' (",
        ),
        ("'parts:Fails'={},'parts:Passes'={}", "env.wrappers parts:Fails, task"),
    ],
)
def test_a_wrapper_that_fails_in_a_step_is_named_with_the_task(parts, wrappers, message):
    (env,) = make_rollouts(parts(f"env.wrappers={{{wrappers}}}"), "train").envs(1)
    env.reset(seed=0, options={"task": 0})
    with pytest.raises(recipe.RecipeError, match=re.escape(message)) as refused:
        env.step("")
    assert "\n" not in str(refused.value)


def test_turn_rewards_of_other_names_at_another_turn_are_refused(parts, tiny_policy):
    rollouts = make_rollouts(parts("env.id=parts:Renames"), "train")
    task = Task(rollouts.panel.task_ids[0], 0, 0)
    decoding = Decoding(max_reply_tokens=40, decode="admissible")
    sampler = Sampler(OwnEngine(tiny_policy), tiny_policy, decoding)
    with pytest.raises(
        recipe.RecipeError,
        match=r"Renames with its wrappers reports .*'turn 2'.* after one of .*'turn 1'",
    ):
        rollouts.play([task], sampler, 0)


@pytest.mark.parametrize("name", ["Pays", "PaysText"])
def test_turn_rewards_that_are_no_numbers_by_name_are_the_environments_fault(parts, name):
    (env,) = make_rollouts(parts(f"env.id=parts:{name}"), "train").envs(1)
    env.reset(seed=0, options={"task": 0})
    with pytest.raises(recipe.RecipeError, match=f"the environment {name} reports info.'turn_rew"):
        env.step("")
