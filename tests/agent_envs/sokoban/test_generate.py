"""Generated rooms: solvable as asked, from the passed generator alone, or refused with a reason."""

from __future__ import annotations

import random

import numpy as np
import pytest

from agent_envs.sokoban.board import cells, waves
from agent_envs.sokoban.generate import Settings, draft, generate
from agent_envs.sokoban.solver import Solver

SIZES = [
    Settings(),
    Settings(6, 6, 2),
    Settings(5, 12, 2, 5, 40),
    Settings(7, 7, 2, 8, 30),
    Settings(8, 8, 3, 3, 50),
    Settings(10, 10, 4, 20, 100),
    Settings(6, 6, 1, 12, 12),
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SIZES, ids=str)
def test_rooms_are_as_asked(settings):
    rng = np.random.default_rng(3)
    for _ in range(8):
        room = generate(rng, settings)
        left = Solver(room, 200_000).remaining(room.start)
        assert left.exact
        assert settings.min_solution <= left.actions <= settings.max_solution
        assert room.boxes.bit_count() == room.targets.bit_count() == settings.boxes
        assert not room.boxes & room.targets
        assert not room.boxes >> room.player & 1
        assert sum(waves(1 << room.player, room.floor, room.width)) == room.floor
        assert (room.height, room.width) == (settings.height, settings.width)
        for cell in cells(room.floor):
            row, column = divmod(cell, room.width)
            assert 0 < row < room.height - 1
            assert 0 < column < room.width - 1


def test_the_same_generator_gives_the_same_rooms():
    one, other = (
        [generate(rng, SIZES[1]) for _ in range(5)] for rng in map(np.random.default_rng, (4, 4))
    )
    assert one == other
    assert len(set(one)) == 5


def test_nothing_else_is_drawn_from():
    class Plain:
        """Has nothing but `random`."""

        def __init__(self):
            self._rng = np.random.default_rng(1)

        def random(self, size):
            return self._rng.random(size)

    before = random.getstate()
    assert generate(Plain(), Settings()) == generate(np.random.default_rng(1), Settings())
    assert random.getstate() == before


def test_boxes_are_taken_in_turns_where_that_scores_more():
    # Displacement times changes of the box: with two boxes both have been moved.
    rng = np.random.default_rng(5)
    for _ in range(20):
        room = generate(rng, Settings(7, 7, 2, 3, 30))
        assert not room.boxes & room.targets


def test_targets_of_a_draft_have_room_for_a_pull():
    rng = np.random.default_rng(6)
    for _ in range(200):
        floor, targets = draft(rng, Settings(6, 6, 2))
        for target in cells(targets):
            assert any(
                floor >> target + step & 1 and floor >> target + 2 * step & 1
                for step in (-6, 6, -1, 1)
            )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"height": 1000, "width": 1000}, r"height must be an integer in 4\.\.64, got 1000"),
        ({"width": 3}, r"width must be an integer in 4\.\.64, got 3"),
        ({"height": 6.5}, r"height must be an integer in 4\.\.64, got 6.5"),
        ({"height": "6"}, "height must be an integer in .*, got '6'"),
        ({"boxes": 0}, r"boxes must be an integer in 1\.\.8, got 0"),
        ({"boxes": 9}, r"boxes must be an integer in 1\.\.8, got 9"),
        ({"min_solution": 0}, r"min_solution must be an integer in 1\.\.1000, got 0"),
        (
            {"min_solution": 9, "max_solution": 8},
            r"max_solution must be an integer in 9\.\.1000, got 8",
        ),
    ],
)
def test_settings_outside_their_limits_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Settings(**wrong)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (Settings(6, 6, 1, 100, 200), "times the solution was shorter than min_solution=100"),
        (Settings(6, 6, 8), "times not all of boxes=8 could be pulled off their targets"),
        (Settings(6, 6, 3, 1, 2), "in max_solution=2 actions"),
        (Settings(4, 4), "times there was too little floor for boxes=1"),
    ],
    ids=str,
)
def test_impossible_settings_are_named_after_bounded_tries(settings, setting):
    with pytest.raises(ValueError, match=rf"no room for Settings\(.*\) in 1000 tries: .*{setting}"):
        generate(np.random.default_rng(0), settings)
