"""Solutions by hand, against trying everything, and within a budget."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.sokoban.generate import Settings, generate
from agent_envs.sokoban.levels import read_levels
from agent_envs.sokoban.solver import Remaining, Solver

UP, DOWN, LEFT, RIGHT = range(4)


def fewest(room, state):
    """By trying everything: actions to the end, None where none leads there."""
    seen, now, actions = {state}, [state], 0
    while now:
        if any(boxes == room.targets for _, boxes in now):
            return actions
        after = {room.after(one, direction) for one in now for direction in range(4)} - seen
        seen |= after
        now, actions = list(after), actions + 1
    return None


def end(room, state, plan):
    """Where the steps of a plan lead."""
    for direction in plan:
        state = room.after(state, direction)
    return state


def states_of(room, rng, count):
    """The start and what random steps lead to."""
    states = [room.start]
    while len(states) < count:
        states.append(room.after(states[-1], int(rng.integers(4))))
    return states


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [100, pytest.param(500, marks=pytest.mark.long)])
def test_small_rooms_against_trying_everything(rooms):
    rng, dead = np.random.default_rng(0), 0
    kinds = [Settings(), Settings(6, 6, 2), Settings(5, 9, 2), Settings(7, 7, 2, 3, 30)]
    for number in range(rooms):
        room = generate(rng, kinds[number % 4])
        solver = Solver(room)
        for state in states_of(room, rng, 5):
            expected, found = fewest(room, state), solver.remaining(state)
            dead += expected is None
            assert found.exact
            assert (found.actions if found.solvable else None) == expected
            plan = solver.plan(state)
            assert len(plan) == (expected or 0)
            assert expected is None or end(room, state, plan)[1] == room.targets
    assert dead > rooms / 10


@pytest.mark.parametrize(
    ("rows", "plan"),
    [
        (("#####", "#@$.#", "#####"), [RIGHT]),
        (("######", "#@ $.#", "######"), [RIGHT, RIGHT]),
        # round the box: down, right, right, up, then push it to the left
        (("######", "#.@$ #", "##   #", "######"), [DOWN, RIGHT, RIGHT, UP, LEFT, LEFT]),
        (("######", "#@$*.#", "######"), []),  # two boxes in a row do not move
        (("#####", "#@$ #", "#  .#", "#####"), []),  # pushed into the corner at once
        (("#####", "#$$@#", "#.. #", "#####"), []),  # a box in the corner
    ],
)
def test_solutions_by_hand(drawn, rows, plan):
    solver = Solver(drawn(*rows))
    assert solver.plan(solver.room.start) == plan
    assert solver.remaining(solver.room.start) == Remaining(len(plan), solvable=bool(plan))


def test_an_end_is_no_step_away(drawn):
    room = drawn("#####", "#@$.#", "#####")
    assert Solver(room).remaining(room.after(room.start, RIGHT)) == Remaining(0)


def test_pushes_needed_by_hand(drawn):
    room = drawn("#######", "#@    #", "# $  .#", "#     #", "#######")
    solver = Solver(room)
    row = [solver.needed.get(2 * 7 + column) for column in range(7)]
    # no way to push from the left wall, there is no room behind the box
    assert row == [None, None, 3, 2, 1, 0, None]
    assert solver.needed.get(1 * 7 + 5) is None  # a corner
    assert solver.bound(room.boxes) == 3


def test_four_in_a_square_are_stuck(drawn):
    room = drawn("########", "# .. @ #", "#  $$  #", "#  $*  #", "#      #", "# .    #", "########")
    assert Solver(room, budget=0).remaining(room.start) == Remaining(0, solvable=False)


def far_apart(drawn):
    return drawn("#########", "#@      #", "# $ $ $ #", "#       #", "# . . . #", "#########")


def test_a_search_that_gives_up_says_how_many_remain_at_least(drawn):
    room = far_apart(drawn)
    exact = Solver(room).remaining(room.start)
    bounds = [Solver(room, budget).remaining(room.start) for budget in (0, 1, 5, 20)]
    assert bounds[0] == Remaining(6, exact=False)  # three boxes, two pushes each
    assert exact.exact
    actions = [bound.actions for bound in [*bounds, exact]]
    assert actions == sorted(actions)
    assert Solver(room, 0).plan(room.start) == []


def test_a_search_goes_on_while_a_position_is_as_promising_as_the_last(drawn):
    # Each of the three pushes leaves a position that needs as many actions in all: 3.
    room = drawn("#######", "#@$  .#", "#######")
    assert Solver(room, budget=1).remaining(room.start) == Remaining(3)


@pytest.mark.parametrize("budget", [0, 3, 30, 10_000])
def test_answers_do_not_depend_on_what_was_asked_before(drawn, budget):
    room, rng = far_apart(drawn), np.random.default_rng(1)
    plan = Solver(room).plan(room.start)
    states = states_of(room, rng, 40)
    for direction in plan:
        states.append(room.after(states[-1] if len(states) > 40 else room.start, direction))
    alone = [Solver(room, budget).remaining(state) for state in states]
    together = Solver(room, budget)
    assert [together.remaining(state) for state in states] == alone
    backwards = Solver(room, budget)
    assert [backwards.remaining(state) for state in reversed(states)] == alone[::-1]


def test_what_is_kept_is_bounded(drawn, monkeypatch):
    monkeypatch.setattr("agent_envs.sokoban.solver.KEPT", 10)
    room, rng = far_apart(drawn), np.random.default_rng(2)
    solver, plan = Solver(room), Solver(room).plan(room.start)
    for state in states_of(room, rng, 60):
        solver.remaining(state)
        assert len(solver._kept) <= 11 + len(plan) + 60


@pytest.mark.long
def test_public_levels_are_solved(boxoban):
    lengths = []
    for room in read_levels(boxoban / "unfiltered_test" / "000.txt.gz")[:12]:
        solver = Solver(room, 100_000)
        assert end(room, room.start, solver.plan(room.start))[1] == room.targets
        lengths.append(solver.remaining(room.start).actions)
    assert all(lengths)
