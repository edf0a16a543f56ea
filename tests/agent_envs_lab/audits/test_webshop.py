"""The audits of WebShop: anchors hold in both modes, and what shoppers that read nothing earn."""

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.webshop.shop import MODES
from agent_envs_lab.audits import audit_anchors, audit_rewards
from agent_envs_lab.audits.webshop import NON_SOLVERS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "mode", [pytest.param(one, marks=() if one == "strict" else pytest.mark.long) for one in MODES]
)
def test_equal_anchors_have_equal_futures(mode):
    env = gym.make("WebShop-v0", mode=mode, split="all", reward="score")
    audit = audit_anchors(env, tasks=6, episodes=60)
    assert audit.passed, audit
    assert audit.anchor.revisited >= 300


def test_an_anchor_without_the_options_is_found_out():
    env = gym.make("WebShop-v0", split="all", reward="score")

    def blind(_, info):
        page = env.unwrapped.page
        return f"{page.kind} {page.query} {page.number} {page.product} {page.sub}"

    assert not audit_anchors(env, anchor=blind, tasks=6, episodes=60).passed


def test_what_players_earn_that_do_not_shop():
    audit = audit_rewards(gym.make("WebShop-v0", split="test"), tasks=60)
    earned = {name: player.success.high for name, player in audit.players.items()}
    assert set(earned) > set(NON_SOLVERS)
    reading = {name for name in earned if "options named" in name}  # of titles and buttons
    assert max(earned[name] for name in set(earned) - reading) < 0.15


def test_players_act_as_their_names_say():
    seen = {}
    for name, make in NON_SOLVERS.items():
        env = gym.make("WebShop-v0", split="test")
        observation, info = env.reset(options={"task": 3})
        actor, seen[name] = make(np.random.default_rng(0)), []
        while not (info["success"] or info["reward_terms"] or info["turn"] == 15):
            seen[name].append(actor(observation, info))
            observation, _, _, _, info = env.step(seen[name][-1])
    goal = gym.make("WebShop-v0", split="test").reset(options={"task": 3})[1]["goal"]
    first = seen["first result"]
    assert [first[0], first[2:]] == [f"search[{goal}]", ["click[buy now]"]]
    named = seen["first result, options named"]
    assert named[:2] == first[:2]
    assert len(named) == 2 + 2 + 1  # search, open, a value of each of two options, buy
    assert all(action[6:-1] in goal for action in named[2:-1])
    assert seen["the same for every task"][0] == "search[a]"
