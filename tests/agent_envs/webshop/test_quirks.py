"""Faults of the public WebShop that neither mode has; what the modes differ in is in test_shop."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections import Counter
from dataclasses import FrozenInstanceError

import gymnasium as gym
import pytest

from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.shop import MODES, Shop

pytestmark = pytest.mark.parametrize("mode", MODES)


def make(folder, mode, **options):
    return gym.make("WebShop-v0", data=folder, mode=mode, split="all", **options)


@pytest.fixture
def shoes(folder_of, record, wanted):
    """A light shoe in three colors and a soft one: four goals."""
    light = record("A1", options={"Color": ["Red", "Blue", "Green"]})
    return folder_of([light, record("B1")], {"A1": wanted("light"), "B1": wanted("soft")})


def test_result_pages_hold_no_category_in_a_comment(folder_of, record, wanted, mode):
    pytest.importorskip("jinja2", reason="no Jinja; pip install 'agent-envs[webshop]'")
    hidden = {"category": "outfits", "query": "plimsolls", "product_category": "Apparel › Feet"}
    env = make(folder_of([record(**hidden)], {"A1": wanted("light")}), mode, observation="html")
    env.reset(seed=0)
    observation, *_ = env.step("search[canvas]")
    assert "A1" in observation
    assert not [text for text in ("<!--", *hidden.values()) if text in observation]


def test_prices_are_drawn_from_the_price_seed_alone(folder_of, record, wanted, mode):
    # random.Random(0) starts with .8444, random.Random(1) with .1344: 10 + 10 * .8444 and so on
    folder = folder_of([record(pricing="$10 - $20")], {"A1": wanted("light")})
    catalogue, strict = open_catalogue(folder), mode == "strict"
    for seed, price in ((0, 18.444), (1, 11.344), (0, 18.444)):
        random.random()  # where the global generator stands does not matter
        before = random.getstate()
        shop = Shop(catalogue, kind="synthetic", strict=strict, price_seed=seed, attributes=False)
        # in strict mode the end of the range, which the page shows
        assert shop.prices == pytest.approx([20 if strict else price], abs=0.001)
        assert random.getstate() == before


def test_random_goals_are_drawn_evenly_by_the_seed_of_the_reset(shoes, mode):
    # the public WebShop never draws the first; by its weights one of the four comes half the times
    env = make(shoes, mode)
    tasks = env.unwrapped.panel.task_ids
    drawn = []
    for seed in range(400):
        random.seed(233)
        drawn.append(env.reset(seed=seed)[1]["task_id"])
    count = Counter(drawn)
    # 400 / 4 of each, give or take four deviations of sqrt(400 * 1/4 * 3/4) = 8.7
    assert len(tasks) == 4
    assert all(65 <= count[task] <= 135 for task in tasks)
    random.seed(7)
    before = random.getstate()
    assert [env.reset(seed=seed)[1]["task_id"] for seed in range(400)] == drawn
    assert random.getstate() == before


@pytest.mark.slow
def test_episodes_leave_nothing_behind(shoes, mode):
    env = make(shoes, mode)

    def held_after(episodes):
        for _ in range(episodes):
            env.reset(options={"task": 0})
            for action in ("search[shoe]", "click[a1]", "click[red]", "click[buy now]"):
                env.step(action)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    before = held_after(20)  # caches fill
    after = held_after(100)
    tracemalloc.stop()
    assert after - before < 5_000  # bytes: 50 an episode hold no session


def test_an_episode_cannot_change_the_goal_of_others(shoes, mode):
    env = make(shoes, mode)
    env.reset(options={"task": 0})
    with pytest.raises(FrozenInstanceError):
        env.unwrapped.task.text = "something else"
