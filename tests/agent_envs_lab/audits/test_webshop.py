"""The audits of WebShop: anchors hold in both shops, and what shoppers that read nothing earn."""

import gymnasium as gym
import pytest

from agent_envs_lab.audits import audit_anchors, audit_rewards
from agent_envs_lab.audits.webshop import NON_SOLVERS

pytestmark = pytest.mark.slow
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("tasks", "episodes", "revisited"),
    [(3, 30, 80), pytest.param(6, 60, 300, marks=LONG)],
)
def test_equal_anchors_have_equal_futures(tasks, episodes, revisited):
    env = gym.make("WebShop-v1", reward="score")
    audit = audit_anchors(env, tasks=tasks, episodes=episodes)
    assert audit.passed, audit
    assert audit.anchor.revisited >= revisited


@LONG
def test_equal_anchors_have_equal_futures_in_the_public_shop(shared_data, tmp_path):
    for name in ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz"):
        (tmp_path / name).write_bytes((shared_data / "webshop" / name).read_bytes())
    env = gym.make("WebShop-v0", data=tmp_path, reward="score")
    assert audit_anchors(env, tasks=6, episodes=60).passed


@pytest.mark.parametrize(("tasks", "episodes"), [(3, 30), pytest.param(6, 60, marks=LONG)])
def test_an_anchor_without_the_options_is_found_out(tasks, episodes):
    env = gym.make("WebShop-v1", reward="score")

    def blind(_, info):
        page = env.unwrapped.page
        return f"{page.kind} {page.query} {page.number} {page.product} {page.sub}"

    assert not audit_anchors(env, anchor=blind, tasks=tasks, episodes=episodes).passed


@pytest.mark.parametrize("tasks", [40, pytest.param(100, marks=LONG)])
def test_what_players_earn_that_do_not_shop(tasks):
    audit = audit_rewards(gym.make("WebShop-v1", split="test"), tasks=tasks)
    earned = {name: player.success.share for name, player in audit.players.items()}
    assert set(earned) > set(NON_SOLVERS)
    assert max(earned.values()) <= 0.2
