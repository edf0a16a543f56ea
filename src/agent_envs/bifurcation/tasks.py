"""The tasks of Bifurcation: rooms with doors, in one of which hangs the bell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agent_envs.panels import Panel, one_of

KINDS = {
    "decisive": "A wrong door ends the walk at once.",
    "delayed": "The bell is in the first room; the last door shows whether it was right.",
    "distractors": "As decisive, in six rooms; the other doors bring news without any effect.",
    "early": "The walk can be left in every room, which succeeds after the right door.",
    "reversible": "A wrong door leads to a side room, from which one can go back.",
    "irreversible": "After a wrong door the walk goes on, but cannot succeed any more.",
}
COLOURS = ("red", "blue", "green", "white", "black", "yellow")
NEWS = ("You find a coin.", "Music plays.", "A lamp goes out.", "A bird flies up.", "It gets warm.")
DOORS = 3
EACH = 40  # tasks of a kind
SPLITS = {"train": range(30), "test": range(30, EACH), "all": range(EACH)}


class Task(NamedTuple):
    """A walk.

    kind: a key of `KINDS`.
    doors: the colours of the doors of each room.
    bell: the number of the room with the bell, from 0.
    right: the colour of the right door there.
    news: what each door brings, for each room; only in the kind "distractors".
    """

    kind: str
    doors: tuple[tuple[str, ...], ...]
    bell: int
    right: str
    news: tuple[tuple[str, ...], ...]


def task_of(task_id: str) -> Task:
    """The task of an id such as "delayed-07"; the id seeds all of its draws."""
    kind, number = task_id.rsplit("-", 1)
    rng = np.random.default_rng([[*KINDS].index(kind), int(number)])
    rooms = 6 if kind == "distractors" else int(rng.integers(3, 7))
    goes_on = kind in {"early", "irreversible"}  # after the bell
    bell = 0 if kind == "delayed" else int(rng.integers(rooms - goes_on))
    doors = tuple(tuple(rng.permutation(COLOURS)[:DOORS].tolist()) for _ in range(rooms))
    news = tuple(tuple(rng.permutation(NEWS)[:DOORS].tolist()) for _ in range(rooms))
    right = doors[bell][int(rng.integers(DOORS))]
    return Task(kind, doors, bell, right, news if kind == "distractors" else ())


def open_panel(split: str, kind: str | None) -> Panel:
    """The tasks of a split: of one kind, or of all kinds in turn.

    Raises:
        ValueError: no such split or kind.
    """
    one_of("split", split, tuple(SPLITS))
    if kind is not None:
        one_of("kind", kind, tuple(KINDS))
    kinds = KINDS if kind is None else (kind,)
    return Panel(split, tuple(f"{one}-{number:02}" for number in SPLITS[split] for one in kinds))
