"""Rooms as tasks: no two alike, splits apart, the same whatever was asked before and everywhere."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from agent_envs.sokoban.board import text
from agent_envs.sokoban.generate import Settings
from agent_envs.sokoban.rooms import Made, Shelves, split_of
from agent_envs.sokoban.solver import Solver

pytestmark = pytest.mark.slow

WANTED = [
    (Settings(), {"train": 2100, "val": 200, "test": 200}),
    (Settings(6, 6, 2), {"train": 4600, "val": 200, "test": 200}),
    (Settings(7, 7, 2, 3, 30), {"train": 2000, "val": 200, "test": 200}),
    (Settings(8, 8, 3, 3, 50), {"train": 60, "val": 10, "test": 10}),
    (Settings(10, 10, 4, 3, 100), {"train": 10, "val": 5, "test": 5}),
]
"""10,000 rooms."""
SIZES = [
    *((settings, {split: max(5, n // 20) for split, n in counts.items()})
      for settings, counts in WANTED),
    *(pytest.param(*one, marks=pytest.mark.long) for one in WANTED),
]  # fmt: skip


def seen(room, *, bare=False):
    """The room's floor cut out, all eight ways; the same set for rooms equal up to symmetry."""
    kinds = room.bare if bare else room.kinds(room.start)
    board = np.frombuffer(kinds, np.uint8).reshape(room.height, room.width)
    rows, columns = np.nonzero(board)
    board = board[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    ways = [np.rot90(side, turns) for side in (board, board.T) for turns in range(4)]
    return frozenset((way.shape, way.tobytes()) for way in ways)


@pytest.mark.parametrize(("settings", "counts"), SIZES, ids=str)
def test_rooms_are_solvable_and_unlike_each_other(settings, counts):
    every, walls = [], {}
    for split, count in counts.items():
        made = Made(settings, split, count)
        rooms = [made.load(task_id) for task_id in made.panel.task_ids]
        every += rooms
        walls[split] = {seen(room, bare=True) for room in rooms}
    assert len({seen(room) for room in every}) == len(every) == sum(counts.values())
    assert not any(one & other for one, other in combinations(walls.values(), 2))
    for room in every:
        left = Solver(room, 100_000).remaining(room.start)
        assert left.solvable
        assert left.exact
        assert settings.min_solution <= left.actions <= settings.max_solution


def test_a_room_does_not_depend_on_what_was_asked_before():
    forwards, backwards, alone = (Shelves(Settings(6, 6, 2)) for _ in range(3))
    asked = [(share, place) for share in (0, 3, 19) for place in range(4)]
    rooms = [forwards.room(*one) for one in asked]
    assert [backwards.room(*one) for one in reversed(asked)] == rooms[::-1]
    assert alone.room(3, 3) == rooms[7]


def test_how_many_are_asked_for_does_not_change_a_room():
    few, many = Made(Settings(), "val", 5), Made(Settings(), "val", 50)
    assert many.panel.task_ids[:5] == few.panel.task_ids
    assert [few.load(i) for i in few.panel.task_ids] == [many.load(i) for i in few.panel.task_ids]


def test_a_rooms_split_is_that_of_its_walls():
    for split in ("train", "val", "test"):
        made = Made(Settings(), split)
        assert {split_of(made.load(task_id)) for task_id in made.panel.task_ids[:40]} == {split}


def test_panels():
    assert [len(Made(Settings(), split).panel) for split in ("train", "val", "test")] == [
        1000,
        100,
        100,
    ]
    assert Made(Settings(7, 8, 2, 4, 20), "val").panel.task_ids[17] == "7x8-2/4-20/val/0017"


def test_copies_are_equal():
    made = Made(Settings(), "test", 3)
    task_id = made.panel.task_ids[2]
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
        assert other.load(task_id) == made.load(task_id)


def test_the_same_rooms_in_processes_with_other_hash_seeds():
    program = (
        "from agent_envs.sokoban.rooms import *\n"
        "for split in SHARES:\n"
        "    made = Made(Settings(6, 6, 2), split, 40)\n"
        "    print(made.panel.hash, [made.load(i) for i in made.panel.task_ids])"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(shown) == 1
    assert len(shown.pop().splitlines()) == 3


@pytest.mark.parametrize(
    ("settings", "board"),
    [
        (Settings(), "###### #____# #_X_O# #P__## ###### ######"),
        (
            Settings(7, 7, 2, 3, 30),
            "####### ##__O## ##_X_## ##_O__# ###_X_# ##___P# #######",
        ),
    ],
    ids=str,
)
def test_rooms_stay_what_they_are(settings, board):
    # Other rooms under the same ids would make results of before and after incomparable.
    made = Made(settings, "test")
    room = made.load(made.panel.task_ids[0])
    assert text(room.kinds(room.start), room.width).split("\n") == board.split()


@pytest.mark.parametrize(
    ("split", "rooms", "message"),
    [
        ("tain", None, "unknown split 'tain', did you mean 'train'"),
        ("all", None, "unknown split 'all'"),
        ("test", 0, "rooms, the number of tasks, must be at least 1, got 0"),
    ],
)
def test_what_is_refused(split, rooms, message):
    with pytest.raises(ValueError, match=message):
        Made(Settings(), split, rooms)


def test_settings_without_rooms_are_refused_when_the_panel_is_made(monkeypatch):
    monkeypatch.setattr("agent_envs.sokoban.rooms.DRAFTS", 300)
    with pytest.raises(ValueError, match=r"no room for .* shorter than min_solution=60"):
        Made(Settings(5, 5, 1, 60, 60), "test")


def test_rooms_that_run_out_are_told(monkeypatch):
    monkeypatch.setattr("agent_envs.sokoban.rooms.DRAFTS", 300)
    made = Made(Settings(4, 7), "train", 5000)  # two rows of floor: few are different
    with pytest.raises(ValueError, match="times the room was there already"):
        made.load(made.panel.task_ids[-1])
