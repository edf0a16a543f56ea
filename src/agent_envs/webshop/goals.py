"""Goals: the purchases that are requested, made from a catalogue as in the public WebShop."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent_envs.webshop.products import Product

KINDS = ("synthetic", "human")
LIMITS = tuple(10.0 * step for step in range(1, 100))  # dollars
NO_LIMIT = 1_000_000.0
_NEXT = 4  # a limit is drawn from so many limits above the price
_PAIR = 2
SHUFFLE_SEED = 233


@dataclass(frozen=True, slots=True)
class Goal:
    """A requested purchase.

    Attributes:
        task_id: Product and number of the goal for that product, "B000000000-3".
        product: Place of the target product.
        text: The instruction.
        attributes: The required attributes.
        options: (name, value) of each required option; the name is "" if only the value is
            required.
        price_upper: Price limit in dollars.
        unmet: The requirements that its own product does not satisfy; no split has such a goal.
        weight: Weight of the goal in the public WebShop's draws.
    """

    task_id: str
    product: int
    text: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    price_upper: float
    weight: float = 1.0
    unmet: tuple[str, ...] = ()


def draw_prices(products: Sequence[Product], rng: random.Random) -> list[float]:
    """The price of each product; for a range, a price drawn from it."""
    return [p.prices[0] if len(p.prices) == 1 else rng.uniform(*p.prices) for p in products]


def make_goals(
    products: Sequence[Product], prices: Sequence[float], kind: str, rng: random.Random
) -> list[Goal]:
    """All goals of a kind in the public order: made in catalogue order, shuffled with seed 233.

    `rng` draws the price limits and is the one that drew the prices.
    """
    of_kind = _synthetic if kind == "synthetic" else _human
    goals = [
        goal
        for place, (one, price) in enumerate(zip(products, prices, strict=True))
        for goal in of_kind(one, place, price, rng)
    ]
    if kind == "synthetic":
        goals = _weighted(goals)
    random.Random(SHUFFLE_SEED).shuffle(goals)
    return goals


def _synthetic(one: Product, place: int, price: float, rng: random.Random) -> Iterator[Goal]:
    """A goal for each choice of options, all with one price limit."""
    text, attributes = one.instruction
    if not text:
        return
    limit, clause = _limit(price, rng)
    names = sorted(one.options)
    for number, values in enumerate(combinations(*(one.options[name] for name in names))):
        options = tuple(zip(names, values, strict=True))
        asked = ", and ".join(f"{name}: {value}" for name, value in options)
        wanted = f"{text} with {asked}{clause}" if asked else f"{text}{clause}"
        yield Goal(f"{one.asin}-{number}", place, wanted, attributes, options, limit)


def _human(one: Product, place: int, price: float, rng: random.Random) -> Iterator[Goal]:
    """A goal for each request that asks for an attribute, each with a price limit."""
    for number, request in enumerate(one.requests):
        if request.attributes:
            limit, clause = _limit(price, rng)
            text = request.text.strip(".") + clause
            options = tuple(("", value) for value in request.options)
            yield Goal(f"{one.asin}-h{number}", place, text, request.attributes, options, limit)


def _limit(price: float, rng: random.Random) -> tuple[float, str]:
    """A limit above the price, and its text in the instruction."""
    above = [limit for limit in LIMITS if limit > price][:_NEXT]
    if len(above) < _PAIR:
        return NO_LIMIT, ""
    limit = max(rng.sample(above, _PAIR))
    return limit, f", and price lower than {limit:.2f} dollars"


def _weighted(goals: Sequence[Goal]) -> list[Goal]:
    """The goals with weights: mean over their attributes of 1 / (goals with the attribute)."""
    count: dict[str, int] = {}
    for goal in goals:
        for attribute in goal.attributes:
            count[attribute] = count.get(attribute, 0) + 1
    return [
        replace(goal, weight=sum(1 / count[a] for a in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]
