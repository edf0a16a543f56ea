"""plan: as short as public walkthroughs and a blind search; one shorter after its own step."""

from __future__ import annotations

import copy
import re
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.game import SHORT_NAMES, load_game, parse_game
from agent_envs.alfworld.world import World
from tools.alfworld.generate import generate_game

if TYPE_CHECKING:
    from pathlib import Path

IDLE = ("look", "inventory", "help", "examine", "slice")


def generated(seed: int, task: str, size: float = 0.1) -> World:
    data = generate_game(np.random.default_rng(seed), size=size, task_type=task)
    return World(parse_game(data, f"embedded/train/{task}/trial", "generated"))


def moves(world: World) -> list[str]:
    return [command for command in world.admissible() if not command.startswith(IDLE)]


def wander(world: World, rng: np.random.Generator, turns: int) -> World:
    """Random moves, more of them with the hands than with the feet."""
    for _ in range(turns):
        if world.won:
            break
        handy = [command for command in moves(world) if not command.startswith("go")]
        options = handy if handy and rng.random() < 0.6 else moves(world)
        world.execute(options[rng.integers(len(options))])
    return world


def blind_search(world: World, thing: str) -> int:
    """Length of a shortest solution that handles one type of thing, by breadth-first search."""
    queue, known = deque([(world, 0)]), {world.anchor()}
    while queue:
        state, steps = queue.popleft()
        for command in moves(state):
            if command.startswith("close") or (
                command.startswith("take") and not command.startswith(f"take {thing} ")
            ):
                continue
            after = copy.deepcopy(state)
            after.execute(command)
            if after.won:
                return steps + 1
            if after.anchor() not in known:
                known.add(after.anchor())
                queue.append((after, steps + 1))
    raise AssertionError("a generated game must have a solution")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("task", SHORT_NAMES)
def test_as_short_as_a_blind_search(task: str, seed: int):
    world = generated(seed, task, size=0.02)
    thing = world.game.objects[min(world.game.goal_objects)].split()[0]
    solution = plan(world)
    assert solution is not None
    assert len(solution) == blind_search(world, thing)


@given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.integers(0, 25))
@settings(max_examples=40, deadline=None)
def test_one_step_less_after_the_best_step_and_never_two_less(seed: int, task: str, turns: int):
    rng = np.random.default_rng(seed)
    world = wander(generated(seed, task, size=rng.uniform(0.01, 0.4)), rng, turns)
    if world.won:
        assert plan(world) == []
        return
    left = []
    for command in moves(world):
        after = copy.deepcopy(world)
        after.execute(command)
        solution = plan(after)
        left += [] if solution is None else [len(solution)]
    solution = plan(world)
    assert (None if solution is None else len(solution) - 1) == min(left, default=None)


@given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.integers(0, 25))
@settings(max_examples=40, deadline=None)
def test_playing_the_plan_wins_with_its_last_command(seed: int, task: str, turns: int):
    world = wander(generated(seed, task, size=0.3), np.random.default_rng(seed), turns)
    solution = plan(world)
    if solution is None:
        return
    for command in solution:
        assert not world.won
        world.execute(command)
        assert world.accepted
    assert world.won


def test_public_walkthroughs_are_as_long(alfworld_data: Path):
    files = sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))[::15]
    games = [load_game(file) for file in files]
    assert [len(plan(World(game)) or ()) for game in games] == [len(g.walkthrough) for g in games]


def test_what_is_in_place_already_is_not_brought_again(kitchen):
    world = kitchen("pick2")
    for command in (
        *("go to drawer 1", "take mug 3 from countertop 2", "go to fridge 1", "open fridge 1"),
        "move mug 3 to fridge 1",
    ):
        world.execute(command)
    assert len(plan(world) or ()) == 4  # there, take another mug, back, move it


def test_does_not_change_the_world():
    world = generated(3, "pick2")
    before = world.anchor(), world.facts()
    plan(world)
    assert (world.anchor(), world.facts()) == before


def test_a_thing_that_cannot_be_put_down_is_the_end():
    data = generate_game(np.random.default_rng(0), size=0.1, task_type="heat")
    wanted = World(parse_game(data, "embedded/train/heat/trial", "generated"))
    other = next(
        kind
        for kind in dict.fromkeys(wanted.game.object_type)
        if kind not in ("", wanted.game.goal.object_type)
        and any(wanted.game.object_type[o] == kind for o in wanted.game.pickupable)
    )
    problem = re.sub(rf"(?i)\(canContain \w+ {other}\)\n", "", data["pddl_problem"])
    world = World(parse_game({**data, "pddl_problem": problem}, "a/b/heat/d", "no way to put down"))
    assert plan(world) is not None
    thing = next(o for o in world.game.pickupable if world.game.object_type[o] == other)
    place = next(r for r, things in enumerate(world.contents) if thing in things)
    name = world.game.receptacles[place]
    for command in (
        f"go to {name}",
        f"open {name}",
        f"take {world.game.objects[thing]} from {name}",
    ):
        world.execute(command)
    assert world.held == thing
    assert plan(world) is None


def test_the_older_dialect_puts():
    data = generate_game(np.random.default_rng(0), size=0.1, task_type="pick")
    world = World(parse_game(data, "embedded/train/pick/trial", "generated"), dialect="0.3")
    solution = plan(world)
    assert solution is not None
    assert solution[-1].startswith("put ")
    for command in solution:
        world.execute(command)
    assert world.won
