"""The audits of both environments: anchors in every mode, and what is earned without reading."""

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.testing.episodes import play_episode
from agent_envs_lab.audits import audit_anchors
from agent_envs_lab.audits.episodes import draw_starts
from agent_envs_lab.audits.search_qa import NON_SOLVERS

pytestmark = pytest.mark.slow

STRICT = {"strict_compat": True}
MODES = [
    ("SearchQA-v0", {}),
    ("SearchQA-v0", {"reward": "format", "max_searches": 2, "max_turns": 7}),
    ("SearchQA-v0", {"protocol": "verl_agent", "reward": "sub_em"}),
    ("SearchQA-v0", STRICT),
    ("SearchQA-v0", STRICT | {"reward": "format"}),
    ("SearchQA-v0", STRICT | {"protocol": "verl_agent"}),
    ("WikiSearch-v0", {"max_turns": 6}),
    ("WikiSearch-v0", {"max_turns": 6, "reward": "merged"}),
    ("WikiSearch-v0", STRICT | {"reward": "merged"}),
    ("WikiSearch-v0", {"protocol": "wiki_pages"}),
]


def make(name, **options):
    return gym.make(name, data="embedded", split="test", **options)


@pytest.mark.parametrize(("name", "options"), MODES)
def test_anchors_have_all_that_decides(name, options):
    found = audit_anchors(make(name, **options), tasks=5, episodes=60)
    assert found.passed, str(found)
    assert found.anchor.revisited >= 20


def played(env, player, tasks=60):
    """The last turn, the sum of rewards and the sum of turn rewards of each episode."""
    for start in draw_starts(env, tasks, seed=0):
        turns = list(
            play_episode(env, start, lambda: NON_SOLVERS[player](np.random.default_rng(0)))
        )
        paid = sum(sum(turn.info.get("turn_reward", {}).values()) for turn in turns)
        yield turns[-1], sum(turn.reward for turn in turns), paid


CHANCE = {"yes, without a search", "the first of two things to choose from"}
READS = {
    name for name in NON_SOLVERS if "title" in name and ", not" not in name and "query" in name
}
NAMES = [
    ("SearchQA-v0", "f1"),
    ("SearchQA-v0", "sub_em"),
    ("SearchQA-v0", "format"),
    ("WikiSearch-v0", "outcome"),
    ("WikiSearch-v0", "merged"),
]


@pytest.mark.parametrize(("name", "reward"), NAMES)
@pytest.mark.parametrize("player", sorted({*NON_SOLVERS} - CHANCE - READS))
def test_what_reads_nothing_earns_nothing(name, reward, player):
    env = make(name, reward=reward)
    ends, rewards, paid = zip(*played(env, player), strict=True)
    assert not any(end.info["success"] for end in ends)
    asks = "the question as the query" in player
    assert asks == (np.mean(paid) > 0.05)  # who searches for the question finds something
    found = np.mean(paid) if reward == "merged" else 0.1 * asks if reward == "format" else 0
    assert np.mean(rewards) <= found + 0.02


@pytest.mark.parametrize("player", NON_SOLVERS)
@pytest.mark.parametrize(("name", "options"), [("SearchQA-v0", {}), *MODES[-4:-3], MODES[-1]])
def test_each_player_does_what_it_is_named_for(name, options, player):
    env = make(name, **options)
    for end, *_ in played(env, player, tasks=3):
        once = "refused" if "wiki_search" in str(env.unwrapped.transcript) else ""
        assert end.info["invalid_reason"] in {"", once}  # the one call of "mt_grpo" is used up
        assert end.info["answer"] or not end.info["valid"]
        actions = [action for action, _ in env.unwrapped.transcript]
        searched = any("search" in action for action in actions)
        assert searched == ("query" in player or "searches" in player)
