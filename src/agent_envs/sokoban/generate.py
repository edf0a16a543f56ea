"""Makes rooms: a walk digs the floor, then reverse play pulls the boxes off their targets.

All randomness comes from the method `random` of the generator that is passed, so that a seed gives
the same room on every machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from heapq import nlargest
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sokoban.board import MAX_SIDE, Room, cells, waves
from agent_envs.sokoban.solver import Solver

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

TRIES = 1_000
WIDTH = 24
"""Beam width of reverse play: positions with the highest score that are kept after each pull."""

TURN = 0.35
"""How often the digging walk turns, as in the public generator (gym-sokoban)."""

LENGTH = 1.7
"""Steps of the walk for each cell of height and width, likewise."""

_BRUSHES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)


@dataclass(frozen=True)
class Settings:
    """Size and difficulty of generated rooms.

    height, width: sides in cells, walls included.
    boxes: number of boxes, and of targets.
    min_solution, max_solution: fewest and most actions of a shortest solution.

    Raises:
        ValueError: a number out of range.
    """

    height: int = 6
    width: int = 6
    boxes: int = 1
    min_solution: int = 3
    max_solution: int = 15

    def __post_init__(self) -> None:
        limits = (4, MAX_SIDE), (4, MAX_SIDE), (1, 8), (1, 1000), (self.min_solution, 1000)
        for field, (least, most) in zip(fields(self), limits, strict=True):
            given = getattr(self, field.name)
            if not isinstance(given, int) or not least <= given <= most:
                raise ValueError(
                    f"{field.name} must be an integer in {least}..{most}, got {given!r}"
                )


class RoomPlan(NamedTuple):
    """Floor and targets of a room without boxes and player."""

    floor: int
    targets: int


class Position(NamedTuple):
    """A position of reverse play.

    score: sum of the boxes' displacements times the number of changes of the pulled box.
    cost: actions from here to the end, by reversing the play.
    player: set of the player's possible cells, all at the same cost.
    places: cells of the boxes, in the order of their targets.
    last, changes: the box that was pulled last, and how often the pulled box changed.
    """

    score: int
    cost: int
    player: int
    places: tuple[int, ...]
    last: int
    changes: int

    @property
    def boxes(self) -> int:
        """The set of the boxes' cells."""
        return sum(1 << place for place in self.places)


def generate(rng: np.random.Generator, settings: Settings) -> Room:
    """A random room with these settings.

    Raises:
        ValueError: no room in `TRIES` tries; the message says which settings prevented it.
    """
    failed = Counter[str]()
    for _ in range(TRIES):
        room = furnish(rng, settings, draft(rng, settings))
        if isinstance(room, Room):
            return room
        failed[room] += 1
    raise ValueError(nothing_found(failed, settings))


def nothing_found(failed: Counter[str], settings: Settings) -> str:
    """The message about which settings prevented a room."""
    reasons = ", ".join(f"{times} times {why}" for why, times in failed.most_common())
    return f"no room for {settings} in {failed.total()} tries: {reasons or 'too small'}"


def draft(rng: np.random.Generator, settings: Settings) -> RoomPlan:
    """Floor dug by a random walk, and targets from which a box can be pulled."""
    height, width, length = settings.height, settings.width, _length(settings)
    brushes = [sum(1 << (y + 1) * width + x + 1 for y, x in brush) for brush in _BRUSHES]
    draws = iter(rng.random(3 + 2 * length + settings.boxes).tolist())
    y, x = 1 + int(next(draws) * (height - 2)), 1 + int(next(draws) * (width - 2))
    direction, floor = int(next(draws) * 4), 0
    for turn, brush in islice(zip(draws, draws, strict=False), length):
        if turn < TURN:
            direction = int(turn / TURN * 4)
        y = min(max(y + (-1, 1, 0, 0)[direction], 1), height - 2)
        x = min(max(x + (0, 0, -1, 1)[direction], 1), width - 2)
        floor |= brushes[int(brush * len(brushes))] << (y - 1) * width + x - 1
    inside = (1 << width - 2) - 1 << 1
    floor &= sum(inside << row * width for row in range(1, height - 1))
    fit = floor & (_two(floor, 1) | _two(floor, width))
    free, targets = list(cells(fit)), 0
    for draw in draws:
        targets |= 1 << free.pop(int(draw * len(free))) if free else 0
    return RoomPlan(floor, targets)


def _length(settings: Settings) -> int:
    return int(LENGTH * (settings.height + settings.width))


def _two(floor: int, step: int) -> int:
    """Cells next to two floor cells in one line."""
    return floor << step & floor << 2 * step | floor >> step & floor >> 2 * step


def furnish(rng: np.random.Generator, settings: Settings, plan: RoomPlan) -> Room | str:
    """The plan with boxes and player at one of the best positions, or why there is none."""
    floor, targets = plan
    if targets.bit_count() < settings.boxes:
        return f"there was too little floor for boxes={settings.boxes}"
    off = [p for p in _reverse_play(settings, plan) if not p.boxes & targets]
    if not off:
        return (
            f"not all of boxes={settings.boxes} could be pulled off their targets in "
            f"max_solution={settings.max_solution} actions"
        )
    best = max(position.score for position in off)
    places = [position for position in off if position.score == best]
    first, second = rng.random(2).tolist()
    chosen = places[int(first * len(places))]
    boxes = chosen.boxes
    walk = waves(chosen.player, floor & ~boxes, settings.width)
    near = sum(islice(walk, settings.max_solution - chosen.cost + 1)) & ~targets
    starts = list(cells(near)) or list(cells(chosen.player))
    player = starts[int(second * len(starts))]
    room = Room(settings.height, settings.width, floor, targets, boxes, player)
    solver, least = Solver(room), settings.min_solution
    if solver.bound(boxes) < least and solver.remaining(room.start).actions < least:
        return f"the solution was shorter than min_solution={least}"
    return room


def _reverse_play(settings: Settings, plan: RoomPlan) -> Iterator[Position]:
    """Positions by beam search over pulls, keeping the `WIDTH` best after each."""
    homes = tuple(cells(plan.targets))
    positions = [Position(0, 0, plan.floor & ~plan.targets, homes, -1, 0)]
    seen = set[tuple[int, int]]()
    while positions:
        after = []
        pulls = (_pulls(settings, plan.floor, homes, position) for position in positions)
        for pulled in chain.from_iterable(pulls):
            key = pulled.boxes, pulled.player
            if key not in seen:
                seen.add(key)
                after.append(pulled)
        yield from after
        positions = nlargest(WIDTH, after, key=lambda position: position.score)


def _pulls(
    settings: Settings, floor: int, homes: tuple[int, ...], position: Position
) -> Iterator[Position]:
    """The positions after one pull."""
    width, boxes = settings.width, position.boxes
    free = floor & ~boxes
    stands = (
        (-width, free & boxes << width & free >> width),
        (width, free & boxes >> width & free << width),
        (-1, free & boxes << 1 & free >> 1),
        (1, free & boxes >> 1 & free << 1),
    )
    walk = islice(waves(position.player, free, width), settings.max_solution - position.cost)
    for cost, front in enumerate(walk, position.cost + 1):
        for step, stand in stands:
            for cell in cells(front & stand):
                box = position.places.index(cell + step)
                places = (*position.places[:box], cell, *position.places[box + 1 :])
                changes = position.changes + (box != position.last)
                score = changes * _displacement(places, homes, width)
                yield Position(score, cost, 1 << cell - step, places, box, changes)


def _displacement(places: tuple[int, ...], homes: tuple[int, ...], width: int) -> int:
    """Sum of the Manhattan distances between places and homes."""
    return sum(
        abs(place // width - home // width) + abs(place % width - home % width)
        for place, home in zip(places, homes, strict=True)
    )
