"""The tasks of the small world: families and seeds, and the splits that they make."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.appworld.families import FAMILIES, Family
from agent_envs.appworld.people import Draft, Household
from agent_envs.panels import one_of

if TYPE_CHECKING:
    from agent_envs.appworld.families.plan import Plan

UNSEEN = (
    "archive_newsletters",
    "birthday_money",
    "longest_of_a_genre",
    "playlist_from_a_note",
    "prepare_a_trip",
    "update_a_phone_number",
)
"""Families of which no task is in `train`, `val` or `test`."""
SEEDS = {"train": range(12), "val": range(12, 16), "test": range(16, 20), "test_unseen": range(20)}
SPLITS = (*SEEDS, "train_easy", "all")
HARD = 3  # the difficulty that "train_easy" leaves out of "train", as LOOP and MGR do


class Task(NamedTuple):
    """A task with its world at the opening; nothing in it changes."""

    family: Family
    plan: Plan
    instruction: str
    household: Household


def task_ids(split: str) -> tuple[str, ...]:
    """The ids of a split, `<family>-<seed>`.

    Raises:
        ValueError: No such split.
    """
    one_of("split", split, SPLITS)
    if split == "all":
        return tuple(_id(name, seed) for name in FAMILIES for seed in range(20))
    chosen = [name for name in FAMILIES if (name in UNSEEN) == (split == "test_unseen")]
    if split == "train_easy":
        chosen, split = [name for name in chosen if FAMILIES[name].difficulty < HARD], "train"
    return tuple(_id(name, seed) for name in chosen for seed in SEEDS[split])


def family_of(task_id: str) -> str:
    """The family's name in a task id."""
    return task_id.rpartition("-")[0]


@lru_cache(maxsize=256)
def task(task_id: str) -> Task:
    """The task of an id, the same everywhere.

    Raises:
        ValueError: No such task.
    """
    one_of("task", task_id, task_ids("all"))
    rng = Random(task_id)
    family = FAMILIES[family_of(task_id)]
    draft = Draft(rng)
    plan = family.plan(draft)
    instruction = rng.choice(plan.requests).format(**plan.given)
    return Task(family, plan, instruction, draft.household())


def _id(name: str, seed: int) -> str:
    return f"{name}-{seed}"
