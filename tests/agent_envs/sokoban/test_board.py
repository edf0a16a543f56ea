"""Rules by hand, how a board is written, and what is the same up to symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sokoban.board import anchor, bare, cells, folded, text, waves

UP, DOWN, LEFT, RIGHT = range(4)
CORRIDOR = ("#######", "#@$. *#", "#######")  # cells 8 to 12: player, box, target, floor, box on it


def play(room, *directions, push=True):
    states = [room.start]
    for direction in directions:
        states.append(room.after(states[-1], direction, push=push))
    return states


def boards(room, states):
    return [text(room.kinds(state), room.width).split("\n")[1] for state in states]


def test_pushes_in_a_corridor_by_hand(drawn):
    room = drawn(*CORRIDOR)
    assert boards(room, play(room, RIGHT, RIGHT, RIGHT)) == [
        "#PXO_√#",
        "#_P√_√#",
        "#__SX√#",
        "#__SX√#",  # a box behind the box
    ]


def test_the_same_state_is_the_same_object_where_nothing_moves(drawn):
    room = drawn(*CORRIDOR)
    start = room.start
    assert all(room.after(start, direction) is start for direction in (UP, DOWN, LEFT))
    assert room.after(start, RIGHT, push=False) is start


def test_a_box_is_not_pushed_into_a_wall(drawn):
    room = drawn("#####", "#@$.#", "#####")
    assert boards(room, play(room, RIGHT, RIGHT)) == ["#PXO#", "#_P√#", "#_P√#"]


def test_boxes_are_not_pulled(drawn):
    room = drawn("######", "# @$.#", "######")
    states = play(room, LEFT, RIGHT)
    assert states[2] == states[0]
    assert states[1] == (states[0][0] - 1, states[0][1])


def test_walking_is_undone_by_walking_back(drawn):
    room = drawn("#####", "#@  #", "#$ .#", "#   #", "#####")
    start = room.start
    assert play(room, RIGHT, DOWN, UP, LEFT)[-1] == start


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("compact", "#_S√X#"),
        ("spaced", " #  _  S  √  X  # "),
        ("tabbed", " # \t _ \t S \t √ \t X \t # \t"),
    ],
)
def test_layouts(drawn, layout, row):
    room = drawn("######", "# +*$#", "######")
    lines = text(room.kinds(room.start), room.width, layout).split("\n")
    assert lines[1] == row
    assert len(lines) == 3


def test_anchors_know_walls_targets_boxes_and_player(drawn):
    rooms = [
        drawn("######", "#@ $.#", "######"),
        drawn("######", "# @$.#", "######"),
        drawn("######", "#@$ .#", "######"),
        drawn("######", "#@ $ #", "##  .#", "######"),
        drawn("#####", "#@  #", "# $.#", "#####"),
    ]
    found = [anchor(room.kinds(room.start), room.width) for room in rooms]
    assert len(set(found)) == 5
    walked = rooms[0].after(rooms[0].start, RIGHT)
    assert anchor(rooms[0].kinds(walked), 6) == found[1]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("#@$.#", "# # #"), id="a wall"),
        pytest.param(("#@$ #", "#  .#"), id="a target"),
        pytest.param(("#@ .#", "# $ #"), id="a box"),
        pytest.param(("# $.#", "#@  #"), id="the player"),
    ],
)
def test_anchors_know_each_part_by_itself(drawn, other):
    rooms = [drawn("#####", *rows, "#####") for rows in (("#@$.#", "#   #"), other)]
    one, two = (anchor(room.kinds(room.start), room.width) for room in rooms)
    assert one != two


def test_shapes_with_the_same_bytes_have_other_anchors():
    assert anchor(bytes(12), 3) != anchor(bytes(12), 4)


def test_waves_of_a_walk_by_hand():
    # Cells 0 to 5 of two rows of three without 4: 0 -> 1 and 3 -> 2 -> 5.
    assert [list(cells(wave)) for wave in waves(1, 0b101111, 3)] == [[0], [1, 3], [2], [5]]


GRIDS = (
    st.integers(1, 5)
    .flatmap(
        lambda width: st.lists(
            st.lists(st.integers(0, 6), min_size=width, max_size=width), min_size=1, max_size=5
        )
    )
    .map(lambda rows: np.array(rows, np.uint8))
)


def form(grid):
    return folded(grid.tobytes(), grid.shape[1])


@given(GRIDS.filter(np.any), st.integers(0, 3), st.booleans(), st.integers(0, 2))
def test_turned_mirrored_and_shifted_boards_have_one_form(grid, turns, mirrored, shift):
    other = np.rot90(grid, turns)
    other = np.pad(other[::-1] if mirrored else other, ((shift, 1), (0, shift)))
    assert form(other) == form(grid)


@given(GRIDS.filter(np.any), GRIDS.filter(np.any))
def test_boards_of_one_form_are_copies_of_each_other(one, other):
    def cut(grid):
        rows, columns = np.nonzero(grid)
        return grid[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]

    one, other = cut(one), cut(other)
    copies = [np.rot90(side, turns) for side in (one, one[::-1]) for turns in range(4)]
    assert (form(one) == form(other)) == any(np.array_equal(copy, other) for copy in copies)


def test_walls_and_targets_of_a_room(drawn):
    room = drawn("####", "#@$#", "#. #", "####")
    assert bare(16, room.floor, room.targets) == bytes([0] * 5 + [1, 1, 0, 0, 2, 1] + [0] * 5)
