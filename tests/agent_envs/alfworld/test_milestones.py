"""Milestones: shares counted by hand in the small kitchen, and what must hold of any play."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_kitchen import kitchen_data

from agent_envs.alfworld.game import load_game, parse_game
from agent_envs.alfworld.milestones import Milestones, reached
from agent_envs.alfworld.world import World


@pytest.mark.parametrize(
    ("task", "steps"),
    [
        # seen, held, placed: thirds
        ("pick", {"go to countertop 2": 1 / 3, "take mug 3 from countertop 2": 2 / 3,
                  "go to fridge 1": 2 / 3, "open fridge 1": 2 / 3, "move mug 3 to fridge 1": 1}),
        # countertop 2 is seen first; its mugs stay within reach of drawer 1's spot
        ("clean", {"go to countertop 2": 1 / 4, "take mug 3 from countertop 2": 2 / 4,
                   "go to sinkbasin 1": 2 / 4, "clean mug 3 with sinkbasin 1": 3 / 4,
                   "move mug 3 to sinkbasin 1": 2 / 4, "take mug 3 from sinkbasin 1": 3 / 4,
                   "go to countertop 1": 3 / 4, "move mug 3 to countertop 1": 1}),
        # two things, three milestones each: sixths; the second mug was seen with the first
        ("pick2", {"go to countertop 2": 2 / 6, "take mug 3 from countertop 2": 3 / 6,
                   "go to fridge 1": 3 / 6, "open fridge 1": 3 / 6, "move mug 3 to fridge 1": 4 / 6,
                   "go to drawer 1": 4 / 6, "take mug 2 from countertop 2": 5 / 6}),
        # seen, held, lamp on while held
        ("look", {"go to sidetable 1": 0, "use desklamp 1": 0, "go to drawer 1": 0,
                  "open drawer 1": 1 / 3, "take mug 1 from drawer 1": 2 / 3,
                  "go to sinkbasin 1": 2 / 3, "move mug 1 to sinkbasin 1": 1 / 3,
                  "take mug 1 from sinkbasin 1": 2 / 3, "go to sidetable 1 ": 1}),
    ],
)  # fmt: skip
def test_shares_along_a_game(kitchen, task, steps):
    world, milestones = kitchen(task), Milestones()
    assert milestones(world) == 0
    for command, share in steps.items():
        world.execute(command)
        assert world.accepted
        assert milestones(world) == pytest.approx(share), command
        assert world.won == (share == 1)


def test_things_placed_apart_do_not_add_up(kitchen):
    also = """(receptacleType Drawer_bar_1 FridgeType) (canContain FridgeType MugType)"""
    text = kitchen_data("pick2")
    problem = text["pddl_problem"].replace("(receptacleType Drawer_bar_1 DrawerType)", "")
    problem = problem.replace("(:goal", "(:goal").replace("(:init", f"(:init {also}")
    world = World(parse_game(text | {"pddl_problem": problem}, "t", "toy"))
    milestones = Milestones()
    world.execute("go to drawer 1")
    world.execute("open drawer 1")  # mug 1 lies in a "fridge" already: 3 of 6
    assert milestones(world) == pytest.approx(3 / 6)
    world.execute("take mug 3 from countertop 2")  # and a second one in hand: 2 more
    assert milestones(world) == pytest.approx(5 / 6)
    for command in ("go to fridge 1", "open fridge 1", "move mug 3 to fridge 1"):
        world.execute(command)
    # placed in the other one: still 3, and the other thing counts as seen only
    assert milestones(world) == pytest.approx(4 / 6)


def test_what_no_observation_has_shown_does_not_count(kitchen):
    world, milestones = kitchen("cool", also="(isCool Mug_bar_2)"), Milestones()
    assert milestones(world) == 0
    world.execute("go to drawer 1")
    assert milestones(world) == 0
    world.execute("examine countertop 1")  # mug 2: seen and cold
    assert milestones(world) == pytest.approx(2 / 4)


COMMANDS = st.lists(st.integers(0, 10**6), max_size=40)


@settings(max_examples=80)
@given(choices=COMMANDS, task=st.sampled_from(["pick", "clean", "heat", "cool", "pick2", "look"]))
def test_progress_is_a_share_and_1_exactly_when_won(choices, task):
    world, milestones = World(parse_game(kitchen_data(task), "t", "toy")), Milestones()
    before = 0.0
    for choice in choices:
        admissible = world.admissible()
        command = admissible[choice % len(admissible)]
        world.execute(command)
        now = milestones(world)
        assert 0 <= now <= 1
        assert (now == 1) == world.won
        assert now == 1 or now == reached(world)
        if not command.startswith(("move", "take", "heat", "cool", "go")):
            assert now >= before, command
        before = now


def test_progress_never_falls_along_public_walkthroughs(alfworld_data):
    for path in sorted(alfworld_data.glob("json_2.1.1/valid_seen/*/*/game.tw-pddl")):
        world, milestones = World(load_game(path)), Milestones()
        shares = [milestones(world)]
        for command in world.game.walkthrough:
            world.execute(command)
            shares.append(milestones(world))
        assert shares == sorted(shares), path
        assert shares[-1] == 1
