"""Rules by hand, how a board is written, and what is the same up to symmetry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sokoban.board import hash_board, normalize_board, write_board

UP, DOWN, LEFT, RIGHT = range(4)
CORRIDOR = ("#######", "#@$. *#", "#######")  # cells 8 to 12: player, box, target, floor, box on it


@pytest.mark.parametrize(
    ("rows", "directions", "boards"),
    [
        (CORRIDOR, [RIGHT] * 3, ["#PXO_√#", "#_P√_√#", "#__SX√#", "#__SX√#"]),  # two boxes in a row
        (("#####", "#@$.#", "#####"), [RIGHT, RIGHT], ["#PXO#", "#_P√#", "#_P√#"]),  # into the wall
        (CORRIDOR, [UP, DOWN, LEFT], ["#PXO_√#"] * 4),  # walls
        (("######", "# @$.#", "######"), [LEFT, RIGHT], ["#_PXO#", "#P_XO#", "#_PXO#"]),  # no pull
        (("#####", "#@  #", "#$ .#", "#####"), [RIGHT, DOWN, UP, LEFT],
         ["#P__#", "#_P_#", "#___#", "#_P_#", "#P__#"]),  # and back again
    ],
)  # fmt: skip
def test_steps_by_hand(read_room, rows, directions, boards):
    room = read_room(*rows)
    states = [room.start]
    for direction in directions:
        states.append(room.move(states[-1], direction))
    shown = [write_board(room.encode_state(state), room.width) for state in states]
    assert [board.split("\n")[1] for board in shown] == boards


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("compact", "#_S√X#"),
        ("spaced", " #  _  S  √  X  # "),
        ("tabbed", " # \t _ \t S \t √ \t X \t # \t"),
    ],
)
def test_layouts(read_room, layout, row):
    room = read_room("######", "# +*$#", "######")
    lines = write_board(room.encode_state(room.start), room.width, layout).split("\n")
    assert (lines[1], len(lines)) == (row, 3)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("#@$.#", "# # #"), id="a wall"),
        pytest.param(("#@$ #", "#  .#"), id="a target"),
        pytest.param(("#@ .#", "# $ #"), id="a box"),
        pytest.param(("# $.#", "#@  #"), id="the player"),
    ],
)
def test_anchors_differ_by_each_part(read_room, other):
    rooms = [read_room("#####", *rows, "#####") for rows in (("#@$.#", "#   #"), other)]
    one, two = (hash_board(room.encode_state(room.start), room.width) for room in rooms)
    assert one != two
    assert hash_board(bytes(12), 3) != hash_board(bytes(12), 4)  # and by the shape


GRIDS = (
    st.integers(1, 5)
    .flatmap(
        lambda width: st.lists(
            st.lists(st.integers(0, 6), min_size=width, max_size=width), min_size=1, max_size=5
        )
    )
    .map(lambda rows: np.array(rows, np.uint8))
    .filter(np.any)
)


def normalize(grid):
    return normalize_board(grid.tobytes(), grid.shape[1])


@given(GRIDS, st.integers(0, 3), st.booleans(), st.integers(0, 2))
def test_turned_mirrored_and_shifted_boards_have_one_form(grid, turns, mirrored, shift):
    other = np.rot90(grid, turns)
    other = np.pad(other[::-1] if mirrored else other, ((shift, 1), (0, shift)))
    assert normalize(other) == normalize(grid)


@given(GRIDS, GRIDS)
def test_boards_of_one_form_are_copies_of_each_other(one, other):
    def cut(grid):
        rows, columns = np.nonzero(grid)
        return grid[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]

    one, other = cut(one), cut(other)
    copies = [np.rot90(side, turns) for side in (one, one[::-1]) for turns in range(4)]
    same = any(np.array_equal(copy, other) for copy in copies)
    assert (normalize(one) == normalize(other)) == same
