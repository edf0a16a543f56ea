"""AlfWorld-v0: the contract, its signals and options."""

from __future__ import annotations

import copy
import pickle
import re

import gymnasium as gym
import numpy as np
import pytest

import agent_envs
from agent_envs import BadAsset, MissingAsset
from agent_envs.alfworld.env import reason
from agent_envs.alfworld.experts import Oracle
from agent_envs.testing import check_agent_env

MGR_INVALID = re.compile(
    r"nothing happens\.?$|you don't see that|you can't see that|that command is not understood"
    r"|you haven't got|you are not(?! carrying anything\.$)|you need to|you must|you have to"
    r"|that's not|not a valid|not valid|you cannot|you can not|not available",
    re.IGNORECASE,
)
"""MGR's patterns of feedback that says nothing was done (appendix A.5), except the answer to
`inventory` with empty hands, "You are not carrying anything.", which refuses nothing."""


def make(**options):
    return gym.make("AlfWorld-v0", data="embedded", **options)


def play(env, commands):
    return [env.step(command) for command in commands]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"split": "valid_unseen", "task_types": ["look", "L2"], "max_turns": 7},
        {"progress": "distance", "facts": True, "walkthrough": True},
        pytest.param(
            {"progress": "none", "dialect": "0.3", "success_reward": 2.5}, marks=pytest.mark.long
        ),
    ],
)
def test_the_contract(options):
    check_agent_env(make(**options), oracle=Oracle)


@pytest.mark.slow
def test_the_contract_on_public_games(alfworld_data):
    env = gym.make("AlfWorld-v0", data=alfworld_data, split="valid_seen")
    check_agent_env(env, oracle=Oracle)
    _, info = env.reset(options={"task": 0})
    assert info["task_id"].startswith("alfworld/valid_seen/look_at_obj_in_light-")


@pytest.mark.parametrize("task", range(0, 120, 7))
def test_the_walkthrough_wins_and_pays_once(task):
    env = make(split="valid_seen", walkthrough=True, success_reward=3.0, facts=True)
    observation, info = env.reset(options={"task": task})
    assert info["goal"] in observation
    assert info["task_id"].split("/")[2].startswith(info["task_type"])
    assert info["level"] in {"L0", "L1", "L2"}
    *steps, last = play(env, info["walkthrough"])
    for _, reward, terminated, _, info in steps:
        assert (reward, terminated, info["success"]) == (0, False, False)
        assert info["progress"] < 1
    _, reward, terminated, truncated, info = last
    assert (reward, terminated, truncated, info["success"]) == (3.0, True, False, True)
    assert info["progress"] == 1
    assert any(fact.startswith("inreceptacle(") for fact in info["facts"])


def test_keys_that_were_not_asked_for_are_not_there():
    _, info = make().reset(seed=1)
    assert {"task_type", "level"} == info.keys() - set(agent_envs.INFO_KEYS)


@pytest.mark.parametrize("engine_option", ["facts", "distance", "none"])
def test_the_kinds_of_progress_agree_at_the_end(engine_option):
    env = make(progress=engine_option, walkthrough=True)
    _, info = env.reset(seed=3)
    assert info["progress"] == 0
    shares = [info["progress"] for *_, info in play(env, info["walkthrough"])]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert all(share < 1 for share in shares[:-1])


def test_progress_by_distance_is_what_is_left_of_a_shortest_solution():
    env = make(progress="distance", walkthrough=True)
    _, info = env.reset(seed=5)
    length = len(info["walkthrough"])
    shares = [info["progress"] for *_, info in play(env, info["walkthrough"])]
    assert shares == pytest.approx([(done + 1) / length for done in range(length)])


def test_progress_by_distance_is_at_least_0_and_a_solved_task_no_dead_end(folder):
    env = gym.make("AlfWorld-v0", data=folder, progress="distance", task_types="pick")
    env.reset(options={"task": 0})
    # Five steps are needed at the start: go to a mug, take it, go to the fridge, open it, move it.
    wrong = ("go to drawer 1", "take apple 1 from countertop 1", "go to sinkbasin 1")
    # Then 4; 5 with the apple to be put down first; 6 away from the mugs.
    shares = [info["progress"] for *_, info in play(env, wrong)]
    assert shares == pytest.approx([1 / 5, 0, 0])
    right = ("move apple 1 to sinkbasin 1", "go to drawer 1", "take mug 3 from countertop 2")
    infos = [info for *_, info in play(env, [*right, "go to fridge 1", "open fridge 1"])]
    *_, last = env.step("move mug 3 to fridge 1")
    assert last["success"]
    assert not any(info["dead_end"] for info in [*infos, last])


def test_the_turn_limit_is_50():
    assert make().unwrapped.max_turns == 50


def test_a_goal_out_of_reach_is_a_dead_end(folder, kitchen):
    # two mugs are asked for in the fridge; without canContain for it neither can be put there
    for file in folder.glob("json_2.1.1/valid_unseen/*/*/game.tw-pddl"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("(canContain FridgeType MugType)", ""), encoding="utf-8")
    env = gym.make("AlfWorld-v0", data=folder, split="valid_unseen", progress="distance")
    _, info = env.reset(seed=0)
    assert info["dead_end"] is True
    assert info["progress"] == 0
    _, _, _, _, info = env.step("look")
    assert (info["dead_end"], info["progress"]) == (True, 0)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("take mug 1 from drawer 1", "refused"),
        ("go to drawer 1", "refused"),  # being there
        (" go to countertop 1 ", "refused"),
        ("open countertop 1", "refused"),
        ("examine mug 3", "refused"),
        ("use apple 1", "refused"),
        ("slice apple 1 with knife 1", "refused"),
        ("move box 1 to fridge 1", "refused"),
        ("heat apple 1 with fridge 1", "refused"),
        ("take mug 4 from drawer 1", "unknown"),
        ("take drawer 1 from mug 1", "unknown"),
        ("go to mug 1", "unknown"),
        ("go to bed 1", "unknown"),
        ("put mug 1 in/on drawer 1", "unknown"),
        ("slice apple 1 with drawer 1", "unknown"),
        ("Look", "unknown"),
        ("take", "unknown"),
        ("", "unknown"),
        ("take mug 1", "unknown"),
    ],
)
def test_why_a_command_was_not_admissible(kitchen, command, why):
    world = kitchen()
    world.execute("go to drawer 1")
    assert command.strip() not in world.admissible()
    assert reason(command, world) == why


def test_the_older_dialect_has_one_form_more(kitchen):
    assert reason("put mug 1 in/on drawer 1", kitchen(dialect="0.3")) == "refused"


def test_valid_is_mgrs_patterns_and_the_same_as_admissible():
    env = make(max_turns=60)
    rng = np.random.default_rng(0)
    for seed in range(12):
        _, info = env.reset(seed=seed)
        _, other = env.reset(seed=seed + 100)
        _, info = env.reset(seed=seed)
        done = False
        while not done:
            pool = [info["admissible_actions"], other["admissible_actions"], ["dance", "open", ""]]
            options = pool[rng.choice(3, p=[0.7, 0.2, 0.1])]
            command = options[rng.integers(len(options))]
            admissible = command in info["admissible_actions"]
            observation, _, terminated, truncated, info = env.step(command)
            assert info["valid"] == admissible == (MGR_INVALID.search(observation) is None)
            assert (info["invalid_reason"] == "") == info["valid"]
            done = terminated or truncated


@pytest.mark.parametrize("odd", ["look\x00", "\x1b[2J", "look\nlook", "öffnen", "a" * 4096])
def test_odd_actions_of_a_permitted_length_are_unknown(odd):
    env = make()
    _, before = env.reset(seed=0)
    observation, _, _, _, info = env.step(odd)
    assert observation == "Nothing happens."
    assert (info["valid"], info["invalid_reason"]) == (False, "unknown")
    assert info["anchor"] == before["anchor"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"engine": "nativ"}, ValueError, "unknown engine 'nativ', did you mean 'native'"),
        ({"progress": "fact"}, ValueError, "unknown progress 'fact', did you mean 'facts'"),
        ({"dialect": "0.5"}, ValueError, "unknown dialect '0.5', did you mean '0.[34]'"),
        ({"split": "test"}, ValueError, "unknown split 'test'"),
        ({"task_types": "wash"}, ValueError, "unknown task type or level 'wash'"),
        ({"data": "/nowhere"}, MissingAsset, "no games in /nowhere"),
        ({"engine": "textworld", "dialect": "0.3"}, ValueError, "speaks dialect '0.4' only"),
    ],
)
def test_a_wrong_option_is_refused_when_it_is_given(options, error, message):
    with pytest.raises(error, match=message):
        gym.make("AlfWorld-v0", **{"data": "embedded"} | options)


def test_a_broken_game_is_refused_at_its_reset_and_leaves_the_others_playable(folder):
    env = gym.make("AlfWorld-v0", data=folder)
    (file,) = folder.glob("json_2.1.1/train/pick_heat*/*/game.tw-pddl")
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(BadAsset, match=f"^{file}: key 'pddl_domain' is missing"):
        env.reset(options={"task": 1})
    observation, _ = env.reset(options={"task": 0})
    assert observation.endswith("Your task is to: pick the mug.")


def test_a_copy_branches_and_the_original_goes_on():
    env = make(walkthrough=True)
    _, info = env.reset(seed=2)
    first, *rest = info["walkthrough"]
    env.step(first)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        twin.step("look")
        assert play(twin, rest)[-1][2]
    assert play(env, rest)[-1][2]
