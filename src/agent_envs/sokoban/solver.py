"""Shortest solutions, exact in the number of actions: A* over pushes, within a budget.

A position is looked at once for all walks of the player: they spread as a wave over sets of cells.
Left out is all deadlock detection but the cheapest: cells that no push leaves for a target, and
four boxes or walls in a square.
"""

from __future__ import annotations

from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sokoban.board import cells, waves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agent_envs.sokoban.board import Room, State

BUDGET = 10_000
"""Positions that one search looks at before it gives up."""

KEPT = 1_000
"""States of a room whose remaining actions are kept."""


class Remaining(NamedTuple):
    """How far a state is from its end.

    actions: of a shortest solution; where the search gave up, so many at least.
    solvable: False where there is none. exact: whether the search came to an end.
    """

    actions: int
    solvable: bool = True
    exact: bool = True


class Solver:
    """The solutions of one room; what it found is kept, but no answer depends on what was asked.

    room: the room. budget: positions that a search may look at, then it gives up once no position
        is as promising as the last. 0 leaves only the bound that counts each box's pushes.
    """

    def __init__(self, room: Room, budget: int = BUDGET) -> None:
        self.room, self.budget = room, budget
        self._kept: dict[State, Remaining] = {}

    def remaining(self, state: State) -> Remaining:
        """What remains to be done from a state."""
        known = self._kept.get(state)
        if known is None:
            if len(self._kept) > KEPT:
                self._kept.clear()
            known, plan = self._search(state)
            self._kept[state] = known
            for left, direction in zip(range(len(plan) - 1, -1, -1), plan, strict=True):
                state = self.room.after(state, direction)
                self._kept[state] = Remaining(left)
        return known

    def __deepcopy__(self, memo: dict[int, Any]) -> Solver:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Solver, (self.room, self.budget)

    def bound(self, boxes: int) -> int:
        """Pushes needed at least, from wherever the player is; all boxes are on live cells."""
        return sum(self.needed[box] for box in cells(boxes))

    def plan(self, state: State) -> list[int]:
        """Directions of a shortest solution; empty where there is none, or the search gave up."""
        return self._search(state)[1]

    @cached_property
    def needed(self) -> dict[int, int]:
        """As `needed_pushes` of the room."""
        return needed_pushes(self.room)

    @cached_property
    def _alive(self) -> int:
        return sum(1 << cell for cell in self.needed)

    @cached_property
    def _squares(self) -> dict[int, tuple[int, ...]]:
        """The four squares of four cells around each cell."""
        square, w = 3 | 3 << self.room.width, self.room.width
        return {c: tuple(square << d for d in (c - w - 1, c - w, c - 1, c)) for c in self.needed}

    def _stuck(self, boxes: int, box: int) -> bool:
        """Whether a box has come into a square of boxes and walls, not all of them on targets."""
        free, astray = self.room.floor & ~boxes, boxes & ~self.room.targets
        return any(not square & free and square & astray for square in self._squares[box])

    def _search(self, state: State) -> tuple[Remaining, list[int]]:
        """What remains, and the directions of a shortest solution."""
        needed, targets = self.needed, self.room.targets
        player, boxes = state
        if boxes & ~self._alive or any(self._stuck(boxes, box) for box in cells(boxes)):
            return Remaining(0, solvable=False), []
        left = self.bound(boxes)
        queue = [(left, left, boxes, player)]
        spent, came = {(boxes, player): 0}, dict[tuple[int, int], tuple[int, int]]()
        looked, level = 0, -1
        while queue:
            total, ahead, boxes, player = heappop(queue)
            if boxes == targets:
                return Remaining(total), self._directions(came, (boxes, player))
            if spent[boxes, player] < total - ahead:
                continue
            if looked >= self.budget and total > level:
                return Remaining(total, exact=False), []
            looked, level = looked + 1, total
            for actions, box, to in self._pushes(boxes, player):
                after = boxes ^ (1 << box | 1 << to), box
                cost = total - ahead + actions
                if cost < spent.get(after, cost + 1) and not self._stuck(after[0], to):
                    spent[after], came[after] = cost, (boxes, player)
                    left = ahead - needed[box] + needed[to]
                    heappush(queue, (cost + left, left, *after))
        return Remaining(0, solvable=False), []

    def _pushes(self, boxes: int, player: int) -> Iterator[tuple[int, int, int]]:
        """Each push from here: actions with the walk to it, the box's cell before and after."""
        width, steps = self.room.width, self.room.steps
        free, into = self.room.floor & ~boxes, self._alive & ~boxes
        stands = (
            free & boxes << width & into << 2 * width,
            free & boxes >> width & into >> 2 * width,
            free & boxes << 1 & into << 2,
            free & boxes >> 1 & into >> 2,
        )
        wanted = stands[0] | stands[1] | stands[2] | stands[3]
        for cost, front in enumerate(waves(1 << player, free, width), 1):
            if front & wanted:
                for step, stand in zip(steps, stands, strict=True):
                    for cell in cells(front & stand):
                        yield cost, cell + step, cell + 2 * step
                wanted &= ~front
            if not wanted:
                return

    def _directions(
        self, came: dict[tuple[int, int], tuple[int, int]], end: tuple[int, int]
    ) -> list[int]:
        """The steps through all positions that led to the end."""
        way = [end]
        while way[-1] in came:
            way.append(came[way[-1]])
        directions = list[int]()
        for (boxes, player), (after, box) in pairwise(reversed(way)):
            step = (boxes ^ after ^ 1 << box).bit_length() - 1 - box
            directions += self._walk(self.room.floor & ~boxes, player, box - step)
            directions.append(self.room.steps.index(step))
        return directions

    def _walk(self, free: int, start: int, end: int) -> list[int]:
        """The steps of a shortest walk."""
        directions, passed = list[int](), list[int]()
        for wave in waves(1 << end, free, self.room.width):
            if wave >> start & 1:
                break
            passed.append(wave)
        for wave in reversed(passed):
            steps = enumerate(self.room.steps)
            direction, step = next((d, s) for d, s in steps if wave >> start + s & 1)
            directions.append(direction)
            start += step
        return directions


def needed_pushes(room: Room) -> dict[int, int]:
    """Pushes from a cell to the nearest target for a box alone, where there is a way."""
    floor = room.floor
    needed = dict.fromkeys(cells(room.targets), 0)
    queue = list(needed)
    for cell in queue:
        for step in room.steps:
            before, player = cell - step, cell - 2 * step
            if floor >> before & 1 and floor >> player & 1 and before not in needed:
                needed[before] = needed[cell] + 1
                queue.append(before)
    return needed
