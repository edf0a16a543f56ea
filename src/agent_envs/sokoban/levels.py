"""Levels from files: Boxoban and XSB, plain, gzip or xz, one or several per file.

A row begins with one of `# @ $ . * +`, or is run-length encoded, such as `3#|#@#`; any other line,
such as a title, separates levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.assets import (
    BadAsset,
    MissingAsset,
    Reading,
    expand_path,
    refuse_damaged,
    unpack_file,
)
from agent_envs.panels import Panel, find_copies, one_of, source_of
from agent_envs.sokoban.board import MAX_SIDE, Room, iter_cells, iter_waves
from agent_envs.sokoban.rooms import SHARES, find_split

if TYPE_CHECKING:
    import os

FORMATS = (".txt", ".xsb", ".sok")
BLANKS = " -_"
WALLS, PLAYERS, BOXES, TARGETS = "#", "@+", "$*", ".*+"
ROWS = tuple("#@$.*+")
_RUN = re.compile(r"(?<!\d)(\d{1,2})(?:\(([#@$.*+ _-]+)\)|([#@$.*+ _-]))")


@dataclass(frozen=True)
class Levels:
    """The levels of some files, optionally only those of one split.

    panel: ids "<file>/<number in the file, from 0>", files sorted by name.
    rooms: by id. shape: height and width of the largest. reading: what was left out.
    """

    panel: Panel
    rooms: Mapping[str, Room]
    shape: tuple[int, int]
    reading: Reading

    def load(self, task_id: str) -> Room:
        """The room of a task."""
        return self.rooms[task_id]

    def __deepcopy__(self, memo: dict[int, Any]) -> Levels:
        return self


def open_levels(
    path: str | os.PathLike[str], split: str = "all", *, strict: bool = False
) -> Levels:
    """The levels of a file, or of all files below a folder; bad ones are left out with a warning.

    split: "all", or "train", "val" or "test" by the digest of walls and targets, as for generated
        rooms.

    Raises:
        MissingAsset: no such file, or a folder without any.
        BadAsset: no level is good, or with `strict`, one is bad.
        ValueError: an unknown split, or one without levels.
    """
    one_of("split", split, ("all", *SHARES))
    path = expand_path(path)
    suffixes = tuple(suffix + packed for packed in ("", ".gz", ".xz") for suffix in FORMATS)
    found = (file for file in path.rglob("*") if file.name.endswith(suffixes))
    files = [path] if path.is_file() else sorted(found)
    if not files:
        raise MissingAsset(
            f"no levels at {path}: name a file of levels, or a folder with *{', *'.join(suffixes)}"
        )
    stats = [file.stat(follow_symlinks=file.exists()) for file in files]
    stamps = tuple((stat.st_size, stat.st_mtime_ns) for stat in stats)
    levels = _read_files(path if path.is_dir() else path.parent, tuple(files), split, stamps)
    levels.reading.report(strict=strict)
    return levels


@lru_cache(maxsize=16)
def _read_files(
    folder: Path, files: tuple[Path, ...], split: str, _stamps: tuple[tuple[int, int], ...]
) -> Levels:
    """The levels of files; `_stamps` invalidates the cache when a file changes."""
    rooms, reading = {}, Reading()
    for file in files:
        for number, room in read_levels(file, reading).items():
            rooms[f"{file.relative_to(folder).as_posix()}/{number}"] = room
    if not rooms:
        reading.report(strict=True)
    rooms = {name: room for name, room in rooms.items() if split in ("all", find_split(room))}
    if not rooms:
        raise ValueError(f"no level in {folder} belongs to split {split!r}; use split='all'")
    shape = max(r.height for r in rooms.values()), max(r.width for r in rooms.values())
    source = source_of("levels", files[0] if len(files) == 1 else folder)
    return Levels(Panel(split, tuple(rooms), source, find_copies(rooms)), rooms, shape, reading)


def read_levels(file: Path, reading: Reading) -> dict[int, Room]:
    """The good levels of a file by their number in it, from 0."""
    rooms = {}
    levels = list[tuple[int, list[str]]]()
    why: object = "no level: a level has rows of the symbols # @ $ . * + and blanks"
    try:  # titles may be in any encoding
        levels += _split_levels(unpack_file(file).decode(errors="replace"))
    except (BadAsset, MissingAsset) as error:
        why = error
    if not any(_is_row(row) for _, rows in levels for row in rows):  # a text with a #, or nothing
        place = f"line {levels[0][0]}" if levels else "as a whole"
        reading.leave_out(file, place, why)
        return {}
    for number, (line, rows) in enumerate(levels):
        with reading.record(file, f"line {line}"):
            rooms[number] = parse_level(rows, f"{file}, line {line}")
    return rooms


def _is_row(row: str) -> bool:
    """Whether a row is of a level: it has no word, and more than wall."""
    return not re.search(r"[^\W\d_]{2}", row) and not {*row}.isdisjoint(ROWS[1:])


def _split_levels(content: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of each level and the number of its first line."""
    rows, first = list[str](), 0
    for number, line in enumerate([*content.splitlines(), ""], 1):
        row = line
        for _ in range(2):  # runs, then groups of them
            row = _RUN.sub(lambda run: int(run[1]) * (run[2] or run[3]), row)
        if row.lstrip(f"{BLANKS}0123456789(").startswith(ROWS) and "#" in row:
            first = first if rows else number
            rows += (part.rstrip() for part in row.rstrip("|").split("|"))
        elif rows:
            yield first, rows
            rows = []


def parse_level(rows: list[str], source: str) -> Room:
    """The room that the rows draw; cells that the player cannot reach become wall.

    Raises:
        BadAsset: not a valid level; the message begins with `source`.
    """
    height, width = len(rows), max(map(len, rows))
    if max(height, width) > MAX_SIDE:
        raise BadAsset(f"{source}: {height} rows of {width} cells, at most {MAX_SIDE} are allowed")
    board = "".join(row.ljust(width) for row in rows)
    unknown = sorted(set(board) - set(BLANKS).union(ROWS))
    players, boxes, targets = (_find_symbols(board, of) for of in (PLAYERS, BOXES, TARGETS))
    free = ~_find_symbols(board, WALLS) & (1 << len(board)) - 1
    floor = sum(iter_waves(players, free, width))
    inner = range(1, height - 1), range(1, width - 1)
    places, apart = (
        [divmod(cell, width) for cell in iter_cells(cells)]
        for cells in (floor, (boxes ^ targets) & ~floor)
    )
    edges = [
        (row, column) for row, column in places if row not in inner[0] or column not in inner[1]
    ]
    rules = {
        f"unknown symbol {''.join(unknown)[:1]!r}, known are # @ $ . * + and blank": unknown,
        f"{players.bit_count()} players (@ or +), there must be one": players.bit_count() != 1,
        f"{boxes.bit_count()} boxes ($ or *) and {targets.bit_count()} targets (. or * or +), "
        "there must be equally many, and at least one": (
            not boxes or boxes.bit_count() != targets.bit_count()
        ),
        "all boxes are on targets already, nothing is left to do": boxes == targets,
        f"the walls are open at {_name_place(edges)}; close them": edges,
        f"the player cannot reach the box or target at {_name_place(apart)}": apart,
    }
    refuse_damaged(source, rules)
    boxes, targets = boxes & floor, targets & floor  # a box on a target may be out of reach
    return Room(height, width, floor, targets, boxes, players.bit_length() - 1)


def _name_place(places: list[tuple[int, int]]) -> str:
    """The first place, counted from 1."""
    return "".join(f"row {row + 1}, column {column + 1}" for row, column in places[:1])


def _find_symbols(board: str, symbols: str) -> int:
    return sum(1 << cell for cell, symbol in enumerate(board) if symbol in symbols)
