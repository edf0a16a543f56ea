"""Generated rooms: solvable as asked, no two alike, splits apart, the same everywhere."""

from itertools import combinations

import pytest

from agent_envs.sokoban.board import iter_cells, iter_waves, normalize_board, write_board
from agent_envs.sokoban.rooms import GeneratedRooms, Settings, Shelves, find_split
from agent_envs.sokoban.solver import Solver

pytestmark = pytest.mark.slow

WANTED = [
    (Settings(), {"train": 2100, "val": 200, "test": 200}),
    (Settings(6, 6, 2), {"train": 4600, "val": 200, "test": 200}),
    (Settings(7, 7, 2, 8, 30), {"train": 2000, "val": 200, "test": 200}),
    (Settings(5, 12, 2, 5, 40), {"train": 100, "val": 10, "test": 10}),
    (Settings(8, 8, 3, 3, 50), {"train": 60, "val": 10, "test": 10}),
    (Settings(10, 10, 4, 20, 100), {"train": 10, "val": 5, "test": 5}),
    (Settings(6, 6, 1, 12, 12), {"train": 10, "val": 2, "test": 2}),
]
"""10,000 rooms."""
SIZES = [
    *((settings, {split: max(2, n // 20) for split, n in counts.items()})
      for settings, counts in WANTED if settings.boxes < 4),  # those take seconds each
    *(pytest.param(*one, marks=pytest.mark.long) for one in WANTED),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "counts"), SIZES, ids=str)
def test_rooms_are_as_asked_and_unlike_each_other(settings, counts):
    every, walls = [], {}
    for split, count in counts.items():
        source = GeneratedRooms(settings, split, count)
        rooms = [source.load(task_id) for task_id in source.panel.task_ids]
        every += rooms
        walls[split] = {normalize_board(room.bare, room.width) for room in rooms}
        assert {find_split(room) for room in rooms} == {split}
    boards = {normalize_board(room.encode_state(room.start), room.width) for room in every}
    assert len(boards) == len(every) == sum(counts.values())
    assert not any(one & other for one, other in combinations(walls.values(), 2))
    for room in every:
        left = Solver(room, 200_000).find_remaining(room.start)
        assert left.solvable
        assert left.exact
        assert settings.min_solution <= left.actions <= settings.max_solution
        assert room.boxes.bit_count() == room.targets.bit_count() == settings.boxes
        assert not room.boxes & (room.targets | 1 << room.player)
        assert sum(iter_waves(1 << room.player, room.floor, room.width)) == room.floor
        assert (room.height, room.width) == (settings.height, settings.width)
        for row, column in (divmod(cell, room.width) for cell in iter_cells(room.floor)):
            assert 0 < row < room.height - 1
            assert 0 < column < room.width - 1


def test_a_room_does_not_depend_on_what_was_asked_before():
    forwards, backwards, alone = (Shelves(Settings(6, 6, 2)) for _ in range(3))
    asked = [(share, place) for share in (0, 3, 19) for place in range(4)]
    rooms = [forwards.room(*one) for one in asked]
    assert [backwards.room(*one) for one in reversed(asked)] == rooms[::-1]
    assert alone.room(3, 3) == rooms[7]


@pytest.mark.parametrize(
    ("settings", "board"),
    [
        (Settings(), "###### #____# #_X_O# #P__## ###### ######"),
        (Settings(7, 7, 2, 3, 30), "####### ##__O## ##_X_## ##_O__# ###_X_# ##___P# #######"),
    ],
    ids=str,
)
def test_rooms_stay_the_same(settings, board):
    # Other rooms under the same ids would make results of before and after incomparable.
    source = GeneratedRooms(settings, "test")
    room = source.load(source.panel.task_ids[0])
    assert write_board(room.encode_state(room.start), room.width).split("\n") == board.split()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 3}, r"width must be an integer in 4\.\.64, got 3"),
        ({"min_solution": 0}, r"min_solution must be an integer in 1\.\.1000, got 0"),
        ({"min_solution": 9, "max_solution": 8}, r"max_solution must be an integer in 9\.\.1000"),
        ({"min_solution": 100, "max_solution": 200},
         r"no room for Settings\(.*times the solution was shorter than min_solution=100"),
        ({"boxes": 8}, "times not all of boxes=8 could be pulled off their targets"),
        ({"boxes": 3, "max_solution": 3}, "in max_solution=3 actions"),
        ({"height": 4, "width": 4}, "in 0 tries: too small"),
        ({"height": 5, "width": 5, "boxes": 8}, "times there was too little floor for boxes=8"),
        ({"height": 4, "width": 7, "rooms": 5000}, "times the room was there already"),
    ],
)  # two rows of floor: few are different  # fmt: skip
def test_impossible_rooms_are_refused(monkeypatch, given, message):
    monkeypatch.setattr("agent_envs.sokoban.rooms.DRAFTS", 300)
    rooms = given.pop("rooms", None)
    with pytest.raises(ValueError, match=message):  # noqa: PT012
        source = GeneratedRooms(Settings(**given), "train", rooms)
        source.load(source.panel.task_ids[-1])
