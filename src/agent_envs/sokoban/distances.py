"""Remaining actions of every state of a room, by one search backwards from the solved states.

A breadth-first search over (player, boxes) as NumPy arrays, done once per room. It is used for
rooms with few enough states; for others `solver` searches from one state at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from agent_envs.sokoban.board import cells
from agent_envs.sokoban.solver import Remaining, Solver, needed_pushes

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from agent_envs.sokoban.board import Room, State

FEWEST, MOST = 2_000, 2_000_000
"""Smallest and largest number of states of a room for which all states are searched at once."""

BYTES_KEPT = 2**27
"""Size limit of the cache of searched rooms; about 900 rooms of 10x10 cells with 4 boxes."""

_UNREACHED = -1


class Distances:
    """The remaining actions of all states of one room; every answer is exact.

    A box on a cell from which no pushes lead to a target is a dead end, so only arrangements on
    the other ("live") cells have a row. The row is the arrangement's colexicographic rank.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        live = sorted(needed_pushes(room))
        self._place = {cell: place for place, cell in enumerate(live)}
        self._row = {cell: row for row, cell in enumerate(cells(room.floor))}
        boxes = room.targets.bit_count()
        self._binomials = [[comb(place, k + 1) for k in range(boxes)] for place in range(len(live))]
        found = self._search(np.array(live), boxes)
        solvable = (found != _UNREACHED).any(axis=0)
        self._column = np.where(solvable, np.cumsum(solvable) - 1, _UNREACHED).astype(np.int32)
        self._remaining = found[:, solvable]

    @property
    def size(self) -> int:
        """Size of the result in bytes."""
        return self._remaining.nbytes + self._column.nbytes

    def remaining(self, state: State) -> Remaining:
        """The remaining actions of a state."""
        player, boxes = state
        rank = 0
        for k, cell in enumerate(cells(boxes)):
            place = self._place.get(cell)
            if place is None:
                return Remaining(0, solvable=False)
            rank += self._binomials[place][k]
        column = self._column[rank]
        left = _UNREACHED if column < 0 else int(self._remaining[self._row[player], column])
        return Remaining(0, solvable=False) if left < 0 else Remaining(left)

    def __deepcopy__(self, memo: dict[int, Any]) -> Distances:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _distances, (self.room,)

    def _search(self, live: NDArray[np.int64], boxes: int) -> NDArray[np.signedinteger[Any]]:
        """Actions to the end: [F player cells, C arrangements], -1 if the end cannot be reached."""
        places = np.array(list(combinations(range(len(live)), boxes)))  # [C, boxes]
        places = places[np.argsort(self._rank(places))]  # rows in order of rank
        count = len(places)
        free = np.ones((len(self._row), count), dtype=np.bool_)
        rows = np.array([self._row[cell] for cell in live.tolist()])
        free[rows[places.T], np.arange(count)] = False
        walks = self._walks()
        after, before = self._pulls(live, places, free)
        end = self._rank(np.array([[self._place[cell] for cell in cells(self.room.targets)]]))[0]
        front = np.zeros_like(free)
        front[:, end] = free[:, end]
        open_ = free & ~front
        distance = np.zeros(free.shape, dtype=np.int16)
        while front.any():
            distance += open_
            reached = np.zeros_like(front)
            for there, here in walks:
                reached[here] |= front[there]
            reached.ravel()[before[front.ravel()[after]]] = True
            reached &= open_
            open_ ^= reached
            front = reached
        distance[open_ | ~free] = _UNREACHED
        return distance.astype(np.int8) if distance.max() <= np.iinfo(np.int8).max else distance

    def _rank(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Colexicographic rank of sorted places of boxes: [C, boxes] -> [C]."""
        table = np.array(self._binomials)
        ranks: NDArray[np.int64] = table[places, np.arange(places.shape[1])].sum(axis=1)
        return ranks

    def _walks(self) -> list[tuple[list[int], list[int]]]:
        """For each direction, the rows of the cells after a step, and of those before it."""
        walks = []
        for step in self.room.steps:
            pairs = [
                (row, self._row[c - step]) for c, row in self._row.items() if c - step in self._row
            ]
            walks.append(([there for there, _ in pairs], [here for _, here in pairs]))
        return walks

    def _pulls(
        self, live: NDArray[np.int64], places: NDArray[np.int64], free: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pushes, reversed: flat indices of the states after and before each push."""
        count, boxes = places.shape
        lookup = np.full(self.room.height * self.room.width, -1)
        lookup[live] = np.arange(len(live))
        rows = np.full(len(lookup), -1)
        rows[list(self._row)] = list(self._row.values())
        after, before = [], []
        for box in range(boxes):
            for step in self.room.steps:
                player = live[places[:, box]] - step  # after the push: the box's cell before it
                behind = player - step  # before the push
                where = np.flatnonzero((rows[player] >= 0) & (lookup[player] >= 0))
                where = where[rows[behind[where]] >= 0]
                where = where[free[rows[player[where]], where] & free[rows[behind[where]], where]]
                moved = places[where]
                moved[:, box] = lookup[player[where]]
                after.append(rows[player[where]] * count + where)
                before.append(rows[behind[where]] * count + self._rank(np.sort(moved, axis=1)))
        return np.concatenate(after), np.concatenate(before)


@lru_cache(maxsize=1024)
def states(room: Room) -> int:
    """Player cells times arrangements of the boxes on cells from which a target can be reached."""
    return room.floor.bit_count() * comb(len(needed_pushes(room)), room.targets.bit_count())


_kept: OrderedDict[Room, Distances] = OrderedDict()


def _distances(room: Room) -> Distances:
    if room in _kept:
        _kept.move_to_end(room)
        return _kept[room]
    found = _kept[room] = Distances(room)
    while len(_kept) > 1 and sum(one.size for one in _kept.values()) > BYTES_KEPT:
        _kept.popitem(last=False)
    return found


@lru_cache(maxsize=1024)
def _solver(room: Room, budget: int) -> Solver:
    return Solver(room, budget)


def solver_of(room: Room, budget: int) -> Solver | Distances:
    """The source of a room's remaining actions, shared by all environments of the process.

    Which of the two is used depends on the room alone, except that a budget of 0 never searches.
    """
    return _distances(room) if budget and FEWEST <= states(room) <= MOST else _solver(room, budget)
