"""Room and its rules: one transition function on integer cells for text, images and solver.

A cell is a number, counted row by row from the top left; a set of cells is an integer with one bit
per cell. A state is the player's cell and the set of boxes, `(player, boxes)`. Cells that the
player could not reach even without boxes are wall. So floor never touches the border, and a bit
shift never leaves its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any

State = tuple[int, int]

MAX_SIDE = 64
"""Longest side of a room, limited by the length of observations and the size of images."""

DIRECTIONS = ("up", "down", "left", "right")
LAYOUTS = {"compact": "{}", "spaced": " {} ", "tabbed": " {} \t"}
"""Format of a cell: as in RAGEN, in VAGEN, in verl-agent."""

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
SYMBOLS = "#_O√XPS"
_WRITTEN = {
    name: {kind: layout.format(symbol) for kind, symbol in enumerate(SYMBOLS)}
    for name, layout in LAYOUTS.items()
}


@dataclass(frozen=True)
class Room:
    """Walls, targets and initial boxes and player; equal iff all of these are equal.

    height, width: sides in cells, walls included.
    floor, targets, boxes: sets of cells; as many boxes as targets, all of them on the floor.
    player: cell where the player starts.
    """

    height: int
    width: int
    floor: int
    targets: int
    boxes: int
    player: int

    @property
    def start(self) -> State:
        """The initial state."""
        return self.player, self.boxes

    @cached_property
    def steps(self) -> tuple[int, int, int, int]:
        """The change of a cell's number for up, down, left and right."""
        return -self.width, self.width, -1, 1

    def move(self, state: State, direction: int, *, push: bool = True) -> State:
        """The state after a step; the same object if a wall or box blocks the step.

        push: whether a box ahead is pushed, if the cell behind it is free.
        """
        player, boxes = state
        step = self.steps[direction]
        ahead = player + step
        if not self.floor >> ahead & 1:
            return state
        if boxes >> ahead & 1:
            beyond = ahead + step
            if not push or not (self.floor & ~boxes) >> beyond & 1:
                return state
            boxes ^= 1 << ahead | 1 << beyond
        return ahead, boxes

    def encode_state(self, state: State) -> bytes:
        """The content of each cell, a byte from WALL to PLAYER_ON_TARGET: [height * width]."""
        player, boxes = state
        kinds = bytearray(self.bare)
        for box in iter_cells(boxes):
            kinds[box] = BOX_ON_TARGET if kinds[box] == TARGET else BOX
        kinds[player] = PLAYER_ON_TARGET if kinds[player] == TARGET else PLAYER
        return bytes(kinds)

    @cached_property
    def bare(self) -> bytes:
        """The content of each cell without boxes and player."""
        return encode_bare(self.height * self.width, self.floor, self.targets)

    def __deepcopy__(self, memo: dict[int, Any]) -> Room:
        return self


def encode_bare(size: int, floor: int, targets: int) -> bytes:
    """Walls, floor and targets, one byte per cell."""
    return bytes([(floor >> cell & 1) + (targets >> cell & 1) for cell in range(size)])


def write_board(kinds: bytes, width: int, layout: str = "compact") -> str:
    """The board in the symbols # _ O √ X P S, one line per row."""
    written = kinds.decode("latin-1").translate(_WRITTEN[layout])
    row = len(written) // len(kinds) * width
    return "\n".join([written[at : at + row] for at in range(0, len(written), row)])


def hash_board(kinds: bytes, width: int) -> str:
    """Digest of walls, targets, boxes and player."""
    return blake2b(b"%d %b" % (width, kinds), digest_size=16).hexdigest()


def iter_cells(of: int) -> Iterator[int]:
    """The cells of a set, lowest first."""
    while of:
        lowest = of & -of
        yield lowest.bit_length() - 1
        of ^= lowest


def iter_waves(start: int, free: int, width: int) -> Iterator[int]:
    """The sets of cells of `free` at walking distance 0, 1, 2, ... from `start`."""
    front = reached = start
    while front:
        yield front
        front = (front << 1 | front >> 1 | front << width | front >> width) & free & ~reached
        reached |= front


def normalize_board(kinds: bytes, width: int) -> bytes:
    """A canonical form, the same for all rotated, mirrored and shifted copies of a board."""
    rows = [kinds[at : at + width] for at in range(0, len(kinds), width)]
    used = [y for y, row in enumerate(rows) if any(row)]
    columns = [x for x in range(width) if any(row[x] for row in rows)]
    top, left, bottom, right = used[0], columns[0], used[-1] + 1, columns[-1] + 1
    cut = b"".join(row[left:right] for row in rows[top:bottom])
    turns = _list_symmetries(bottom - top, right - left)
    return min(bytes([now, *[cut[cell] for cell in order]]) for now, order in turns)


@cache
def _list_symmetries(height: int, width: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The eight symmetries of a rectangle: the new width, and the old cells in the new order."""
    grid = [tuple(range(y * width, (y + 1) * width)) for y in range(height)]
    grids = []
    for _ in range(4):
        grid = list(zip(*grid[::-1], strict=True))
        grids += [grid, grid[::-1]]
    return tuple((len(rows[0]), tuple(cell for row in rows for cell in row)) for rows in grids)
