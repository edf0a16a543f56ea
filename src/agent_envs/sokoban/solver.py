"""Remaining actions and shortest solutions of a room, exact in the number of actions.

Rooms with few or very many states are searched from one state at a time: A* over pushes, within a
budget. All walks of the player in a position are found at once, as a wave over sets of cells.
Deadlock detection covers only the cheapest cases: cells from which no pushes lead to a target, and
squares of four boxes or walls. In all other rooms one search backwards from the solved states finds
every state's remaining actions: breadth-first over (player, boxes) as NumPy arrays, once per room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import combinations, pairwise
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_envs.sokoban.board import iter_cells, iter_waves

if TYPE_CHECKING:
    from agent_envs.sokoban.board import Room, State

BUDGET = 10_000
"""Positions that one search expands before it stops."""

KEPT = 1_000
"""How many states of a room have their remaining actions cached."""

FEWEST, MOST = 2_000, 2_000_000
"""Smallest and largest number of states of a room for which all states are searched at once."""

BYTES_KEPT = 2**27
"""Size limit of the cache of searched rooms; about 900 rooms of 10x10 cells with 4 boxes."""

_UNREACHED = -1


class Remaining(NamedTuple):
    """The distance of a state from the end.

    actions: length of a shortest solution; a lower bound if the search stopped early.
    solvable: False if there is no solution. exact: whether the search was complete.
    """

    actions: int
    solvable: bool = True
    exact: bool = True


class Solver:
    """The solutions of one room, cached; no result depends on earlier queries.

    room: the room. budget: after so many positions the search stops at the next position with a
        higher bound. 0 uses only the lower bound of each box's pushes.
    """

    def __init__(self, room: Room, budget: int = BUDGET) -> None:
        self.room, self.budget = room, budget
        self._known_states: dict[State, Remaining] = {}

    def find_remaining(self, state: State) -> Remaining:
        """The remaining actions of a state."""
        known = self._known_states.get(state)
        if known is None:
            if len(self._known_states) > KEPT:
                self._known_states.clear()
            known, plan = self._search(state)
            self._known_states[state] = known
            for left, direction in zip(range(len(plan) - 1, -1, -1), plan, strict=True):
                state = self.room.move(state, direction)
                self._known_states[state] = Remaining(left)
        return known

    def __deepcopy__(self, memo: dict[int, Any]) -> Solver:
        return self

    def bound_pushes(self, boxes: int) -> int:
        """Lower bound of the pushes for any player cell; all boxes must be on live cells."""
        return sum(self.needed[box] for box in iter_cells(boxes))

    def plan(self, state: State) -> list[int]:
        """Directions of a shortest solution; [] if there is none or the search stopped."""
        return self._search(state)[1]

    @cached_property
    def needed(self) -> dict[int, int]:
        """`needed_pushes` of the room."""
        return count_needed_pushes(self.room)

    @cached_property
    def _alive(self) -> int:
        return sum(1 << cell for cell in self.needed)

    @cached_property
    def _squares(self) -> dict[int, tuple[int, ...]]:
        """The four squares of four cells around each cell."""
        square, w = 3 | 3 << self.room.width, self.room.width
        return {c: tuple(square << d for d in (c - w - 1, c - w, c - 1, c)) for c in self.needed}

    def _is_stuck(self, boxes: int, box: int) -> bool:
        """Whether a box is in a square of boxes and walls whose boxes are not all on targets."""
        free, astray = self.room.floor & ~boxes, boxes & ~self.room.targets
        return any(not square & free and square & astray for square in self._squares[box])

    def _search(self, state: State) -> tuple[Remaining, list[int]]:
        """The remaining actions, and the directions of a shortest solution."""
        needed, targets = self.needed, self.room.targets
        player, boxes = state
        if boxes & ~self._alive or any(self._is_stuck(boxes, box) for box in iter_cells(boxes)):
            return Remaining(0, solvable=False), []
        left = self.bound_pushes(boxes)
        queue = [(left, left, boxes, player)]
        spent, came = {(boxes, player): 0}, dict[tuple[int, int], tuple[int, int]]()
        looked, level = 0, -1
        while queue:
            total, ahead, boxes, player = heappop(queue)
            if boxes == targets:
                return Remaining(total), self._trace_directions(came, (boxes, player))
            if spent[boxes, player] < total - ahead:
                continue
            if looked >= self.budget and total > level:
                return Remaining(total, exact=False), []
            looked, level = looked + 1, total
            for actions, box, to in self._iter_pushes(boxes, player):
                after = boxes ^ (1 << box | 1 << to), box
                cost = total - ahead + actions
                if cost < spent.get(after, cost + 1) and not self._is_stuck(after[0], to):
                    spent[after], came[after] = cost, (boxes, player)
                    left = ahead - needed[box] + needed[to]
                    heappush(queue, (cost + left, left, *after))
        return Remaining(0, solvable=False), []

    def _iter_pushes(self, boxes: int, player: int) -> Iterator[tuple[int, int, int]]:
        """Each possible push: actions including the walk, the box's cell before and after."""
        width, steps = self.room.width, self.room.steps
        free, into = self.room.floor & ~boxes, self._alive & ~boxes
        stands = (
            free & boxes << width & into << 2 * width,
            free & boxes >> width & into >> 2 * width,
            free & boxes << 1 & into << 2,
            free & boxes >> 1 & into >> 2,
        )
        wanted = stands[0] | stands[1] | stands[2] | stands[3]
        if not wanted:
            return
        for cost, front in enumerate(iter_waves(1 << player, free, width), 1):
            if not front & wanted:
                continue
            for step, stand in zip(steps, stands, strict=True):
                for cell in iter_cells(front & stand):
                    yield cost, cell + step, cell + 2 * step
            wanted &= ~front
            if not wanted:
                return

    def _trace_directions(
        self, came: dict[tuple[int, int], tuple[int, int]], end: tuple[int, int]
    ) -> list[int]:
        """The steps through all positions on the way to the end."""
        way = [end]
        while way[-1] in came:
            way.append(came[way[-1]])
        directions = list[int]()
        for (boxes, player), (after, box) in pairwise(reversed(way)):
            step = (boxes ^ after ^ 1 << box).bit_length() - 1 - box
            directions += self._find_walk(self.room.floor & ~boxes, player, box - step)
            directions.append(self.room.steps.index(step))
        return directions

    def _find_walk(self, free: int, start: int, end: int) -> list[int]:
        """The steps of a shortest walk."""
        directions, passed = list[int](), list[int]()
        for wave in iter_waves(1 << end, free, self.room.width):
            if wave >> start & 1:
                break
            passed.append(wave)
        for wave in reversed(passed):
            steps = enumerate(self.room.steps)
            direction, step = next((d, s) for d, s in steps if wave >> start + s & 1)
            directions.append(direction)
            start += step
        return directions


def count_needed_pushes(room: Room) -> dict[int, int]:
    """Cell -> pushes to the nearest target for a single box, for cells with a way."""
    floor = room.floor
    needed = dict.fromkeys(iter_cells(room.targets), 0)
    queue = list(needed)
    for cell in queue:
        for step in room.steps:
            before, player = cell - step, cell - 2 * step
            if floor >> before & 1 and floor >> player & 1 and before not in needed:
                needed[before] = needed[cell] + 1
                queue.append(before)
    return needed


class Distances:
    """The remaining actions of all states of one room; every answer is exact.

    A box on a cell from which no pushes lead to a target is a dead end, so only arrangements on
    the other ("live") cells have a row. The row is the arrangement's colexicographic rank.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        live = sorted(count_needed_pushes(room))
        self._place = {cell: place for place, cell in enumerate(live)}
        self._row = {cell: row for row, cell in enumerate(iter_cells(room.floor))}
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

    def find_remaining(self, state: State) -> Remaining:
        """The remaining actions of a state."""
        player, boxes = state
        rank = 0
        for k, cell in enumerate(iter_cells(boxes)):
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
        return _search_room, (self.room,)

    def _search(self, live: NDArray[np.int64], boxes: int) -> NDArray[np.signedinteger[Any]]:
        """Actions to the end: [F player cells, C arrangements], -1 if the end cannot be reached."""
        places = np.array(list(combinations(range(len(live)), boxes)))  # [C, boxes]
        places = places[np.argsort(self._rank_places(places))]  # rows in order of rank
        count = len(places)
        free = np.ones((len(self._row), count), dtype=np.bool_)
        rows = np.array([self._row[cell] for cell in live.tolist()])
        free[rows[places.T], np.arange(count)] = False
        walks = self._list_walks()
        after, before = self._list_pulls(live, places, free)
        end = self._rank_places(
            np.array([[self._place[cell] for cell in iter_cells(self.room.targets)]])
        )[0]
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

    def _rank_places(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Colexicographic rank of sorted places of boxes: [C, boxes] -> [C]."""
        table = np.array(self._binomials)
        ranks: NDArray[np.int64] = table[places, np.arange(places.shape[1])].sum(axis=1)
        return ranks

    def _list_walks(self) -> list[tuple[list[int], list[int]]]:
        """For each direction, the rows of the cells after a step, and of those before it."""
        walks, rows = [], self._row
        for step in self.room.steps:
            pairs = [(row, rows[c - step]) for c, row in rows.items() if c - step in rows]
            walks.append(([there for there, _ in pairs], [here for _, here in pairs]))
        return walks

    def _list_pulls(
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
                before.append(
                    rows[behind[where]] * count + self._rank_places(np.sort(moved, axis=1))
                )
        return np.concatenate(after), np.concatenate(before)


@lru_cache(maxsize=1024)
def count_states(room: Room) -> int:
    """Player cells times arrangements of the boxes on cells from which a target can be reached."""
    return room.floor.bit_count() * comb(len(count_needed_pushes(room)), room.targets.bit_count())


_searched_rooms: OrderedDict[Room, Distances] = OrderedDict()


def _search_room(room: Room) -> Distances:
    if room in _searched_rooms:
        _searched_rooms.move_to_end(room)
        return _searched_rooms[room]
    found = _searched_rooms[room] = Distances(room)
    while (
        len(_searched_rooms) > 1 and sum(one.size for one in _searched_rooms.values()) > BYTES_KEPT
    ):
        _searched_rooms.popitem(last=False)
    return found


_open_solver = lru_cache(maxsize=1024)(Solver)


def choose_solver(room: Room, budget: int) -> Solver | Distances:
    """The source of a room's remaining actions, shared by all environments of the process.

    Which of the two is used depends on the room alone, except that a budget of 0 never searches.
    """
    if budget and FEWEST <= count_states(room) <= MOST:
        return _search_room(room)
    return _open_solver(room, budget)
