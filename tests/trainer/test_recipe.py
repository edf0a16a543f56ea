"""Recipes: what is written is what runs, and a slip of the pen is named with its cure."""

from __future__ import annotations

import contextlib
import re
from dataclasses import FrozenInstanceError, replace

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.experts import experts_of
from trainer import recipe
from trainer.recipe import RecipeError
from trainer.rollout import make_env


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", recipe.names())
def test_shipped_recipes_survive_a_round_trip(name, tmp_path):
    loaded = recipe.load(name)
    recipe.save(loaded, tmp_path / "config.toml")
    assert recipe.load(tmp_path) == loaded
    assert loaded.name == name
    assert loaded.about


def test_only_webshops_warm_starts_learn_from_an_oracle():
    experts = {}
    for name in recipe.names():
        loaded = recipe.load(name)
        if loaded.sft.steps:
            made = gym.make(loaded.env.id, disable_env_checker=True)
            assert loaded.sft.expert in experts_of(type(made.unwrapped))
            experts.setdefault((loaded.env.id, loaded.sft.expert), []).append(name)
    assert ("WebShop-v0", "oracle") in experts
    assert {key for key in experts if key[1] != "explorer"} == {("WebShop-v0", "oracle")}


def test_names_of_the_issue():
    wanted = {"quickstart", "alfworld_sft", "alfworld_grpo", "alfworld_gigpo", "alfworld_mgr"}
    assert wanted <= set(recipe.names())


# Numbers of the papers: HAS Tables 5 and 6, STAPO appendix E, MGR section 4.3 and appendix A.5,
# iStar section 4 and appendix C.1.
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("alfworld_grpo", {"lr": 5e-6, "tasks": 10, "turns": 40, "kl_target": 0.04, "rank": 32}),
        ("alfworld_gigpo", {"lr": 1e-6, "tasks": 16, "turns": 50, "kl_target": 0.0, "rank": 0}),
        ("alfworld_mgr", {"lr": 5e-7, "tasks": 16, "turns": 50, "kl_target": 0.0, "rank": 0}),
        ("webshop_grpo", {"lr": 5e-6, "tasks": 10, "turns": 15, "kl_target": 0.04, "rank": 32}),
        (
            "webshop_has_turnrd",
            {"lr": 5e-6, "tasks": 10, "turns": 15, "kl_target": 0.04, "rank": 32},
        ),
        ("webshop_gigpo", {"lr": 1e-6, "tasks": 8, "turns": 15, "kl_target": 0.0, "rank": 0}),
        ("webshop_stapo", {"lr": 1e-6, "tasks": 8, "turns": 15, "kl_target": 0.0, "rank": 0}),
        ("webshop_istar", {"lr": 5e-7, "tasks": 16, "turns": 15, "kl_target": 0.0, "rank": 0}),
        ("webshop_mgr", {"lr": 5e-7, "tasks": 8, "turns": 15, "kl_target": 0.0, "rank": 0}),
    ],
)
def test_numbers_of_the_papers(name, wanted):
    loaded = recipe.load(name)
    assert wanted == {
        "lr": loaded.update.learning_rate,
        "tasks": loaded.sampling.tasks,
        "turns": loaded.env.max_turns,
        "kl_target": loaded.update.kl_target,
        "rank": loaded.policy.lora_rank,
    }
    assert loaded.sampling.rollouts == 8
    assert loaded.policy.model == "Qwen/Qwen2.5-1.5B-Instruct"


@pytest.mark.parametrize(
    "name", [name for name in recipe.names() if re.match("sotopia_(?!quick)", name)]
)
def test_sotopias_recipes_have_the_numbers_of_istar(name):
    loaded = recipe.load(name)
    assert loaded.run.steps == 800
    assert loaded.sampling.tasks * loaded.sampling.rollouts == 128
    assert (loaded.sampling.temperature, loaded.sampling.max_reply_tokens) == (0.7, 2048)
    assert loaded.sampling.max_tokens == 6144 + 2048
    assert loaded.update.learning_rate == 5e-7
    assert (loaded.prompt.context, loaded.prompt.history) == ("turn", 10)
    assert loaded.env.max_turns == 10
    assert (loaded.prm.threshold == 0.6) == (loaded.credit.name in {"istar", "dpo"})


@pytest.mark.parametrize("method", ["grpo", "loop", "mgr"])
def test_appworlds_recipes_have_the_numbers_of_mgr(method):
    loaded = recipe.load(f"appworld_{method}")
    assert loaded.credit.name == method
    assert (loaded.env.split, loaded.env.max_turns) == ("train_easy", 35)
    assert (loaded.sampling.tasks, loaded.sampling.rollouts) == (40, 6)
    assert (loaded.sampling.temperature, loaded.sampling.max_reply_tokens) == (1.0, 2048)
    assert (loaded.update.learning_rate, loaded.update.kl) == (5e-7, "none")
    assert loaded.prompt.context == "history"


def test_overrides_are_toml_or_bare_strings(tmp_path):
    path = written(tmp_path, "[run]\nseed = 3\n[credit.options]\nbeta = 0.2\n")
    given_options = [
        "update.learning_rate=1",
        "env.options.task_types=['pick', 'look']",
        "credit.options.alpha=0.5",
        "update.skip_dead_groups=false",
        "env.id = Room-v0",
    ]
    loaded = recipe.load(path, given_options)
    assert loaded.run.seed == 3
    assert loaded.update.learning_rate == 1.0
    assert loaded.env.options == {"task_types": ["pick", "look"]}
    assert loaded.credit.options == {"beta": 0.2, "alpha": 0.5}
    assert loaded.update.skip_dead_groups is False
    assert loaded.env.id == "Room-v0"


def test_a_key_of_one_section_may_stand_alone():
    assert recipe.load("quickstart", ["data=/a folder/x"]).env.data == "/a folder/x"
    with pytest.raises(RecipeError, match=r"'steps' could be any of run\.steps, sft\.steps"):
        recipe.load("quickstart", ["steps=3"])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=30))
def test_any_bare_text_is_a_value_or_refused(text):
    with contextlib.suppress(RecipeError):
        assert isinstance(recipe.load("quickstart", [f"env.data={text}"]).env.data, str)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning", "key=value"),
        ("update.learningrate=1", r"no option 'update\.learningrate'; .*'update\.learning_rate'"),
        ("sede=1", r"no option 'sede'; did you mean 'run\.seed'"),
        ("updat.clip_low=0.1", r"'update\.clip_low'"),
        ("run.steps=many", r"run\.steps = 'many': .*valid integer"),
        ("run.steps=-1", r"run\.steps = -1: .*greater than or equal to 0"),
        ("run.steps=1.5", r"run\.steps = 1\.5"),
        ("update.kl=k4", r"update\.kl = 'k4': .*'none', 'k1', 'k2' or 'k3'"),
        ("update.clip_low=1.5", r"update\.clip_low = 1\.5: .*less than or equal to 1"),
        ("update.learning_rate=nan", r"update\.learning_rate = nan: .*finite"),
        ("run.seed.deep=1", r"run\.seed = "),
        ("run=3", "no option 'run'"),
        ("judge.timeout=0", "judge: .*timeout of an endpoint is above 0, got 0"),
        ("judge.timeout=x", r"judge\.timeout = 'x': .*valid number"),
        ("judge.timeut=3", r"no option 'judge\.timeut'; did you mean 'judge\.timeout'"),
        ("judge.url=http://me:secret@h/v1", "judge: (?!.*secret).*holds a name, a password"),
    ],
)
def test_bad_overrides_are_refused(override, message):
    with pytest.raises(RecipeError, match=message):
        recipe.load("quickstart", [override])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nsteps = ", r"mine\.toml is not TOML"),
        ("[run]\nstep = 3\n", r"no option 'run\.step'; did you mean 'run\.steps'"),
        ("[runs]\nsteps = 3\n", r"'run\.steps'"),
        ("[run]\nsteps = '3'\n", r"run\.steps = '3'"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, message):
    with pytest.raises(RecipeError, match=message):
        recipe.load(written(tmp_path, text))


def test_a_value_is_no_section(tmp_path):
    with pytest.raises(RecipeError, match="goes into 'seed', which is a value and no section"):
        recipe.load(written(tmp_path, "[run]\nseed = 1\n"), ["run.seed.deep=1"])


def test_an_unknown_recipe_names_the_nearest(tmp_path):
    with pytest.raises(RecipeError, match=r"'quikstart'.*did you mean 'quickstart'.*alfworld_mgr"):
        recipe.load("quikstart")
    with pytest.raises(RecipeError, match="no run folder"):
        recipe.load(tmp_path)


def test_recipes_are_frozen_and_compare():
    one = recipe.load("quickstart")
    with pytest.raises(FrozenInstanceError):
        one.run.seed = 5
    other = replace(one, run=replace(one.run, seed=5))
    assert recipe.changes(one, other) == ["run.seed"]
    assert recipe.changes(one, one) == []
    more = recipe.load("quickstart", ["credit.options.beta=0.3"])
    assert recipe.changes(one, more) == ["credit.options.beta"]


@pytest.mark.parametrize("name", ["data", "max_turns", "split"])
def test_options_of_the_recipe_are_not_the_environments(name):
    chosen = recipe.load("sotopia_quickstart", [f"env.options.{name}=3"])
    with pytest.raises(recipe.RecipeError, match=f"set env.{name}"):
        make_env(chosen.env, chosen.prompt, split="test")
