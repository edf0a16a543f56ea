"""The Explorer of EZPoints: it finishes what can be finished, and ends what cannot."""

from __future__ import annotations

import gymnasium as gym
import pytest

from agent_envs.ezpoints.experts import Explorer


@pytest.fixture
def env():
    """A king and a two."""
    env = gym.make("EZPoints-v0", split="all").unwrapped
    task = next(task for task in env.panel.task_ids if task.endswith("-KS-2H"))
    env.reset(options={"task_id": task})
    return env


def test_it_says_what_for(env):
    explorer, thoughts, success = Explorer(env), [], False
    while not success:
        thoughts.append(explorer.think())
        success = env.step(explorer.act())[4]["success"]
    assert thoughts == ["10+2 would make 12"] * 3 + ["10+2 makes 12"]


def test_it_ends_what_cannot_be_won(env):
    for symbol in ("10", "*"):
        env.step(symbol)
    explorer = Explorer(env)
    assert explorer.think() == "this cannot make 12 any more, so end it"
    assert (explorer.act(), explorer.plan()) == ("=", ["="])


def test_it_goes_on_from_what_was_said(env):
    for symbol, left in (("2", ["+", "10", "="]), ("+", ["10", "="])):
        env.step(symbol)
        assert Explorer(env).plan() == left


@pytest.mark.parametrize("reward", ["success", "rl4vlm", "verl-agent"])
def test_every_hand_takes_four_turns(reward):
    env = gym.make("EZPoints-v0", split="all", reward=reward)
    for task in range(0, 768, 7):
        env.reset(options={"task": task})
        plan = Explorer(env).plan()
        *_, last = map(env.step, plan)
        assert (len(plan), last[4]["success"]) == (4, True)
