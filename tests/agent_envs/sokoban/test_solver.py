"""Solutions by hand, against trying everything, within a budget, and of all states at once."""

import numpy as np
import pytest

from agent_envs.sokoban.rooms import Settings
from agent_envs.sokoban.solver import Distances, Remaining, Solver, count_needed_pushes

UP, DOWN, LEFT, RIGHT = range(4)
DEAD = Remaining(0, solvable=False)


def count_by_trying(room, state):
    """Actions to the end by trying everything, None where none leads there."""
    seen, now, actions = {state}, [state], 0
    while now:
        if any(boxes == room.targets for _, boxes in now):
            return actions
        after = {room.move(one, direction) for one in now for direction in range(4)} - seen
        seen |= after
        now, actions = list(after), actions + 1
    return None


def walk(room, directions):
    """The states that some steps lead to, the start first."""
    states = [room.start]
    for direction in directions:
        states.append(room.move(states[-1], int(direction)))
    return states


def scatter(room, rng, count):
    """States on a random walk, and now and then boxes thrown about."""
    state, floor = room.start, [c for c in range(room.height * room.width) if room.floor >> c & 1]
    for number in range(count):
        yield state
        state = room.move(state, int(rng.integers(4)))
        if number % 10 == 9:  # anywhere, most of these without a solution
            player, *boxes = rng.permutation(floor)[: room.boxes.bit_count() + 1].tolist()
            state = player, sum(1 << box for box in boxes)


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [100, pytest.param(500, marks=pytest.mark.long)])
def test_small_rooms_against_trying_everything(generate, rooms):
    rng, dead = np.random.default_rng(0), 0
    kinds = [Settings(), Settings(6, 6, 2), Settings(5, 9, 2), Settings(7, 7, 2, 3, 30)]
    for number in range(rooms):
        room = generate(rng, kinds[number % 4])
        solver = Solver(room)
        for state in walk(room, rng.integers(4, size=4)):
            expected, found = count_by_trying(room, state), solver.find_remaining(state)
            dead += expected is None
            assert found.exact
            assert (found.actions if found.solvable else None) == expected
            plan, end = solver.plan(state), state
            assert len(plan) == (expected or 0)
            for direction in plan:
                end = room.move(end, direction)
            assert expected is None or end[1] == room.targets
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
def test_solutions_by_hand(read_room, rows, plan):
    solver = Solver(read_room(*rows))
    assert solver.plan(solver.room.start) == plan
    assert solver.find_remaining(solver.room.start) == Remaining(len(plan), solvable=bool(plan))


def test_pushes_to_a_target_need_room_for_the_player(read_room):
    """Cells are numbered 0, 1, ... by rows; a box at either end of the corridor is stuck."""
    room = read_room("#######", "#@$.  #", "#######")
    assert count_needed_pushes(room) == {10: 0, 9: 1, 11: 1}


def test_four_in_a_square_are_stuck(read_room):
    rows = ("########", "# .. @ #", "#  $$  #", "#  $*  #", "#      #", "# .    #", "########")
    room = read_room(*rows)
    assert Solver(room, budget=0).find_remaining(room.start) == DEAD


@pytest.fixture
def far_apart(read_room):
    return read_room("#########", "#@      #", "# $ $ $ #", "#       #", "# . . . #", "#########")


def test_a_search_that_stops_early_gives_a_lower_bound(far_apart, read_room):
    start = far_apart.start
    exact = Solver(far_apart).find_remaining(start)
    bounds = [Solver(far_apart, budget).find_remaining(start) for budget in (0, 1, 5, 20)]
    assert bounds[0] == Remaining(6, exact=False)  # three boxes, two pushes each
    assert exact.exact
    actions = [bound.actions for bound in [*bounds, exact]]
    assert actions == sorted(actions)
    assert Solver(far_apart, 0).plan(start) == []
    # Each of the three pushes leaves a position that needs as many actions in all: 3.
    room = read_room("#######", "#@$  .#", "#######")
    assert Solver(room, budget=1).find_remaining(room.start) == Remaining(3)


@pytest.mark.parametrize("budget", [0, 3, 30, 10_000])
def test_answers_do_not_depend_on_earlier_ones(far_apart, budget):
    steps = np.random.default_rng(1).integers(4, size=40)
    states = walk(far_apart, steps) + walk(far_apart, Solver(far_apart).plan(far_apart.start))
    alone = [Solver(far_apart, budget).find_remaining(state) for state in states]
    together, backwards = Solver(far_apart, budget), Solver(far_apart, budget)
    assert [together.find_remaining(state) for state in states] == alone
    assert [backwards.find_remaining(state) for state in reversed(states)] == alone[::-1]


@pytest.mark.parametrize(
    ("settings", "rooms"),
    [
        (Settings(), 30),
        (Settings(5, 9, 2), 20),
        (Settings(7, 7, 2, 3, 30), 20),
        (Settings(8, 8, 3, 3, 60), 10),
        (Settings(8, 8, 5, 3, 100), 3),
    ],
)
def test_all_states_at_once_as_one_search_finds_them(generate, settings, rooms):
    rng, dead = np.random.default_rng(3), 0
    for _ in range(rooms):
        room = generate(rng, settings)
        whole, search = Distances(room), Solver(room, 1_000_000)
        for state in scatter(room, rng, 30):
            found = whole.find_remaining(state)
            assert found == search.find_remaining(state)
            dead += not found.solvable
    assert dead > rooms
