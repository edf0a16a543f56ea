"""The audits of WebShop: anchors hold in both modes, and what shoppers that read nothing earn."""

import gymnasium as gym
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
