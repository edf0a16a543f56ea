"""Goals: the purchases that are requested; the public ones, made as published, and their splits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.assets import BadAsset, read_json
from agent_envs.panels import Panel, one_of, source_of
from agent_envs.webshop.catalogue import expect

if TYPE_CHECKING:
    from agent_envs.webshop.catalogue import Product

KINDS = ("synthetic", "human")
LIMITS = tuple(10.0 * step for step in range(1, 100))  # dollars
NO_LIMIT = 1_000_000.0
_NEXT = 4  # a limit is drawn from so many limits above the price
_PAIR = 2
SHUFFLE_SEED = 233
_TEST, _VAL = 500, 1500  # ends of the paper's test and validation goals
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


class Wish(NamedTuple):
    """Whether a property of a generated product is to hold."""

    name: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Goal:
    """A requested purchase.

    Attributes:
        task_id: Of public goals, product and number of the goal for that product, "B000000000-3".
        product: Place of the target product.
        text: The instruction.
        attributes: The required attributes.
        options: (name, value) of each required option; the name is "" if only the value is
            required.
        price_upper: Price limit in dollars.
        wishes: Of generated goals, what is required in the place of attributes.
    """

    task_id: str
    product: int
    text: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    price_upper: float
    wishes: tuple[Wish, ...] = ()


def draw_prices(products: Sequence[Product], rng: random.Random) -> list[float]:
    """The price of each product; for a range, a price drawn from it."""
    return [p.prices[0] if len(p.prices) == 1 else rng.uniform(*p.prices) for p in products]


def make_goals(
    products: Sequence[Product], prices: Sequence[float], kind: str, rng: random.Random
) -> list[Goal]:
    """All goals of a kind in the public order: made in catalogue order, shuffled with seed 233.

    `rng` draws the price limits and is the one that drew the prices.
    """
    make = _make_synthetic if kind == "synthetic" else _make_human
    goals = [
        goal
        for place, (one, price) in enumerate(zip(products, prices, strict=True))
        for goal in make(one, place, price, rng)
    ]
    random.Random(SHUFFLE_SEED).shuffle(goals)
    return goals


def _make_synthetic(one: Product, place: int, price: float, rng: random.Random) -> Iterator[Goal]:
    """A goal for each choice of options, all with one price limit."""
    text, attributes = one.instruction
    if not text:
        return
    limit, clause = _draw_limit(price, rng)
    names = sorted(one.options)
    for number, values in enumerate(combinations(*(one.options[name] for name in names))):
        options = tuple(zip(names, values, strict=True))
        asked = ", and ".join(f"{name}: {value}" for name, value in options)
        wanted = f"{text} with {asked}{clause}" if asked else f"{text}{clause}"
        yield Goal(f"{one.asin}-{number}", place, wanted, attributes, options, limit)


def _make_human(one: Product, place: int, price: float, rng: random.Random) -> Iterator[Goal]:
    """A goal for each request that asks for an attribute, each with a price limit."""
    for number, request in enumerate(one.requests):
        if request.attributes:
            limit, clause = _draw_limit(price, rng)
            text = request.text.strip(".") + clause
            options = tuple(("", value) for value in request.options)
            yield Goal(f"{one.asin}-h{number}", place, text, request.attributes, options, limit)


def _draw_limit(price: float, rng: random.Random) -> tuple[float, str]:
    """A limit above the price, and its text in the instruction."""
    above = [limit for limit in LIMITS if limit > price][:_NEXT]
    if len(above) < _PAIR:
        return NO_LIMIT, ""
    limit = max(rng.sample(above, _PAIR))
    return limit, f", and price lower than {limit:.2f} dollars"


def open_panel(goals: list[Goal], folder: Path, split: str) -> Panel:
    """The public goals of a split, in their order.

    Raises:
        ValueError: No such split, or no goals in it.
        MissingAsset: The folder lacks ETO's list.
    """
    one_of("split", split, ("all", *_RANGES, *_RAGEN, *_ETO))
    chosen = _choose_goals(split, goals, folder)
    if not chosen:
        remedy = "use split='all'" if goals else "no product of the folder has an instruction"
        raise ValueError(
            f"split {split!r} has no goals: there are {len(goals)} goals in all; {remedy}"
        )
    return Panel(split, tuple(goal.task_id for goal in chosen), source_of("webshop", folder))


def _choose_goals(split: str, goals: list[Goal], folder: Path) -> list[Goal]:
    if split == "all":
        return goals
    if split in _ETO:
        return _read_list(folder / f"{split}_indices.json", goals)
    if split in _RAGEN:
        order = list(range(len(goals)))
        random.Random(_RAGEN_SEED).shuffle(order)
        return [goals[place] for place in order[_RAGEN[split]]]
    return goals[_RANGES[split]]


def _read_list(path: Path, goals: list[Goal]) -> list[Goal]:
    """The goals at the places in a file, each once: ETO's own list has one twice."""
    places = expect(list, read_json(path), f"{path}: a list of places")
    wrong = [p for p in places if type(p) is not int or not 0 <= p < len(goals)]
    if wrong:
        raise BadAsset(f"{path}: places in 0..{len(goals) - 1} are needed, got {wrong[0]!r}")
    return [goals[place] for place in dict.fromkeys(places)]
