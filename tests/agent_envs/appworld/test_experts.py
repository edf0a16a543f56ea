"""The Explorer of AppWorld: it reads the request and does what the solution does."""

from __future__ import annotations

import gymnasium as gym
import pytest

from agent_envs.appworld import tasks
from agent_envs.appworld.experts import Explorer, solve
from agent_envs.appworld.families import FAMILIES

pytestmark = pytest.mark.slow

TASK = "tick_off-0"


def reply(code, thought="so"):
    return f"<think>{thought}</think>\n```python\n{code}\n```"


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_what_it_reads_from_a_request_is_what_the_task_was_made_with(family):
    for seed in range(60):
        task = tasks.make_task(f"{family.name}-{seed}")
        assert solve(task.instruction) == family.write_solution(task.plan)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.long if place % 4 else ())
        for place, name in enumerate(FAMILIES)
    ],
)
def test_each_turn_is_valid_and_does_no_harm(family):
    env = gym.make("AppWorld-v0", split="all").unwrapped
    for seed in range(20):
        observation, info = env.reset(options={"task_id": f"{family}-{seed}"})
        expert, done = Explorer(env), False
        while not done:
            said = reply(expert.act(), expert.think())
            observation, reward, terminated, truncated, info = env.step(said)
            assert (info["valid"], info["invalid_reason"], info["harm"]) == (True, "", [])
            done = terminated or truncated
        assert (reward, info["success"], info["progress"]) == (1.0, True, 1.0), observation
    env.close()


def test_it_says_what_for_and_can_take_over():
    env = gym.make("AppWorld-v0").unwrapped
    env.reset(options={"task_id": TASK})
    expert = Explorer(env)
    env.step(reply("print(apis.supervisor.show_profile())"))
    assert expert.think().startswith("See who I work for")
    env.step(reply(expert.act(), expert.think()))
    assert expert.think() == "Open the list"
    assert Explorer(env).plan() == expert.plan()
    while env._live:
        *_, info = env.step(reply(expert.act()))
    assert info["success"]
    assert len(expert.plan()) == 1


def test_it_plays_by_http_what_it_can_read(served, lists):
    env = gym.make("AppWorld-v0", backend="http", server=served.url, data=lists).unwrapped
    env.reset(options={"task_id": TASK})
    assert Explorer(env).plan() == list(solve(env.goal))
    env.goal = "How many of my playlists have no song of this year?"
    with pytest.raises(ValueError, match=r"only reads requests of backend='mini', got 'How"):
        Explorer(env)
    env.close()
