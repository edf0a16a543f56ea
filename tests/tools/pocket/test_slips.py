"""Demonstrations with slips, of households and of trips through a shop."""

import numpy as np
import pytest

from agent_envs.alfworld.experts import Searcher
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.world import World
from agent_envs.webshop.shop import open_facts
from agent_envs.webshop.world import SEED
from tools.alfworld.generate import generate_game
from tools.pocket.slips import play_household, play_shop


def generated(seed, task, size=0.3):
    data = generate_game(np.random.default_rng(seed), size=size, task_type=task)
    return World(parse_game(data, f"embedded/train/{task}/trial", "generated"))


def test_without_mistakes_it_is_the_expert():
    world, twin = generated(2, "heat"), generated(2, "heat")
    shown = list(play_household(world, np.random.default_rng(0), mistake=0))
    expert, actions = Searcher(twin.intro), []
    while not twin.won:
        actions.append(expert.act())
        expert.observe(actions[-1], twin.execute(actions[-1]))
    assert [turn.action for turn in shown] == actions
    assert shown[0].observation == world.intro
    assert not any(turn.mistake for turn in shown)


def test_it_slips_as_often_as_asked_and_recovers():
    worlds = [generated(seed, task) for seed in range(10) for task in SHORT_NAMES]
    shows = [
        list(play_household(world, np.random.default_rng(seed), mistake=0.2))
        for seed, world in enumerate(worlds)
    ]
    slips = [turn.mistake for show in shows for turn in show]
    assert np.mean(slips) == pytest.approx(0.2, abs=0.05)
    assert all(world.won for world in worlds)


def test_a_trip_slips_and_still_ends_with_a_purchase_and_the_hasty_buy_the_first_that_fits():
    shop = open_facts("train", 1, SEED)
    goals = list(shop.goals.values())[:40]
    trips = [
        list(play_shop(shop, goal, np.random.default_rng(seed), mistake=0.2))
        for seed, goal in enumerate(goals)
    ]
    slips = [turn.mistake for trip in trips for turn in trip]
    assert np.mean(slips) == pytest.approx(0.2, abs=0.1)
    bought = [turn for trip in trips for turn in trip if turn.action == "click[buy now]"]
    assert not any(turn.mistake for turn in bought)
    assert len(bought) > 32
    for goal in goals:
        trip = list(play_shop(shop, goal, np.random.default_rng(0), mistake=0, hasty=True))
        assert [turn.action[:6] for turn in trip] == ["search", *["click["] * 3]
        assert trip[2].action == f"click[{goal.options[0][1]}]"
        assert trip[-1].action == "click[buy now]"
