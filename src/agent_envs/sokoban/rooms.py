"""Generated rooms as tasks: fixed numbers, no duplicates, no shared walls and targets of splits.

A random walk digs the floor, then reverse play pulls the boxes off their targets. All randomness
comes from the method `random` of the generator that is passed, so that a seed gives the same room
on every machine. Rooms are generated on demand and cached by the process. The room of a number
depends only on the settings, not on the rooms that were generated before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from functools import cached_property, lru_cache
from hashlib import blake2b
from heapq import nlargest
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from agent_envs.panels import Panel, one_of
from agent_envs.sokoban.board import (
    MAX_SIDE,
    Room,
    encode_bare,
    iter_cells,
    iter_waves,
    normalize_board,
)
from agent_envs.sokoban.solver import Solver

SHELVES = 20
SHARES = {"train": range(4, 20), "val": range(2, 4), "test": range(2)}
"""The twentieths of all rooms, by a digest of walls and targets, that belong to each split."""

ROOMS = {"train": 1000, "val": 100, "test": 100}
DRAFTS = 20_000
"""Room plans that are tried for one more room of a twentieth."""

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


def draft_plan(rng: np.random.Generator, settings: Settings) -> RoomPlan:
    """Floor dug by a random walk, and targets from which a box can be pulled."""
    height, width = settings.height, settings.width
    length = int(LENGTH * (height + width))
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
    fit = floor & (_find_pairs(floor, 1) | _find_pairs(floor, width))
    free, targets = list(iter_cells(fit)), 0
    for draw in draws:
        targets |= 1 << free.pop(int(draw * len(free))) if free else 0
    return RoomPlan(floor, targets)


def _find_pairs(floor: int, step: int) -> int:
    """Cells next to two floor cells in one line."""
    return floor << step & floor << 2 * step | floor >> step & floor >> 2 * step


def furnish_plan(rng: np.random.Generator, settings: Settings, plan: RoomPlan) -> Room | str:
    """The plan with boxes and player at one of the best positions, or why there is none."""
    floor, targets = plan
    if targets.bit_count() < settings.boxes:
        return f"there was too little floor for boxes={settings.boxes}"
    off = [p for p in _play_reverse(settings, plan) if not p.boxes & targets]
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
    walk = iter_waves(chosen.player, floor & ~boxes, settings.width)
    near = sum(islice(walk, settings.max_solution - chosen.cost + 1)) & ~targets
    starts = list(iter_cells(near)) or list(iter_cells(chosen.player))
    player = starts[int(second * len(starts))]
    room = Room(settings.height, settings.width, floor, targets, boxes, player)
    solver, least = Solver(room), settings.min_solution
    if solver.bound_pushes(boxes) < least and solver.find_remaining(room.start).actions < least:
        return f"the solution was shorter than min_solution={least}"
    return room


def _play_reverse(settings: Settings, plan: RoomPlan) -> Iterator[Position]:
    """Positions by beam search over pulls, keeping the `WIDTH` best after each."""
    homes = tuple(iter_cells(plan.targets))
    positions = [Position(0, 0, plan.floor & ~plan.targets, homes, -1, 0)]
    seen = set[tuple[int, int]]()
    while positions:
        after = []
        pulls = (_iter_pulls(settings, plan.floor, homes, position) for position in positions)
        for pulled in chain.from_iterable(pulls):
            key = pulled.boxes, pulled.player
            if key not in seen:
                seen.add(key)
                after.append(pulled)
        yield from after
        positions = nlargest(WIDTH, after, key=lambda position: position.score)


def _iter_pulls(
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
    walk = islice(iter_waves(position.player, free, width), settings.max_solution - position.cost)
    for cost, front in enumerate(walk, position.cost + 1):
        for step, stand in stands:
            for cell in iter_cells(front & stand):
                box = position.places.index(cell + step)
                places = (*position.places[:box], cell, *position.places[box + 1 :])
                changes = position.changes + (box != position.last)
                score = changes * _measure_displacement(places, homes, width)
                yield Position(score, cost, 1 << cell - step, places, box, changes)


def _measure_displacement(places: tuple[int, ...], homes: tuple[int, ...], width: int) -> int:
    """Sum of the Manhattan distances between places and homes."""
    return sum(
        abs(place // width - home // width) + abs(place % width - home % width)
        for place, home in zip(places, homes, strict=True)
    )


@dataclass(frozen=True)
class GeneratedRooms:
    """The generated rooms of a split.

    rooms: how many; None for `ROOMS`.

    Raises:
        ValueError: an unknown split, a number below 1, or settings that no room satisfies.
    """

    settings: Settings
    split: str
    rooms: int | None = None

    def __post_init__(self) -> None:
        one_of("split", self.split, tuple(SHARES))
        if self.rooms is not None and self.rooms < 1:
            raise ValueError(f"rooms, the number of tasks, must be at least 1, got {self.rooms}")
        self.load(self.panel.task_ids[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the largest room."""
        return self.settings.height, self.settings.width

    @cached_property
    def panel(self) -> Panel:
        """Ids "<height>x<width>-<boxes>/<shortest>-<longest solution>/<split>/<number>"."""
        height, width, boxes, least, most = astuple(self.settings)
        prefix = f"{height}x{width}-{boxes}/{least}-{most}/{self.split}"
        count = self.rooms or ROOMS[self.split]
        return Panel(self.split, tuple(f"{prefix}/{number:04}" for number in range(count)))

    def load(self, task_id: str) -> Room:
        """The room of a task.

        Raises:
            ValueError: too few rooms satisfy the settings.
        """
        shares, number = SHARES[self.split], int(task_id.rpartition("/")[2])
        position, share = divmod(number, len(shares))
        return _open_shelves(self.settings).room(shares[share], position)


def find_twentieth(kinds: bytes, width: int) -> int:
    """The twentieth, 0 to 19, of walls and targets; the same for all symmetric copies."""
    digest = blake2b(normalize_board(kinds, width), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SHELVES


def find_split(room: Room) -> str:
    """The split that a room, generated or from a file, belongs to."""
    share = find_twentieth(room.bare, room.width)
    return next(split for split, shares in SHARES.items() if share in shares)


class Shelves:
    """The rooms of some settings, a shelf for each twentieth, in the order of their plans."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._drafts = 0
        self._waiting: list[deque[int]] = [deque() for _ in range(SHELVES)]
        self._rooms: list[list[Room]] = [[] for _ in range(SHELVES)]
        self._known: list[set[bytes]] = [set() for _ in range(SHELVES)]

    def room(self, share: int, position: int) -> Room:
        """The room at a position of a shelf.

        Raises:
            ValueError: `DRAFTS` plans gave no further room for it.
        """
        while len(self._rooms[share]) <= position:
            self._add_room(share)
        return self._rooms[share][position]

    def _add_room(self, share: int) -> None:
        """Add one more room to a shelf."""
        failed, last, waiting = Counter[str](), self._drafts + DRAFTS, self._waiting[share]
        while waiting or self._drafts < last:
            if not waiting:
                self._sort_plan()
                continue
            why = self._place_room(share, waiting.popleft())
            if not why:
                return
            failed[why] += 1
        reasons = ", ".join(f"{times} times {why}" for why, times in failed.most_common())
        raise ValueError(
            f"no room for {self.settings} in {failed.total()} tries: {reasons or 'too small'}"
        )

    def _sort_plan(self) -> None:
        """Add the number of the next plan to its shelf."""
        settings, number = self.settings, self._drafts
        plan = draft_plan(self._seed_generator(number), settings)
        kinds = encode_bare(settings.height * settings.width, *plan)
        self._waiting[find_twentieth(kinds, settings.width)].append(number)
        self._drafts += 1

    def _place_room(self, share: int, number: int) -> str:
        """Add the room of a plan to its shelf, or return why not."""
        rng = self._seed_generator(number)
        room = furnish_plan(rng, self.settings, draft_plan(rng, self.settings))
        if isinstance(room, str):
            return room
        form = normalize_board(room.encode_state(room.start), room.width)
        if form in self._known[share]:
            return "the room was there already"
        self._known[share].add(form)
        self._rooms[share].append(room)
        return ""

    def _seed_generator(self, number: int) -> np.random.Generator:
        return np.random.default_rng((*astuple(self.settings), number))


_open_shelves = lru_cache(maxsize=16)(Shelves)
