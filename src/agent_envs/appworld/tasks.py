"""The tasks of the small world: families and seeds, and the splits made of them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.appworld.families import FAMILIES, Family
from agent_envs.appworld.people import SCENARIOS, TRAIN_SEEDS, Draft, Household
from agent_envs.appworld.reading import Quantity, Title
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
"""Families without tasks in `train`, `val` and `test`."""
SEEDS = {
    "train": range(TRAIN_SEEDS),
    "val": range(12, 16),
    "test": range(16, 20),
    "test_unseen": range(20),
}
_KEY = b"the small world"
_SEED = re.compile(r"0|[1-9][0-9]{0,8}")
SPLITS = (*SEEDS, "train_easy", "all")
HARD = 3  # the difficulty that "train_easy" omits from "train", as in LOOP and MGR


class Task(NamedTuple):
    """A task with its world at the start; immutable."""

    family: Family
    plan: Plan
    instruction: str
    household: Household


def list_tasks(split: str, train_seeds: int = TRAIN_SEEDS) -> tuple[str, ...]:
    """The ids of a split, `<family>-<seed>`.

    Args:
        split: One of `SPLITS`.
        train_seeds: Number of training tasks of each family: seeds 0-11, then from 20 on.

    Raises:
        ValueError: An unknown split, or no seeds.
    """
    one_of("split", split, SPLITS)
    if train_seeds < 1:
        raise ValueError(f"train_seeds must be at least 1, got {train_seeds}")
    if split == "all":
        return tuple(f"{name}-{seed}" for name in FAMILIES for seed in range(SCENARIOS))
    chosen = [name for name in FAMILIES if (name in UNSEEN) == (split == "test_unseen")]
    if split == "train_easy":
        chosen, split = [name for name in chosen if FAMILIES[name].difficulty < HARD], "train"
    seeds = SEEDS[split]
    if split == "train":
        more = range(SCENARIOS, SCENARIOS + max(0, train_seeds - len(seeds)))
        return tuple(f"{name}-{seed}" for name in chosen for seed in (*seeds[:train_seeds], *more))
    return tuple(f"{name}-{seed}" for name in chosen for seed in seeds)


def family_of(task_id: str) -> str:
    """The name of the family in a task id."""
    return task_id.rpartition("-")[0]


@lru_cache(maxsize=256)
def make_task(task_id: str) -> Task:
    """The task with that id, the same on every machine.

    Raises:
        ValueError: An unknown task.
    """
    name, seed = family_of(task_id), task_id.rpartition("-")[2]
    if name not in FAMILIES or not _SEED.fullmatch(seed):
        one_of("task", task_id, list_tasks("all"))
    # Not Random(task_id), since an agent could try all ids until the clock fits.
    rng = Random(blake2b(task_id.encode(), key=_KEY, digest_size=16).digest())
    family = FAMILIES[name]
    draft = Draft(rng, int(seed))
    plan = family.plan(draft)
    instruction = rng.choice(family.texts.requests).format(**plan.given)
    if isinstance(plan.answer, (Quantity, Title)):
        plan = replace(plan, answer=plan.answer._replace(asked=instruction))
    return Task(family, plan, instruction, draft.finish())
