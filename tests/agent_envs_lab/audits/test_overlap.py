"""Test tasks of a lifted world that start as training tasks do."""

import gymnasium as gym
import pytest
from gymnasium import spaces

from agent_envs import Signals
from agent_envs.testing.episodes import Budget
from agent_envs_lab.audits import audit
from agent_envs_lab.audits.overlap import count_shared_starts, find_copies


class Count(gym.Env):
    """Say the number of the task, which is its seed, or the rest of a division of it."""

    action_space = observation_space = spaces.Text(20)

    def __init__(self, kinds):
        self.kinds = kinds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = seed % self.kinds
        return "Say the number.", {}

    def step(self, action):
        right = action == str(self.number)
        return str(right), float(right), True, False, {}


class Uncopied(Count):
    def __deepcopy__(self, memo):
        raise TypeError("no copies")


@pytest.mark.parametrize(
    ("world", "shared"),
    [
        (Count(5000), 0),
        (Count(1110), 22),  # seeds 1100 to 1131: those from 1110 on are 0 to 21
        (Count(10), 32),
        (Uncopied(5000), 32),  # all first observations are equal
    ],
)
def test_starts_are_compared(world, shared):
    assert count_shared_starts(Signals(world, success_reward=1.0), seconds=60) == (shared, 1000)


def test_the_audit_says_so_in_one_line():
    env = Signals(Count(10), success_reward=1.0)
    found = audit(env, tasks=2, episodes=4, players=4, seconds=600)
    line = "32 of the first 32 test tasks start as one of 1,000 training tasks does"
    assert line in str(found).splitlines()
    assert found.json()["overlap"] == line
    assert found.copies == "990 of 1,000 tasks begin as an earlier one, seed-10 as seed-0"
    assert found.copies in str(found).splitlines()


def test_copies_in_a_panel_are_found():
    env = Signals(Count(998), success_reward=1.0)
    assert find_copies(env) == (1000, [("seed-0", "seed-998"), ("seed-1", "seed-999")])
    with Budget(seconds=0):
        assert find_copies(env) == (0, [])
    assert find_copies(Count(5)) == (0, [])  # it has no panel
