"""plan: one shorter after the best step and never two, so a shortest one; it wins at its end."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.game import SHORT_NAMES

IDLE = ("look", "inventory", "help", "examine", "slice")


def list_moves(world):
    return [command for command in world.admissible() if not command.startswith(IDLE)]


def wander(world, rng, turns):
    """Random moves, more of them with the hands than with the feet."""
    for _ in range(turns):
        if world.won:
            break
        handy = [command for command in list_moves(world) if not command.startswith("go")]
        options = handy if handy and rng.random() < 0.6 else list_moves(world)
        world.execute(options[rng.integers(len(options))])
    return world


def count_plan(world):
    solution = plan(world)
    return None if solution is None else len(solution)


CASES = given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.integers(0, 25))


@CASES
@settings(max_examples=40, deadline=None)
def test_one_step_less_after_the_best_step_and_never_two_less(generate, seed, task, turns):
    rng = np.random.default_rng(seed)
    world = wander(generate(seed, task, size=rng.uniform(0.01, 0.4)), rng, turns)
    if world.won:
        assert plan(world) == []
        return
    left, before = [], (world.anchor(), world.facts())
    for command in list_moves(world):
        after = copy.deepcopy(world)
        after.execute(command)
        left += [count_plan(after)]
    best = min((count for count in left if count is not None), default=None)
    assert count_plan(world) == (None if best is None else best + 1)
    assert (world.anchor(), world.facts()) == before


@CASES
@settings(max_examples=40, deadline=None)
def test_playing_the_plan_wins_with_its_last_command(generate, seed, task, turns):
    dialect = ("0.3", "0.4")[seed % 2]
    world = wander(generate(seed, task, dialect=dialect), np.random.default_rng(seed), turns)
    for command in plan(world) or ():
        assert not world.won
        world.execute(command)
        assert world.accepted
    assert world.won == (plan(world) == [])


PLACED = """go to drawer 1, take mug 3 from countertop 2, go to fridge 1, open fridge 1, \
move mug 3 to fridge 1"""


@pytest.mark.parametrize(
    ("task", "before", "steps"),
    [
        ("pick", "", 5),  # go to a mug, take it, go to the fridge, open it, move it
        ("look", "", 4),  # go to a mug, take it, go to the lamp, use it
        ("clean", "", 4),  # go to mug 2, take it, go to the sink, clean it: it is in countertop 1
        ("heat", "", 4),  # likewise; the microwave stays closed
        ("cool", "", 7),  # take, cool with the closed fridge, go back, open the drawer, move
        ("pick2", "", 9),  # as pick, then go to a mug, take it, go back, move it
        ("pick2", PLACED, 4),  # there, take another mug, back, move it
        ("pick", "go to sidetable 1, take box 1 from sidetable 1", None),  # nowhere to put it down
    ],
)
def test_lengths_by_hand(kitchen, task, before, steps):
    world = kitchen(task)
    for command in filter(None, before.split(", ")):
        world.execute(command)
        assert world.accepted
    assert count_plan(world) == steps
