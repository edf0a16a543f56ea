"""Generated rooms as tasks: fixed numbers, no duplicates, no shared walls and targets of splits.

Rooms are generated on demand and cached by the process. The room of a number depends only on the
settings, not on the rooms that were generated before.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np

from agent_envs.panels import Panel, one_of
from agent_envs.sokoban.board import Room, bare, folded
from agent_envs.sokoban.generate import Settings, draft, furnish, nothing_found

SHELVES = 20
SHARES = {"train": range(4, 20), "val": range(2, 4), "test": range(2)}
"""The twentieths of all rooms, by a digest of walls and targets, that belong to each split."""

ROOMS = {"train": 1000, "val": 100, "test": 100}
DRAFTS = 20_000
"""Room plans that are tried for one more room of a twentieth."""


@dataclass(frozen=True)
class Made:
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
        return _shelves(self.settings).room(shares[share], position)


def twentieth(kinds: bytes, width: int) -> int:
    """The twentieth, 0 to 19, of walls and targets; the same for all symmetric copies."""
    digest = blake2b(folded(kinds, width), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SHELVES


def split_of(room: Room) -> str:
    """The split that a room, generated or from a file, belongs to."""
    share = twentieth(room.bare, room.width)
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
            self._add(share)
        return self._rooms[share][position]

    def _add(self, share: int) -> None:
        """Add one more room to a shelf."""
        failed, last, waiting = Counter[str](), self._drafts + DRAFTS, self._waiting[share]
        while waiting or self._drafts < last:
            if not waiting:
                self._sort_in()
                continue
            why = self._place(share, waiting.popleft())
            if not why:
                return
            failed[why] += 1
        raise ValueError(nothing_found(failed, self.settings))

    def _sort_in(self) -> None:
        """Add the number of the next plan to its shelf."""
        settings, number = self.settings, self._drafts
        plan = draft(self._generator(number), settings)
        kinds = bare(settings.height * settings.width, *plan)
        self._waiting[twentieth(kinds, settings.width)].append(number)
        self._drafts += 1

    def _place(self, share: int, number: int) -> str:
        """Add the room of a plan to its shelf, or return why not."""
        rng = self._generator(number)
        room = furnish(rng, self.settings, draft(rng, self.settings))
        if isinstance(room, str):
            return room
        form = folded(room.kinds(room.start), room.width)
        if form in self._known[share]:
            return "the room was there already"
        self._known[share].add(form)
        self._rooms[share].append(room)
        return ""

    def _generator(self, number: int) -> np.random.Generator:
        return np.random.default_rng((*astuple(self.settings), number))


@lru_cache(maxsize=16)
def _shelves(settings: Settings) -> Shelves:
    return Shelves(settings)
