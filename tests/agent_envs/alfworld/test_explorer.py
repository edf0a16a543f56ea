"""Explorer: wins public and embedded games by their text alone, whatever came before."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.explorer import Explorer, demonstration, explorer
from agent_envs.alfworld.game import SHORT_NAMES, load_game, parse_game
from agent_envs.alfworld.memory import Task, read_task
from agent_envs.alfworld.world import World
from tools.alfworld.generate import generate_game

if TYPE_CHECKING:
    from pathlib import Path

OPENING = (
    "-= Welcome to TextWorld, ALFRED! =-\n\n"
    "You are in the middle of a room. Looking quickly around you, you see {}.\n\n"
    "Your task is to: {}."
)


def generated(seed: int, task: str, size: float = 0.3) -> World:
    data = generate_game(np.random.default_rng(seed), size=size, task_type=task)
    return World(parse_game(data, f"embedded/train/{task}/trial", "generated"))


def play(world: World, expert: Explorer, turns: int) -> int:
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
        ("put a mug in coffeemachine", Task("mug", "coffeemachine")),
        ("put some spraybottle on toilet", Task("spraybottle", "toilet")),
        ("put a toiletpaper in toiletpaperhanger", Task("toiletpaper", "toiletpaperhanger")),
        ("put a clean ladle in drawer", Task("ladle", "drawer", verb="clean")),
        ("clean some cloth and put it in cabinet", Task("cloth", "cabinet", verb="clean")),
        ("put a hot egg in garbagecan", Task("egg", "garbagecan", verb="heat")),
        ("heat some mug and put it in cabinet", Task("mug", "cabinet", verb="heat")),
        ("put a cool tomato in microwave", Task("tomato", "microwave", verb="cool")),
        ("cool some bread and put it in countertop", Task("bread", "countertop", verb="cool")),
        ("put two book in sofa", Task("book", "sofa", count=2)),
        ("find two pen and put them in dresser", Task("pen", "dresser", count=2)),
        ("look at vase under the desklamp", Task("vase", "desklamp", light=True)),
        ("examine the cd with the desklamp", Task("cd", "desklamp", light=True)),
    ],
)
def test_reads_every_wording(text: str, task: Task):
    assert read_task(text) == read_task(OPENING.format("a shelf 1", text)) == task


def test_reads_every_public_task(alfworld_data: Path):
    for file in sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))[::20]:
        game = load_game(file)
        task = read_task(game.task)
        goal = (f"{task.thing}type", "" if task.light else f"{task.place}type", task.verb)
        assert goal == (game.goal.object_type, game.goal.receptacle_type, game.goal.treatment)
        assert task.count == game.goal.count


def test_text_without_a_task_is_refused():
    with pytest.raises(ValueError, match=r"no AlfWorld task in 'You are in a maze\.'; expected"):
        Explorer("You are in a maze.")


def test_likely_places_come_first():
    opening = OPENING.format("a cabinet 1, a fridge 1, and a toilet 1", "put a tomato in cabinet")
    assert Explorer(opening).act() == "go to fridge 1"


def test_opens_what_is_closed_and_remembers_what_it_saw():
    expert = Explorer(OPENING.format("a drawer 1, and a shelf 1", "put a pen in shelf"))
    expert.observe("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.")
    assert expert.act() == "go to drawer 1"
    expert.observe("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed.")
    assert expert.act() == "open drawer 1"
    text = "You open the drawer 1. The drawer 1 is open. In it, you see a cd 1, and a pen 2."
    expert.observe("open drawer 1", text)
    assert expert.act() == "take pen 2 from drawer 1"
    expert.observe("close drawer 1", "You close the drawer 1.")
    assert expert.act() == "open drawer 1"


def test_what_cannot_be_walked_to_is_within_reach():
    expert = Explorer(OPENING.format("a drawer 2, and a drawer 1", "put a pen in drawer"))
    expert.observe("go to drawer 2", "You arrive at drawer 2. On the drawer 2, you see nothing.")
    expert.observe(expert.act(), "Nothing happens.")
    assert expert.act() == "examine drawer 1"
    expert.observe("examine drawer 1", "On the drawer 1, you see a pen 1.")
    assert expert.act() == "take pen 1 from drawer 1"


def test_puts_down_what_it_has_no_use_for():
    expert = Explorer(OPENING.format("a desk 1, and a shelf 1", "put a pen in shelf"))
    expert.observe(
        "go to desk 1", "You arrive at desk 1. On the desk 1, you see a cd 1, and a pen 1."
    )
    expert.observe("take cd 1 from desk 1", "You pick up the cd 1 from the desk 1.")
    assert expert.act() == "move cd 1 to desk 1"
    expert.observe("move cd 1 to desk 1", "Nothing happens.")
    assert expert.act() == "go to shelf 1"


def test_cooling_undoes_heating():
    expert = Explorer(OPENING.format("a fridge 1, and a microwave 1", "put a hot mug in fridge"))
    for line in (
        "You pick up the mug 1 from the shelf 1.",
        "You heat the mug 1 using the microwave 1.",
        "You arrive at fridge 1. The fridge 1 is closed.",
        "You cool the mug 1 using the fridge 1.",
    ):
        expert.observe("", line)
    assert expert.act() == "go to microwave 1"


def test_wins_public_games(alfworld_data: Path):
    files = sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))[::25]
    worlds = [World(load_game(file)) for file in files]
    turns = [play(world, Explorer(world.intro), 50) for world in worlds]
    assert np.mean([world.won for world in worlds]) >= 0.95
    assert np.mean(turns) < 12  # 8.1 over all 3,693


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_wins_embedded_games_in_a_dozen_turns(split: str):
    library = open_library("embedded", split)
    worlds = [World(library.load(task_id)) for task_id in library.panel.task_ids]
    turns = [play(world, Explorer(world.intro), 50) for world in worlds]
    assert all(world.won for world in worlds)
    assert 8 <= np.mean(turns) <= 12


def test_knows_what_it_holds_in_genuine_transcripts(shared_data: Path):
    for file in sorted((shared_data / "alfworld" / "transcripts").glob("*.json.gz")):
        record = json.loads(gzip.decompress(file.read_bytes()))
        expert = Explorer(record["reset"])
        for step in record["steps"]:
            if step["c"].strip() == "inventory":
                said = step["f"].strip()
                held = expert.memory.held
                assert said == (
                    f"You are carrying: a {held}." if held else "You are not carrying anything."
                )
            expert.observe(step["c"], step["f"])
            assert isinstance(expert.act(), str)


@given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_wins_after_anything(seed: int, task: str, turns: int):
    rng = np.random.default_rng(seed)
    world = generated(seed, task)
    expert = Explorer(world.intro, rng)
    for _ in range(turns):
        options = [*world.admissible(), "dance", "take fork 9 from shelf 9", ""]
        action = options[rng.integers(len(options))]
        expert.observe(action, world.execute(action))
        if world.won:
            return
    assert plan(world) is not None  # generated things can be put back where they were
    play(world, expert, 100)
    assert world.won


def test_stands_where_the_episode_does():
    env = gym.make("AlfWorld-v0", data="embedded", split="valid_unseen")
    for index in range(6):
        _, info = env.reset(options={"task": index}, seed=index)
        rng = np.random.default_rng(index)
        for _ in range(6):
            options = info["admissible_actions"]
            *_, info = env.step(options[rng.integers(len(options))])
            if info["success"]:
                break
        while not info["success"]:
            _, _, _, truncated, info = env.step(explorer(env).act())
            assert not truncated


def test_explorer_needs_a_running_episode():
    with pytest.raises(ValueError, match=r"needs a running AlfWorld episode: call reset\(\)"):
        explorer(gym.make("AlfWorld-v0", data="embedded"))


def test_taste_changes_the_order_only():
    ways = set()
    for seed in range(8):
        world = generated(1, "pick2", size=0.6)
        shown = list(
            demonstration(
                world,
                np.random.default_rng(seed),
                mistake=0,
                expert=Explorer(world.intro, np.random.default_rng(seed)),
            )
        )
        assert world.won
        ways.add(tuple(turn.action for turn in shown))
    assert len(ways) > 1


def test_demonstration_without_mistakes_is_the_expert():
    world, twin = generated(2, "heat"), generated(2, "heat")
    shown = list(demonstration(world, np.random.default_rng(0), mistake=0))
    assert world.won
    assert len(shown) == play(twin, Explorer(twin.intro), 50)
    assert shown[0].observation == world.intro
    assert not any(turn.mistake for turn in shown)


def test_demonstration_slips_as_often_as_asked_and_recovers():
    worlds = [generated(seed, task) for seed in range(10) for task in SHORT_NAMES]
    shows = [
        list(demonstration(world, np.random.default_rng(seed), mistake=0.2))
        for seed, world in enumerate(worlds)
    ]
    slips = [turn.mistake for show in shows for turn in show]
    assert np.mean(slips) == pytest.approx(0.2, abs=0.05)
    assert all(world.won for world in worlds)


def test_demonstration_is_repeatable():
    one, two = (
        list(demonstration(generated(5, "cool"), np.random.default_rng(5), mistake=0.3))
        for _ in range(2)
    )
    assert one == two


@pytest.mark.parametrize("mistake", [-0.1, 1.0])
def test_share_of_mistakes_out_of_range_is_refused(mistake: float):
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\), got"):
        next(demonstration(generated(0, "pick"), np.random.default_rng(0), mistake=mistake))
