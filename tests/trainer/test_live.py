"""The live figure of credit."""

from __future__ import annotations

import re

import numpy as np

import credit
from tests.trainer.run_folders import episode
from trainer.run.live import Shown, draw_live, draw_rollouts, estimate_credit

ACTIONS = ["go <b>", "take\n\nit", "go <b>", "drop"]


def batch(**more):
    return credit.Turns(
        group=[0, 0], outcome=[1.0, 0.0], goal=["<script>win</script>"] * 2,
        trajectory=[0, 0, 1, 1], reward=[0.0] * 4, valid=[True, False, True, True],
        progress=[0.5, 1.0, 0.0, 0.0], anchor=["door", "door", "desk", "bed"], action=ACTIONS,
        entropy=[0.4, 0.1, 0.6, 0.9], **more,
    )  # fmt: skip


def test_every_method_that_the_columns_suffice_for_gives_its_own_credit():
    found = estimate_credit(batch())
    assert {"grpo", "mgr", "rtmc", "has", "empg"} <= found.keys()
    assert not {"istar", "igpo", "mt_grpo"} & found.keys()  # rewards and chances were not recorded
    assert np.array_equal(found["rtmc"], credit.make("rtmc")(batch()))
    paid = batch(turn_reward=np.ones((4, 1)), turn_reward_names=("tool",))
    assert "mt_grpo" in estimate_credit(paid)


def test_the_first_episode_and_the_chosen_columns_are_shown_and_texts_are_text():
    turns = batch()
    first = {"true": np.array([0.5, -0.25, 0.0, 0.0]), "grpo": np.ones(4)}
    page = draw_live(
        [Shown("one", turns, 0, first), Shown("two", turns, 1, {"true": np.zeros(4)})], ["true"]
    )
    assert re.findall(r'id="([\w-]+)" checked', page) == ["live-e0", "live-c0"]
    assert "<script>" not in page
    assert "go &lt;b&gt;" in page
    assert "take it" in page
    assert "\n\n" not in page  # an empty line would end HTML inside Markdown
    one, two = page.split('<div class="told e1">')
    assert '<td class="num c0 gain" style="--s:1.00">+0.50</td>' in one
    assert '<td class="num c0 loss" style="--s:0.50">−0.25</td>' in one
    assert one.count('class="state again">A') == 2
    assert two.count('<td class="num c1">–</td>') == 2  # it has no such column
    assert two.count('<td class="num c0">0</td>') == 2


def test_rollouts_of_a_run_have_their_own_credit_first():
    played = [episode(success=True), episode(success=False)]
    turns = sum(len(one.steps) for one in played)
    page = draw_rollouts(played, [1, 0], np.linspace(-1, 1, turns), "grpo")
    assert re.findall(r">([^<]+)</label>", page)[:3] == ["1 lost", "2 won", "this run"]
    shown = re.findall(r" checked>([^<]+)<", page)
    assert shown == ["1 lost", "this run", "rtmc"]
    without = draw_rollouts(played, [0], None, "mgr")
    assert re.findall(r" checked>([^<]+)<", without) == ["1 won", "grpo"]
