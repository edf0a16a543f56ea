"""Experts: the Explorer wins by texts alone, whatever came before; the Oracle by the state."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.alfworld import experts
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.experts import Explorer, Oracle, Searcher, TaskLine, read_task
from agent_envs.alfworld.game import SHORT_NAMES, load_game
from agent_envs.alfworld.world import World

OPENING = (
    "-= Welcome to TextWorld, ALFRED! =-\n\n"
    "You are in the middle of a room. Looking quickly around you, you see {}.\n\n"
    "Your task is to: {}."
)


def play(world: World, expert: Searcher, turns: int) -> int:
    """Turns the expert took, the limit if it did not win."""
    for turn in range(turns):
        if world.won:
            return turn
        action = expert.act()
        expert.observe(action, world.execute(action))
    return turns


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("put a mug in coffeemachine", TaskLine("mug", "coffeemachine")),
        ("put some spraybottle on toilet", TaskLine("spraybottle", "toilet")),
        ("put a clean ladle in drawer", TaskLine("ladle", "drawer", verb="clean")),
        ("clean some cloth and put it in cabinet", TaskLine("cloth", "cabinet", verb="clean")),
        ("put a hot egg in garbagecan", TaskLine("egg", "garbagecan", verb="heat")),
        ("put a cool tomato in microwave", TaskLine("tomato", "microwave", verb="cool")),
        ("put two book in sofa", TaskLine("book", "sofa", count=2)),
        ("look at vase under the desklamp", TaskLine("vase", "desklamp", light=True)),
        ("examine the cd with the desklamp", TaskLine("cd", "desklamp", light=True)),
    ],
)
def test_reads_every_wording(text, task):
    assert read_task(text) == read_task(OPENING.format("a shelf 1", text)) == task


PEN = "put a pen in shelf"


@pytest.mark.parametrize(
    ("places", "task", "turns", "action"),
    [
        ("a cabinet 1, a fridge 1, and a toilet 1", "put a tomato in cabinet", [],
         "go to fridge 1"),  # likely places come first
        ("a drawer 1, and a shelf 1", PEN, [("You arrive at shelf 1. On the shelf 1, you see "
         "nothing.")], "go to drawer 1"),
        ("a drawer 1, and a shelf 1", PEN, ["You arrive at drawer 1. The drawer 1 is closed."],
         "open drawer 1"),
        ("a drawer 1, and a shelf 1", PEN, [
            "You arrive at drawer 1. The drawer 1 is closed.",
            "You open the drawer 1. The drawer 1 is open. In it, you see a cd 1, and a pen 2."],
         "take pen 2 from drawer 1"),
        ("a drawer 1, and a shelf 1", PEN, [
            "You arrive at drawer 1. The drawer 1 is closed.",
            "You open the drawer 1. The drawer 1 is open. In it, you see a cd 1, and a pen 2.",
            "You close the drawer 1."],
         "open drawer 1"),
        # a place that cannot be walked to is within reach
        ("a drawer 2, and a drawer 1", "put a pen in drawer", [
            "You arrive at drawer 2. On the drawer 2, you see nothing.", "Nothing happens."],
         "examine drawer 1"),
        ("a drawer 2, and a drawer 1", "put a pen in drawer", [
            "You arrive at drawer 2. On the drawer 2, you see nothing.", "Nothing happens.",
            "On the drawer 1, you see a pen 1."],
         "take pen 1 from drawer 1"),
        # useless things are put down, elsewhere if they do not fit
        ("a desk 1, and a shelf 1", PEN, [
            "You arrive at desk 1. On the desk 1, you see a cd 1, and a pen 1.",
            "You pick up the cd 1 from the desk 1."],
         "move cd 1 to desk 1"),
        ("a desk 1, and a shelf 1", PEN, [
            "You arrive at desk 1. On the desk 1, you see a cd 1, and a pen 1.",
            "You pick up the cd 1 from the desk 1.", "Nothing happens."],
         "go to shelf 1"),
        # cooling undoes heating
        ("a fridge 1, and a microwave 1", "put a hot mug in fridge", [
            "You pick up the mug 1 from the shelf 1.", "You heat the mug 1 using the microwave 1.",
            "You arrive at fridge 1. The fridge 1 is closed.",
            "You cool the mug 1 using the fridge 1."],
         "go to microwave 1"),
    ],
)  # fmt: skip
def test_turns_by_hand(places, task, turns, action):
    expert = Searcher(OPENING.format(places, task))
    for observation in turns:
        expert.observe(expert.act(), observation)
    assert expert.act() == action


@pytest.mark.parametrize("every", [100, pytest.param(25, marks=pytest.mark.long)])
def test_reads_and_wins_public_games(alfworld_data, every):
    turns, won = [], []
    for file in sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))[::every]:
        world = World(load_game(file))
        task, goal = read_task(world.game.task), world.game.goal
        place = "" if task.light else f"{task.place}type"
        assert (f"{task.thing}type", place) == (goal.object_type, goal.receptacle_type)
        assert (task.verb, task.count) == (goal.treatment, goal.count)
        turns.append(play(world, Searcher(world.intro), 50))
        won.append(world.won)
    assert np.mean(won) >= 0.95
    assert np.mean(turns) < 12  # 8.1 over all 3,693


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_wins_embedded_games_in_a_dozen_turns(split):
    library = open_library("embedded", split)
    worlds = [World(library.load(task_id)) for task_id in library.panel.task_ids]
    turns = [play(world, Searcher(world.intro), 50) for world in worlds]
    assert all(world.won for world in worlds)
    assert 8 <= np.mean(turns) <= 12


def test_wins_embedded_games_of_two_goals():
    library = open_library("embedded", "valid_two")
    worlds = [World(library.load(task_id)) for task_id in library.panel.task_ids]
    turns = [play(world, Searcher(world.intro), 50) for world in worlds]
    assert all(world.won for world in worlds)
    assert 12 <= np.mean(turns) <= 20


@given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_wins_after_anything(generate, seed, task, turns):
    rng = np.random.default_rng(seed)
    world = generate(seed, task)
    expert = Searcher(world.intro, rng)
    for _ in range(turns):
        options = [*world.admissible(), "dance", "take fork 9 from shelf 9", ""]
        action = options[rng.integers(len(options))]
        expert.observe(action, world.execute(action))
        if world.won:
            return
    assert plan(world) is not None  # generated things can be put back where they were
    play(world, expert, 100)
    assert world.won


def test_the_explorer_follows_the_episode():
    env = gym.make("AlfWorld-v0", data="embedded", split="valid_unseen")
    for index in range(6):
        _, info = env.reset(options={"task": index}, seed=index)
        rng = np.random.default_rng(index)
        for _ in range(6):
            options = info["admissible_actions"]
            *_, info = env.step(options[rng.integers(len(options))])
            if info["success"]:
                break
        expert = Explorer(env)
        while not info["success"]:
            assert (expert.act(), expert.think()) == (Explorer(env).act(), Explorer(env).think())
            _, _, _, truncated, info = env.step(expert.act())
            assert not truncated


def test_the_explorer_does_not_read_the_state():
    env = gym.make("AlfWorld-v0", data="embedded").unwrapped
    opening, _ = env.reset(seed=0)
    env.world = object()
    assert Explorer(env).act() == Searcher(opening).act()


def test_the_oracle_solves_the_running_episode(monkeypatch):
    env = gym.make("AlfWorld-v0", data="embedded", split="valid_seen")
    _, info = env.reset(options={"task": 7})
    expert, left = Oracle(env), len(plan(env.unwrapped.world))
    while not info["success"]:
        _, _, terminated, _, info = env.step(expert.act())
        assert info["valid"]
    assert (terminated, info["turn"]) == (True, left)
    with pytest.raises(ValueError, match=r"task \S+ is done: there is no next command"):
        expert.act()
    env.reset(seed=0)
    monkeypatch.setattr(experts, "plan", lambda _: None)
    with pytest.raises(ValueError, match="cannot be done any more"):
        Oracle(env).act()
    with pytest.raises(ValueError, match=r"no AlfWorld task in 'You are in a maze\.'; expected"):
        Searcher("You are in a maze.")
