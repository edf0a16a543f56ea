"""AlfWorld-v0: the contract, its signals and options."""

import dataclasses
import re

import gymnasium as gym
import numpy as np
import pytest

import agent_envs
from agent_envs import MissingAsset
from agent_envs.alfworld.env import find_invalid_reason, measure_milestones
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
    return gym.make("AlfWorld-v0", **{"data": "embedded"} | options)


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


@pytest.mark.parametrize("progress", ["facts", "distance", "none"])
@pytest.mark.parametrize("task", range(0, 120, 20))
def test_the_walkthrough_wins_and_pays_once(task, progress):
    env = make(
        split="valid_seen", walkthrough=True, success_reward=3.0, progress=progress, facts=True
    )
    observation, info = env.reset(options={"task": task})
    assert env.unwrapped.max_turns == 50
    assert any(fact.startswith("inreceptacle(") for fact in info["facts"])
    extra = {"strata", "facts", "walkthrough"}
    extra |= {"dead_end"} if progress == "distance" else set()
    assert info.keys() - set(agent_envs.INFO_KEYS) == extra
    assert info["goal"] in observation
    assert info["task_id"].split("/")[2].startswith(info["strata"]["task_type"])
    assert info["strata"]["level"] in {"L0", "L1", "L2"}
    steps = play(env, info["walkthrough"])
    assert [step[1:4] for step in steps] == [(0, False, False)] * (len(steps) - 1) + [
        (3.0, True, False)
    ]
    shares = [info["progress"], *(step[4]["progress"] for step in steps)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1], max(shares[:-1]) < 1) == (0, 1, True)
    assert [step[4]["success"] for step in steps] == [False] * (len(steps) - 1) + [True]
    if progress == "distance":
        assert shares == pytest.approx([done / len(steps) for done in range(len(shares))])


def test_progress_by_distance_is_at_least_0_and_a_solved_task_no_dead_end(folder):
    env = make(data=folder, progress="distance", task_types="pick")
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


@pytest.mark.parametrize(
    ("task", "steps"),
    [
        # seen, held, placed: thirds
        ("pick", {"go to countertop 2": 1 / 3, "take mug 3 from countertop 2": 2 / 3,
                  "go to fridge 1": 2 / 3, "open fridge 1": 2 / 3, "move mug 3 to fridge 1": 1}),
        # countertop 2 is seen first; its mugs stay within reach of drawer 1's spot
        ("clean", {"go to countertop 2": 1 / 4, "take mug 3 from countertop 2": 2 / 4,
                   "go to sinkbasin 1": 2 / 4, "clean mug 3 with sinkbasin 1": 3 / 4,
                   "move mug 3 to sinkbasin 1": 2 / 4, "take mug 3 from sinkbasin 1": 3 / 4,
                   "go to countertop 1": 3 / 4, "move mug 3 to countertop 1": 1}),
        # two things, three milestones each: sixths; the second mug was seen with the first
        ("pick2", {"go to countertop 2": 2 / 6, "take mug 3 from countertop 2": 3 / 6,
                   "go to fridge 1": 3 / 6, "open fridge 1": 3 / 6, "move mug 3 to fridge 1": 4 / 6,
                   "go to drawer 1": 4 / 6, "take mug 2 from countertop 2": 5 / 6}),
        # seen, held, lamp on while held
        ("look", {"go to sidetable 1": 0, "use desklamp 1": 0, "go to drawer 1": 0,
                  "open drawer 1": 1 / 3, "take mug 1 from drawer 1": 2 / 3,
                  "go to sinkbasin 1": 2 / 3, "move mug 1 to sinkbasin 1": 1 / 3,
                  "take mug 1 from sinkbasin 1": 2 / 3, "go to sidetable 1 ": 1}),
        # mug 2 is cold from the start, which counts once it is seen
        ("cool", {"go to drawer 1": 0, "examine countertop 1": 2 / 4}),
    ],
)  # fmt: skip
def test_milestones_by_hand(kitchen, task, steps):
    world = kitchen(task, also="(isCool Mug_bar_2)" if task == "cool" else "")
    assert measure_milestones(world) == 0
    for command, share in steps.items():
        world.execute(command)
        assert world.accepted
        assert measure_milestones(world) == pytest.approx(share), command
        assert world.won == (share == 1)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("take mug 1 from drawer 1", "refused"),
        ("go to drawer 1", "refused"),  # being there
        (" go to countertop 1 ", "refused"),
        ("examine mug 3", "refused"),
        ("slice apple 1 with knife 1", "refused"),
        ("move box 1 to fridge 1", "refused"),
        ("heat apple 1 with fridge 1", "refused"),
        ("take mug 4 from drawer 1", "unknown"),
        ("take drawer 1 from mug 1", "unknown"),
        ("go to mug 1", "unknown"),
        ("put mug 1 in/on drawer 1", "unknown"),  # but a form of the older dialect
        ("slice apple 1 with drawer 1", "unknown"),
        ("Look", "unknown"),
        ("", "unknown"),
        ("take mug 1", "unknown"),
    ],
)
def test_reasons_of_invalid_commands(kitchen, command, why):
    world = kitchen()
    world.execute("go to drawer 1")
    assert command.strip() not in world.admissible()
    assert find_invalid_reason(command, world) == why
    older = {"put": "refused", "move": "unknown"}.get(command.partition(" ")[0], why)
    assert find_invalid_reason(command, kitchen(dialect="0.3")) == older


def test_valid_is_mgrs_patterns_and_the_same_as_admissible():
    env = make(max_turns=60)
    rng = np.random.default_rng(0)
    odd = ["dance", "open", "", "look\x00", "\x1b[2J", "look\nlook", "öffnen", "a" * 4096]
    for seed in range(12):
        _, other = env.reset(seed=seed + 100)
        _, info = env.reset(seed=seed)
        done = False
        while not done:
            pool = [info["admissible_actions"], other["admissible_actions"], odd]
            options, before = pool[rng.choice(3, p=[0.7, 0.2, 0.1])], info["anchor"]
            command = options[rng.integers(len(options))]
            admissible = command in info["admissible_actions"]
            observation, _, terminated, truncated, info = env.step(command)
            assert info["valid"] == admissible == (MGR_INVALID.search(observation) is None)
            assert (info["invalid_reason"] == "") == info["valid"]
            assert info["valid"] or info["anchor"] == before
            assert command not in odd or info["invalid_reason"] == "unknown"
            done = terminated or truncated


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"engine": "nativ"}, ValueError, "unknown engine 'nativ', did you mean 'native'"),
        ({"progress": "fact"}, ValueError, "unknown progress 'fact', did you mean 'facts'"),
        ({"dialect": "0.5"}, ValueError, "unknown dialect '0.5', did you mean '0.[34]'"),
        ({"split": "valid_sen"}, ValueError, "unknown split 'valid_sen', did you mean 'valid_s"),
        ({"task_types": "heet"}, ValueError, "unknown task type or level 'heet'.*you mean 'heat'"),
        ({"task_types": ["pick", "L3"]}, ValueError, r"'L3', did you mean 'L\d'.*known are"),
        ({"data": "/nowhere"}, MissingAsset, "no games in /nowhere: .*alfworld-download.*embedded"),
        ({"data": "/"}, MissingAsset, "no games in /: expected json_2.1.1/<split>"),
        ({"engine": "textworld", "dialect": "0.3"}, ValueError, "each game in its own words, got"),
    ],
)
def test_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        make(**options)


def test_the_limit_counts_from_the_walkthrough():
    env = make(split="valid_seen", max_turns="oracle+2", walkthrough=True)
    for task in (0, 50):
        _, info = env.reset(options={"task": task})
        known = info["walkthrough"]
        ends = [env.step("look")[2:4] for _ in range(len(known) + 2)]
        assert ends == [(False, False)] * (len(known) + 1) + [(False, True)]
        env.reset(options={"task": task})
        assert play(env, known)[-1][2]


@pytest.mark.parametrize("given", ["oracle", "oracle+", "oracle-1", "oracle+x", "50"])
def test_other_words_are_no_limit(given):
    with pytest.raises(ValueError, match=r'a number of turns, or "oracle\+K" such as "oracle\+5"'):
        make(max_turns=given)


def test_a_game_without_a_walkthrough_has_no_limit_of_it(monkeypatch):
    env = make(max_turns="oracle+2")
    start = env.unwrapped._start
    bare = lambda *given: _without_walkthrough(start(*given))  # noqa: E731
    monkeypatch.setattr(env.unwrapped, "_start", bare)
    with pytest.raises(ValueError, match=r"has no walkthrough, .* give a number of turns"):
        env.reset(seed=1)


def _without_walkthrough(world):
    world.game = dataclasses.replace(world.game, walkthrough=())
    return world


@pytest.mark.slow
def test_the_contract_with_two_goals():
    check_agent_env(make(split="valid_two", progress="distance"), oracle=Oracle)


def test_two_goals_are_both_needed():
    env = make(split="valid_two", walkthrough=True)
    _, info = env.reset(options={"task": 0})
    assert ", and " in info["goal"]
    steps = play(env, info["walkthrough"])
    game, world = env.unwrapped.world.game, env.unwrapped.world
    assert all(world.has_reached(part) for part in game.parts)
    assert [step[2] for step in steps] == [False] * (len(steps) - 1) + [True]
    halves = [step[4]["progress"] for step in steps]
    assert halves == sorted(halves)
    assert 0.5 in halves
    assert halves[-1] == 1
