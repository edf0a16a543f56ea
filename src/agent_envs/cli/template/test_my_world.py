"""Tests of the environment; run them with `python -m pytest`."""

import pytest
from my_world import SIZES, Explorer, MyWorld

from agent_envs.testing import check_agent_env


@pytest.mark.parametrize("split", SIZES)
def test_the_contract_holds(split):
    check_agent_env(MyWorld(split=split))


@pytest.mark.parametrize("split", SIZES)
def test_the_explorer_solves_most_tasks(split):
    """What it does not solve is left out of a warm start; lower the share if it must guess."""
    env, solved = MyWorld(split=split), 0
    for task_id in env.panel.task_ids:
        _, info = env.reset(seed=0, options={"task_id": task_id})
        explorer, done = Explorer(env), False
        while not done:
            _, _, terminated, truncated, info = env.step(explorer.act())
            done = terminated or truncated
        solved += info["success"]
    assert solved >= 0.9 * len(env.panel)
