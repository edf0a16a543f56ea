"""The audits of WebShop: anchors hold in both shops, and what shoppers that read nothing earn."""

import gymnasium as gym
import pytest

from agent_envs_lab.audits import audit_anchors, audit_rewards
from agent_envs_lab.audits.webshop import NON_SOLVERS

pytestmark = pytest.mark.slow


def test_equal_anchors_have_equal_futures():
    audit = audit_anchors(gym.make("WebShop-v1", reward="score"), tasks=3, episodes=30)
    assert audit.passed, audit
    assert audit.anchor.revisited >= 80


@pytest.mark.long
def test_equal_anchors_have_equal_futures_in_the_public_shop(shared_data, tmp_path):
    for name in ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz"):
        (tmp_path / name).write_bytes((shared_data / "webshop" / name).read_bytes())
    env = gym.make("WebShop-v0", data=tmp_path, reward="score")
    assert audit_anchors(env, tasks=6, episodes=60).passed


def test_an_anchor_without_the_options_is_found_out():
    env = gym.make("WebShop-v1", reward="score")

    def blind(_, info):
        page = env.unwrapped.page
        return f"{page.kind} {page.query} {page.number} {page.product} {page.sub}"

    assert not audit_anchors(env, anchor=blind, tasks=3, episodes=30).passed


def test_what_players_earn_that_do_not_shop():
    audit = audit_rewards(gym.make("WebShop-v1", split="test"), tasks=40)
    earned = {name: player.success.share for name, player in audit.players.items()}
    assert set(earned) > set(NON_SOLVERS)
    assert max(earned.values()) <= 0.2
