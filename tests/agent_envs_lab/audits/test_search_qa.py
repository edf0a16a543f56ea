"""The audits of both environments: anchors in every mode, and what is earned without reading."""

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.search_qa.world import open_world
from agent_envs.testing.episodes import play_episode
from agent_envs_lab.audits import audit_anchors
from agent_envs_lab.audits.episodes import draw_starts
from agent_envs_lab.audits.search_qa import NON_SOLVERS

pytestmark = pytest.mark.slow

STRICT = {"strict_compat": True}
MODES = [
    ("SearchQA-v1", {}),
    ("WikiSearch-v1", {"max_turns": 6}),
    ("SearchQA-v0", {"protocol": "verl_agent", "reward": "sub_em"}),
    ("WikiSearch-v0", STRICT | {"reward": "merged"}),
]
OTHERS = [
    ("SearchQA-v1", {"hops": 1}),
    ("WikiSearch-v1", {"max_turns": 6, "reward": "merged"}),
    ("SearchQA-v0", {}),
    ("SearchQA-v0", {"reward": "format", "max_turns": 7}),
    ("SearchQA-v0", STRICT),
    ("SearchQA-v0", STRICT | {"reward": "format"}),
    ("SearchQA-v0", STRICT | {"protocol": "verl_agent"}),
    ("WikiSearch-v0", {"max_turns": 6}),
    ("WikiSearch-v0", {"max_turns": 6, "reward": "merged"}),
]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Makes an environment; the public ones play an export of the generated world."""
    folder = open_world("test").export(tmp_path_factory.mktemp("data"))

    def run(name, **options):
        public = {"data": str(folder)} if name.endswith("v0") else {}
        return gym.make(name, split="test", **public, **options)

    return run


@pytest.mark.parametrize(
    ("name", "options"), [*MODES, *(pytest.param(*one, marks=pytest.mark.long) for one in OTHERS)]
)
def test_anchors_have_all_that_decides(make, name, options):
    found = audit_anchors(make(name, **options), tasks=5, episodes=60)
    assert found.passed, str(found)
    assert found.anchor.revisited >= 20


def play(env, player, tasks):
    """The last turn of each episode."""
    for start in draw_starts(env, tasks, seed=0):
        yield list(play_episode(env, start, lambda: NON_SOLVERS[player](np.random.default_rng(0))))[
            -1
        ]


@pytest.mark.parametrize("name", ["SearchQA-v1", "WikiSearch-v1"])
@pytest.mark.parametrize("player", NON_SOLVERS)
@pytest.mark.parametrize("tasks", [60, pytest.param(150, marks=pytest.mark.long)])
def test_who_does_not_read_fails(make, name, player, tasks):
    ends = list(play(make(name), player, tasks))
    assert all(end.info["valid"] or "nothing" in player for end in ends)
    assert sum(end.info["success"] for end in ends) <= tasks // 5


@pytest.mark.parametrize("player", NON_SOLVERS)
def test_each_player_does_what_it_is_named_for(make, player):
    for name in ("SearchQA-v1", "WikiSearch-v1", "SearchQA-v0", "WikiSearch-v0"):
        env = make(name)
        for _ in play(env, player, tasks=3):
            actions = [action for action, _ in env.unwrapped.transcript]
            searched = any("search" in action for action in actions)
            assert searched == ("quer" in player or "searches" in player)
