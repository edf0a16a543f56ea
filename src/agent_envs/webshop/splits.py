"""Splits: the goals of a shop for training and for evaluation, by several conventions."""

from __future__ import annotations

import json
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

from agent_envs.assets import BadAsset, MissingAsset
from agent_envs.panels import Panel, nearest, source_of

if TYPE_CHECKING:
    from pathlib import Path

    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.shop import Shop

_TEST, _VAL = 500, 1500  # ends of the paper's test and validation goals
_EMBEDDED = {"test": range(1), "val": range(1, 2), "train": range(2, 10)}  # tenths of the products
_RANGES = {
    "test": slice(0, _TEST),
    "val": slice(_TEST, _VAL),
    "train": slice(_VAL, None),
    "verl_test": slice(0, _TEST),
    "verl_train": slice(_TEST, None),
}
_RAGEN = {f"ragen_{split}": _RANGES[split] for split in ("test", "val", "train")}
_RAGEN_SEED = 42
_ETO = ("eto_train", "eto_test")


def open_panel(shop: Shop, split: str) -> Panel:
    """The goals of a split, in the order of the shop's goals.

    Raises:
        ValueError: No such split, or no goals in it.
        MissingAsset: The folder lacks ETO's list.
    """
    folder = shop.catalogue.folder
    names = ("all", *_EMBEDDED) if folder is None else ("all", *_RANGES, *_RAGEN, *_ETO)
    if split not in names:
        raise ValueError(f"unknown split {split!r}{nearest(str(split), names)}; known: {names}")
    goals = list(shop.goals.values())
    named = _chosen(split, goals, folder)
    chosen = [goal for goal in named if not goal.unmet]
    if not named:
        raise ValueError(
            f"split {split!r} has no goals: there are {len(goals)} goals in all; use split='all'"
        )
    if not chosen:
        raise ValueError(
            f"all {len(named)} goals of split {split!r} are not satisfied by their own product; "
            f"mode='upstream' has such goals"
        )
    source = source_of("webshop", folder) if folder else "embedded"
    return Panel(split, tuple(goal.task_id for goal in chosen), source)


def _chosen(split: str, goals: list[Goal], folder: Path | None) -> list[Goal]:
    if split == "all":
        return goals
    if folder is None:
        return [goal for goal in goals if _tenth(goal) in _EMBEDDED[split]]
    if split in _ETO:
        return _listed(folder / f"{split}_indices.json", goals)
    if split in _RAGEN:
        order = list(range(len(goals)))
        Random(_RAGEN_SEED).shuffle(order)
        return [goals[place] for place in order[_RAGEN[split]]]
    return goals[_RANGES[split]]


def _tenth(goal: Goal) -> int:
    """The tenth of all products that the goal's product is in, by a digest of its id."""
    asin, _, _ = goal.task_id.rpartition("-")
    return blake2b(asin.encode(), digest_size=4).digest()[0] % 10


def _listed(path: Path, goals: list[Goal]) -> list[Goal]:
    """The goals at the places in a file, each once: ETO's own list has one twice."""
    try:
        places = json.loads(path.read_text())
    except FileNotFoundError:
        raise MissingAsset(f"no file {path}; put ETO's list of goals there") from None
    except ValueError as error:
        raise BadAsset(f"{path} is no JSON: {error}") from error
    if not isinstance(places, list):
        raise BadAsset(f"{path}: a list of places is needed, got {places!r:.60}")
    wrong = [p for p in places if type(p) is not int or not 0 <= p < len(goals)]
    if wrong:
        raise BadAsset(f"{path}: places in 0..{len(goals) - 1} are needed, got {wrong[0]!r}")
    return [goals[place] for place in dict.fromkeys(places)]
