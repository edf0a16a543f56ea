"""The families of generated scenes, the splits of their tasks and the scene of each task."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from agent_envs.panels import Panel, one_of
from agent_envs.sotopia.amounts import draw_bargain, draw_donation
from agent_envs.sotopia.division import draw_division
from agent_envs.sotopia.favour import draw_favour
from agent_envs.sotopia.friends import draw_strangers
from agent_envs.sotopia.schedule import draw_schedule

if TYPE_CHECKING:
    from agent_envs.sotopia.scene import Scene

FAMILIES = {
    "bargain": draw_bargain,
    "divide": draw_division,
    "donation": draw_donation,
    "favour": draw_favour,
    "friend": draw_strangers,
    "schedule": draw_schedule,
}
TEMPERS = ("stubborn", "generous", "impatient", "fair")
SUBJECTS = 20
"""How many subjects a family has: goods, causes, occasions."""
VARIANTS = 16
"""Number of scenes per subject: each temper, wide and tight, twice."""
_SPLITS = {"train": range(14), "val": range(14, 17), "test": range(17, 20)}
"""The subjects of each split."""
SPLITS = (*_SPLITS, "hard", "all")
_DIFFICULT = ("stubborn", "impatient")


def open_panel(split: str, family: str) -> Panel:
    """The tasks `family-number-side` of a split, ordered by number and then by family.

    `hard` are the tight scenes of `test` with a stubborn or an impatient partner.

    Raises:
        ValueError: no such split or family.
    """
    one_of("split", split, SPLITS)
    one_of("family", family, ("all", *FAMILIES))
    families = FAMILIES if family == "all" else (family,)
    tasks = (
        (name, number, side)
        for number in range(SUBJECTS * VARIANTS)
        for side in (0, 1)
        for name in families
        if _is_in_split(split, number, side)
    )
    return Panel(split, tuple(f"{name}-{number:03}-{side}" for name, number, side in tasks))


def _is_in_split(split: str, number: int, side: int) -> bool:
    subjects = _SPLITS.get("test" if split == "hard" else split, range(SUBJECTS))
    difficult = _is_tight(number) and _choose_temper(number, 1 - side) in _DIFFICULT
    return number % SUBJECTS in subjects and (split != "hard" or difficult)


def _is_tight(number: int) -> bool:
    return number // SUBJECTS // len(TEMPERS) % 2 == 1


def _choose_temper(number: int, side: int) -> str:
    return TEMPERS[(number // SUBJECTS + side) % len(TEMPERS)]


@lru_cache(maxsize=8192)
def draw_scene(family: str, number: int) -> Scene:
    """The scene of a number, drawn by a generator that is seeded with the number."""
    tempers = _choose_temper(number, 0), _choose_temper(number, 1)
    rng = Random(f"{family} {number}")
    return FAMILIES[family](number % SUBJECTS, _is_tight(number), tempers, rng)
