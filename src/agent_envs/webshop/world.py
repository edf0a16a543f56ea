"""Catalogues invented by seed: families of products that differ in facts, and requests for one.

Truth is in the facts. Pages and requests are rendered from them with the words of `world.toml` and
never read back. Splits share no kind of product, brand, wording or sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product as combine
from random import Random
from typing import Any, NamedTuple

from agent_envs.assets import table
from agent_envs.webshop.catalogue import Product
from agent_envs.webshop.goals import Goal, Wish
from agent_envs.webshop.search import Index

SPLITS = {"train": 2048, "val": 256, "test": 512}
"""How many requests each split has."""
PRODUCTS = {"train": 1024, "val": 256, "test": 512}
"""How many of its products are requested."""
SEED = 2026
NUMERIC = 0.5
"""Share of families whose members differ in a number, too."""
_MARGIN = 3  # values on either side of a bound, at least
_SPREAD = 10  # dollars between the prices of a family and its limit
_CLOSEST = 4  # members of a family to one that costs too much


class Property(NamedTuple):
    """What products of a department can differ in: two sides, or numbers about a bound.

    asks: The wordings in requests: that it holds, that it does not. says: Those on pages.
    range: The least and the largest number; () without numbers.
    """

    name: str
    asks: tuple[str, str]
    says: tuple[list[str], list[str]]
    range: tuple[int, ...] = ()

    def say(self, bound: int, rng: Random, *, holds: bool) -> str:
        """A wording on pages; its number is drawn from that side of the bound."""
        number = 0
        if self.range:
            low, high = self.range
            number = rng.randint(bound, high) if holds else rng.randint(low, bound - 1)
        return rng.choice(self.says[not holds]).format(N=number)


class Family(NamedTuple):
    """Products of a kind and brand with all combinations of some properties.

    properties: Those that differ, then one that is not asked for. bounds: By property.
    limit: Dollars, above the price of every member but the dear ones.
    """

    kind: str
    brand: str
    properties: list[Property]
    bounds: dict[str, int]
    options: dict[str, tuple[str, ...]]
    base: int

    @property
    def limit(self) -> int:
        """The price in dollars below which all members are but the dear ones."""
        return self.base + _SPREAD


class World:
    """The catalogue of a split, with its requests.

    Attributes:
        products: All products, in random order.
        facts: Of each product, what holds by property.
        families: Of each product, its family.
        goals: The requests.
        search: `search(query)` returns the places of at most 50 products, best first, by titles
            and options.
    """

    def __init__(self, split: str, requirements: int, seed: int = SEED) -> None:
        words, self.part = table("webshop/world.toml"), list(SPLITS).index(split)
        self.key = split, requirements, seed
        self.requests = {name: lists[self.part] for name, lists in words["requests"].items()}
        self.sentences: list[str] = words["pages"]["says"][self.part]
        rng = Random(f"{seed} {split} {requirements}")
        ids = iter(rng.sample(range(10**6), 2 * PRODUCTS[split]))
        made = [
            (family, dear, *self._make_product(f"B{next(ids):06}", family, holds, rng, dear=dear))
            for family in self._draw_families(words, rng)
            for holds, dear in _list_members(requirements, rng)
        ]
        rng.shuffle(made)
        self.families = [family for family, *_ in made]
        self.products = [product for _, _, product, _ in made]
        self.facts = [facts for *_, facts in made]
        self.place = {one.asin.lower(): at for at, one in enumerate(self.products)}
        self.search = Index(map(_write_document, self.products), [*self.place]).search
        wanted = [place for place, (_, dear, *_) in enumerate(made) if not dear]
        rng.shuffle(wanted)
        self.goals = [
            self._write_goal(f"{split}-{requirements}-{at}", wanted[at % len(wanted)], rng)
            for at in range(SPLITS[split])
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_world, self.key

    def _draw_families(self, words: dict[str, Any], rng: Random) -> Iterator[Family]:
        """The families, each of another kind or brand."""
        split, requirements, _ = self.key
        kinds = [(one, kind) for one in words["departments"] for kind in one["kinds"][self.part]]
        rng.shuffle(kinds)
        brands = words["brands"][self.part]
        for number in range(PRODUCTS[split] >> requirements):
            shelf, turn = number % len(kinds), number // len(kinds)
            of, kind = kinds[shelf]
            sides = [self._read_property(name, one) for name, one in of["sides"].items()]
            numbers = [self._read_property(name, one) for name, one in of["numbers"].items()]
            rng.shuffle(sides)
            rng.shuffle(numbers)
            if rng.random() < NUMERIC:
                sides.insert(0, numbers.pop())
            differing, spare = sides[:requirements], [*sides[requirements:], *numbers]
            properties = [*differing, rng.choice(spare)]
            yield Family(
                kind,
                brands[(shelf + turn) % len(brands)],
                properties,
                {
                    one.name: rng.randint(one.range[0] + _MARGIN, one.range[1] - _MARGIN)
                    for one in properties
                    if one.range
                },
                {name: _draw_three(values, rng) for name, values in of["options"].items()},
                rng.randrange(12, 90),
            )

    def _read_property(self, name: str, of: dict[str, Any]) -> Property:
        if "range" in of:
            least, most, *says = of["says"][self.part]
            return Property(name, (least, most), (says, says), tuple(of["range"]))
        yes, no = of["yes"][self.part], of["no"][self.part]
        return Property(name, (yes[0], no[0]), (yes[1:], no[1:]))

    def _make_product(
        self, asin: str, family: Family, holds: tuple[bool, ...], rng: Random, *, dear: bool
    ) -> tuple[Product, dict[str, bool]]:
        """A member of a family, and its facts."""
        facts = {
            one.name: held
            for one, held in zip(family.properties, [*holds, rng.random() < 1 / 2], strict=True)
        }
        said = []
        for one in family.properties:
            bound, held = family.bounds.get(one.name, 0), facts[one.name]
            yes, no = one.say(bound, rng, holds=held), one.say(bound, rng, holds=not held)
            said.append(rng.choice(self.sentences).format(yes=yes, no=no))
        rng.shuffle(said)
        half = len(said) // 2
        price = rng.randrange(_SPREAD) + (family.limit if dear else family.base)
        return Product(
            asin=asin,
            title=f"{family.brand} {family.kind}",
            description="\n".join(said[:half]),
            bullets=tuple(said[half:]),
            price_tag=f"${price}",
            prices=(float(price),),
            options=family.options,
        ), facts

    def _write_goal(self, task_id: str, place: int, rng: Random) -> Goal:
        """A request for a product."""
        family, facts, frames = self.families[place], self.facts[place], self.requests
        options = tuple((name, rng.choice(values)) for name, values in family.options.items())
        wishes = [(one, facts[one.name]) for one in family.properties[:-1]]
        rng.shuffle(wishes)
        texts = [
            rng.choice(frames["opening"]).format(
                kind=family.kind,
                brand=family.brand,
                options=" and ".join(f"{name} {value}" for name, value in options),
                limit=family.limit,
            )
        ]
        for one, holds in wishes:
            wanted = rng.random() < 1 / 2
            asked = one.asks[holds != wanted].format(N=family.bounds.get(one.name))
            frame = rng.choice(frames["want" if wanted else "refusal"])
            texts.append(frame.format(ask=asked))
        return Goal(
            task_id=task_id,
            product=place,
            text=" ".join(texts),
            attributes=(),
            options=options,
            price_upper=float(family.limit),
            wishes=tuple(Wish(one.name, holds) for one, holds in wishes),
        )


def _list_members(requirements: int, rng: Random) -> Iterator[tuple[tuple[bool, ...], bool]]:
    """What holds of each member, and whether it is dear: all combinations, some also dear."""
    every = list(combine((False, True), repeat=requirements))
    yield from ((holds, False) for holds in every)
    yield from ((holds, True) for holds in rng.sample(every, -(-len(every) // _CLOSEST)))


def _write_document(product: Product) -> str:
    """The text that is searched: title and options, but nothing that only pages tell."""
    return " ".join([product.title, *(value for of in product.options.values() for value in of)])


def _draw_three(values: list[str], rng: Random) -> tuple[str, ...]:
    """Three of the values, in their order."""
    chosen = set(rng.sample(values, 3))
    return tuple(value for value in values if value in chosen)


@lru_cache(maxsize=8)
def open_world(split: str, requirements: int, seed: int = SEED) -> World:
    """The catalogue of a split, made once."""
    return World(split, requirements, seed)
