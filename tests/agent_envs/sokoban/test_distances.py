"""All states of a room at once, against one search a state; which rooms, and what is kept."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from agent_envs.sokoban import distances
from agent_envs.sokoban.distances import Distances, solver_of, states
from agent_envs.sokoban.generate import Settings, generate
from agent_envs.sokoban.levels import read_levels
from agent_envs.sokoban.solver import Remaining, Solver


def random_states(room, rng, count):
    """The start, what random steps lead to, and boxes thrown about."""
    state, floor = room.start, [c for c in range(room.height * room.width) if room.floor >> c & 1]
    for number in range(count):
        yield state
        state = room.after(state, int(rng.integers(4)))
        if number % 10 == 9:  # anywhere, most of these without a solution
            player, *boxes = rng.permutation(floor)[: room.boxes.bit_count() + 1].tolist()
            state = player, sum(1 << box for box in boxes)


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
def test_every_state_as_one_search_finds_it(settings, rooms):
    rng, dead = np.random.default_rng(3), 0
    for _ in range(rooms):
        room = generate(rng, settings)
        whole, search = Distances(room), Solver(room, 1_000_000)
        for state in random_states(room, rng, 30):
            found = whole.remaining(state)
            assert found == search.remaining(state)
            dead += not found.solvable
    assert dead > rooms


def test_public_levels_as_one_search_finds_them(boxoban):
    for room in read_levels(boxoban / "hard" / "000.txt.gz")[:6]:
        search = Solver(room, 1_000_000)
        assert Distances(room).remaining(room.start) == search.remaining(room.start)


def test_a_corridor_by_hand(drawn):
    room = drawn("#######", "#@ $ .#", "#######")
    left = Distances(room).remaining
    assert left(room.start) == Remaining(3)  # a step, then two pushes
    assert left((11, room.boxes)) == Remaining(0, solvable=False)  # behind the box: no way round
    assert left((11, 1 << 12)) == Remaining(0)
    assert left((9, 1 << 8)) == Remaining(0, solvable=False)  # the box at the left wall


def test_few_states_are_searched_one_by_one_and_so_are_too_many(drawn):
    small = drawn("#######", "#@ $ .#", "#######")
    hall = ["#" * 12, "#@" + " " * 9 + "#", *["#" + " " * 10 + "#"] * 8, "#" * 12]
    hall[3], hall[5] = "#  $ $ $ $ #", "#  . . . . #"
    large = drawn(*hall)
    assert states(small) < distances.FEWEST
    assert states(large) > distances.MOST
    middle = generate(np.random.default_rng(0), Settings(10, 10, 4, 3, 120))
    assert isinstance(solver_of(small, 9), Solver)
    assert isinstance(solver_of(large, 9), Solver)
    assert isinstance(solver_of(middle, 9), Distances)
    assert isinstance(solver_of(middle, 0), Solver)  # no search is wanted


@pytest.mark.parametrize("settings", [Settings(), Settings(10, 10, 4, 3, 120)])
def test_copies_are_the_solver_itself(settings):
    solver = solver_of(generate(np.random.default_rng(0), settings), 7)
    assert copy.deepcopy(solver) is solver
    again, start = pickle.loads(pickle.dumps(solver)), solver.room.start
    assert again.remaining(start) == solver.remaining(start)


def test_what_is_kept_is_bounded(monkeypatch):
    rng = np.random.default_rng(0)
    rooms = [generate(rng, Settings(10, 10, 4, 3, 120)) for _ in range(4)]
    monkeypatch.setattr(distances, "BYTES_KEPT", sum(Distances(r).size for r in rooms[2:]))
    monkeypatch.setattr(distances, "_kept", type(distances._kept)())
    first = solver_of(rooms[0], 1)
    assert solver_of(rooms[0], 1) is first
    for room in rooms:
        solver_of(room, 1)
    assert sum(one.size for one in distances._kept.values()) <= distances.BYTES_KEPT
    assert [*distances._kept] == rooms[2:]
