"""The Explorer of Sokoban: shortest solutions of the board as it is shown."""

from __future__ import annotations

import gymnasium as gym

from agent_envs.sokoban.experts import Explorer


def test_the_plan_is_what_progress_counts():
    env = gym.make("Sokoban-v0", boxes=2, split="test")
    for task in range(10):
        env.reset(options={"task": task})
        plan = Explorer(env).plan()
        left = [env.step(action)[4]["remaining"] for action in plan]
        assert left == list(range(len(plan) - 1, -1, -1))


def test_the_explorer_says_its_plan(level):
    env = level("#######", "#@ $ .#", "#     #", "#######", action_space="discrete9")
    env.reset(seed=1)
    said = []
    for _ in range(3):
        said.append((Explorer(env).think(), Explorer(env).act()))
        env.step(said[-1][1])
    assert said == [
        ("push right push right push right", "push right"),
        ("push right push right", "push right"),
        ("push right", "push right"),
    ]


def test_where_there_is_no_solution_it_does_the_first_of_all_actions(level):
    env = level("######", "#@  .#", "#$   #", "######")  # in a corner
    env.reset(seed=1)
    assert Explorer(env).plan() == []
    assert (Explorer(env).act(), Explorer(env).think()) == ("up", "no push can save this")
