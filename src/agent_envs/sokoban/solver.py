"""Shortest solutions, exact in the number of actions: A* over pushes, within a budget.

All walks of the player in a position are found at once, as a wave over sets of cells. Deadlock
detection covers only the cheapest cases: cells from which no pushes lead to a target, and squares
of four boxes or walls.
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
"""Positions that one search expands before it stops."""

KEPT = 1_000
"""How many states of a room have their remaining actions cached."""


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
        self._kept: dict[State, Remaining] = {}

    def remaining(self, state: State) -> Remaining:
        """The remaining actions of a state."""
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
        """Lower bound of the pushes for any player cell; all boxes must be on live cells."""
        return sum(self.needed[box] for box in cells(boxes))

    def plan(self, state: State) -> list[int]:
        """Directions of a shortest solution; [] if there is none or the search stopped."""
        return self._search(state)[1]

    @cached_property
    def needed(self) -> dict[int, int]:
        """`needed_pushes` of the room."""
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
        """Whether a box is in a square of boxes and walls whose boxes are not all on targets."""
        free, astray = self.room.floor & ~boxes, boxes & ~self.room.targets
        return any(not square & free and square & astray for square in self._squares[box])

    def _search(self, state: State) -> tuple[Remaining, list[int]]:
        """The remaining actions, and the directions of a shortest solution."""
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
        for cost, front in enumerate(waves(1 << player, free, width), 1):
            if not front & wanted:
                continue
            for step, stand in zip(steps, stands, strict=True):
                for cell in cells(front & stand):
                    yield cost, cell + step, cell + 2 * step
            wanted &= ~front
            if not wanted:
                return

    def _directions(
        self, came: dict[tuple[int, int], tuple[int, int]], end: tuple[int, int]
    ) -> list[int]:
        """The steps through all positions on the way to the end."""
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
    """Cell -> pushes to the nearest target for a single box, for cells with a way."""
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
