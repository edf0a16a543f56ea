from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agent_envs import FreeText, ParseReply, Prompt, make_vec
from agent_envs.testing import check_agent_env

SEED = 11
ACTIONS = [
    ("", "right", "漢字 é 🎉"),
    ("left", "x" * 3000, "\x00\x1b["),
    ("right", "x" * 5000, "right \ud800"),
    ("open", "right", "left"),
    ("right", "right", "right"),
]


def one_by_one(seed: int, actions) -> list[tuple]:
    """What a single environment shows, restarted as "next_step" does."""
    env = gym.make("Hallway-v0")
    shown = [(env.reset(seed=seed)[0], 0.0, False, False, None)]
    ended = False
    for action in actions:
        if ended:
            observation, info = env.reset()
            shown.append((observation, 0.0, False, False, info["anchor"]))
            ended = False
            continue
        *step, info = env.step(action)
        shown.append((*step, info["anchor"]))
        ended = step[2] or step[3]
    return shown


def vectors():
    gym_async = {"vectorization_mode": "async"}
    return {
        "make_vec": lambda: make_vec("Hallway-v0", 3),
        "make_vec async": lambda: make_vec("Hallway-v0", 3, vectorization_mode="async"),
        "gym sync": lambda: gym.make_vec("Hallway-v0", 3, vectorization_mode="sync"),
        "gym async, shared memory": lambda: gym.make_vec("Hallway-v0", 3, **gym_async),
        "gym async, no copies": lambda: gym.make_vec(
            "Hallway-v0", 3, **gym_async, vector_kwargs={"copy": False}
        ),
        "gym async, spawned": lambda: gym.make_vec(
            "Hallway-v0", 3, **gym_async, vector_kwargs={"context": "spawn"}
        ),
        "gym default": lambda: gym.make_vec("Hallway-v0", 3),
    }


@pytest.mark.parametrize("name", vectors())
def test_every_copy_shows_what_a_single_environment_shows(name):
    env = vectors()[name]()
    try:
        observations, _ = env.reset(seed=SEED)
        opening, shown = tuple(observations), []
        for actions in ACTIONS * 3:
            observations, *rest, info = env.step(actions)
            assert env.observation_space.contains(tuple(observations))
            shown.append((tuple(observations), *rest, info["anchor"]))
    finally:
        env.close()
    for i in range(3):
        expected = one_by_one(SEED + i, [actions[i] for actions in ACTIONS * 3])
        found = [tuple(column[i] for column in step) for step in shown]
        assert opening[i] == expected[0][0]
        assert found == expected[1:]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_observations_kept_by_the_caller_do_not_change(mode):
    env = gym.make_vec("Hallway-v0", 2, vectorization_mode=mode)
    try:
        first, _ = env.reset(seed=1)
        kept = tuple(first)
        env.step(("dance", "sing"))
        assert tuple(first) == kept
        assert isinstance(first, tuple)
    finally:
        env.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_same_step_keeps_the_last_observation_and_info(mode):
    env = make_vec("Hallway-v0", 2, vectorization_mode=mode, autoreset="same_step")
    try:
        env.reset(seed=[1, 2])
        ended = np.zeros(2, bool)
        while not ended[0]:
            observations, _, terminated, truncated, info = env.step(("left", "look"))
            ended = terminated | truncated
        assert observations[0] == "You are in a hallway."
        assert info["final_obs"][0] == "You fell."
        assert info["final_info"]["goal"][0].startswith("open the door")
        assert info["turn"][0] == 0
    finally:
        env.close()


def test_disabled_waits_for_a_reset():
    env = make_vec("Hallway-v0", 2, autoreset="disabled")
    env.reset(seed=1)
    ended = np.zeros(2, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = env.step(("left", "look"))
        ended = terminated | truncated
    observations, info = env.reset(options={"reset_mask": ended})
    assert observations[0] == "You are in a hallway."
    assert info["turn"][0] == 0
    env.close()


def test_tasks_wrappers_and_arguments_reach_every_copy():
    env = make_vec("Hallway-v0", 2, env_kwargs={"max_turns": 1}, wrappers=[ParseReply])
    _, info = env.reset(seed=1, options={"task": 4})
    assert info["task_id"].tolist() == ["toy/train/6"] * 2
    assert env.single_action_space == FreeText(65_536)
    *_, truncated, info = env.step(("<think>.</think><action>right</action>", "right"))
    assert truncated.tolist() == [True, True]
    assert info["valid"].tolist() == [True, False]
    assert info["action"].tolist() == ["right", ""]
    env.close()


def test_prompts_travel_through_shared_memory():
    env = gym.make_vec(
        "Hallway-v0", 2, vectorization_mode="async", wrappers=[ParseReply, Prompt], max_turns=3
    )
    try:
        prompts, info = env.reset(seed=1)
        single = Prompt(ParseReply(gym.make("Hallway-v0", max_turns=3)))
        expected, expected_info = single.reset(seed=2)
        assert prompts[1] == expected
        assert info["blind_prompt"][1] == expected_info["blind_prompt"]
        replies = ("right", "<think>é</think><action>right</action>")
        assert env.step(replies)[0][1] == single.step(replies[1])[0]
    finally:
        env.close()


def test_info_arrays_by_kind():
    env = make_vec("Hallway-v0", 2)
    _, info = env.reset(seed=1)
    kinds = {key: value.dtype.kind for key, value in info.items() if not key.startswith("_")}
    assert kinds == {
        "goal": "O",
        "valid": "b",
        "invalid_reason": "O",
        "progress": "f",
        "anchor": "O",
        "success": "b",
        "admissible_actions": "O",
        "task_id": "O",
        "turn": "i",
        "cells": "O",
    }
    assert info["admissible_actions"][1] == ["left", "open", "right"]
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_wrong_type_of_action_is_refused_in_any_process(mode):
    env = make_vec("Hallway-v0", 2, vectorization_mode=mode)
    try:
        env.reset(seed=1)
        with pytest.raises(TypeError, match="an action is a string, got 3"):
            env.step(("right", 3))
    finally:
        env.close(terminate=True) if mode == "async" else env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n counts the copies and is at least 1, got 0"),
        ({"vectorization_mode": "thread"}, "'sync' or 'async', got 'thread'"),
        ({"autoreset": "never"}, "autoreset is one of .*'next_step'.*got 'never'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_vec("Hallway-v0", **arguments)


def test_a_copy_keeps_the_whole_contract():
    check_agent_env(make_vec("Hallway-v0", 1).envs[0])
