"""The embedded catalogue: generated products in the public data's format, with requests for some.

A requested product has rivals on the same shelf: a twin that lacks one of the wanted attributes,
and one that costs more than any price limit of the requests. Everything comes from one seed.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from agent_envs.assets import table

COUNT = 1000
SEED = 20
_ABOVE = 41  # a price so many dollars higher is above every limit drawn for a product
_ID = "0123456789ABCDEFGHJKLMNPQRSTVWXYZ"
_SYLLABLES = "al bar cor dan el fen gal har il jor kel lum mar nor pel quin ros tal ver wen xan zel"
_PRAISE = (
    "Built to be {}.",
    "People like that it is {}.",
    "For those who want it {}.",
    "Tested every day: {}.",
)
_ASKS = ("find me {} that are {}", "i am looking for {}, {}", "i need {}, {}", "show me {}, {}")


class _Kind(NamedTuple):
    """A kind of product: its name, category, possible attributes and options."""

    name: str
    category: str
    levels: str
    attributes: tuple[str, ...]
    options: dict[str, list[str]]


class _Product(NamedTuple):
    """A product of a family: shared data, and the data that differs between rivals."""

    kind: _Kind
    brand: str
    attributes: list[str]
    options: dict[str, list[str]]
    price: float
    ends: float  # upper end of the price's range, 0 for a single price


def generate_products(
    count: int = COUNT, seed: int = SEED
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], dict[str, tuple[str, ...]]]:
    """`count` products as in `items_shuffle`, their records as in `items_ins_v2`, title nouns."""
    rng = Random(seed)
    kinds = _list_kinds()
    records: list[dict[str, Any]] = []
    known: dict[str, dict[str, Any]] = {}
    nouns: dict[str, tuple[str, ...]] = {}
    families = 0
    while len(records) < count:
        kind = kinds[families % len(kinds)]
        families += 1
        target, *rivals = _draw_family(kind, rng)
        for product in (target, *rivals)[: count - len(records)]:
            asin = _draw_id(rng, known)
            records.append(_write_record(product, asin, rng))
            known[asin] = {"attributes": product.attributes}
            if product is target:
                known[asin] |= _write_request(product, rng)
            nouns[asin] = (kind.name.split()[-1],)
    rng.shuffle(records)
    return records, known, nouns


def _list_kinds() -> list[_Kind]:
    kinds, content = [], table("webshop/departments.toml")
    for department in content["departments"]:
        for shelf in department["shelves"]:
            options = {department["style"]: content["choices"][department["style"]]}
            if "size" in shelf:
                options["size"] = content["choices"][shelf["size"]]
            kinds += [
                _Kind(
                    name,
                    department["category"],
                    f"{department['name']} › {shelf['name']} › {name.title()}",
                    tuple(department["attributes"]),
                    options,
                )
                for name in shelf["kinds"]
            ]
    return kinds


def _draw_family(kind: _Kind, rng: Random) -> list[_Product]:
    """A requested product, its twin, its expensive rival, and sometimes one of another brand."""
    syllables = _SYLLABLES.split()
    brands = ["".join(rng.sample(syllables, 2)).title() for _ in range(2)]
    options = {name: _draw_some(values, 2, 4, rng) for name, values in kind.options.items()}
    if len(options) > 1:
        options["size"] = options["size"][:3]
    attributes = _draw_some(kind.attributes, 3, 4, rng)
    price = rng.randrange(8, 120) + 0.99
    ends = price + rng.randrange(3, 9) if rng.random() < 1 / 5 else 0.0
    target = _Product(kind, brands[0], attributes, options, price, ends)
    spare = [a for a in kind.attributes if a not in attributes]
    twin = target._replace(attributes=[rng.choice(spare), *attributes[1:]])
    dear = target._replace(price=max(price, ends) + _ABOVE + rng.randrange(8), ends=0.0)
    family = [target, twin, dear]
    if rng.random() < 1 / 3:
        other = _draw_some(kind.attributes, 3, 4, rng)
        family.append(target._replace(brand=brands[1], attributes=other))
    return family


def _draw_some(values: Any, fewest: int, most: int, rng: Random) -> list[str]:
    """A random subset of the values, in their order."""
    chosen = set(rng.sample(list(values), rng.randint(fewest, min(most, len(values)))))
    return [value for value in values if value in chosen]


def _write_record(product: _Product, asin: str, rng: Random) -> dict[str, Any]:
    kind, attributes = product.kind, product.attributes
    low, high = product.price, product.ends
    options = {
        name.title(): [{"value": value, "image": None} for value in values]
        for name, values in product.options.items()
    }
    return {
        "asin": asin,
        "name": f"{product.brand} {kind.name.title()}, {attributes[-1].title()}",
        "full_description": f"{kind.name.capitalize()} from {product.brand}.",
        "small_description": [rng.choice(_PRAISE).format(a) for a in attributes],
        "pricing": f"${low:.2f} - ${high:.2f}" if high else f"${low:.2f}",
        "images": [],
        "product_category": kind.levels,
        "category": kind.category,
        "query": kind.name,
        "customization_options": options,
    }


def _write_request(product: _Product, rng: Random) -> dict[str, Any]:
    """A request for two attributes, including the one that the twin lacks."""
    wanted = [product.attributes[0], rng.choice(product.attributes[1:])]
    asked = rng.choice(_ASKS).format(product.kind.name, " and ".join(wanted))
    return {"instruction": asked, "instruction_attributes": wanted}


def _draw_id(rng: Random, taken: dict[str, Any]) -> str:
    while (asin := "B0" + "".join(rng.choices(_ID, k=8))) in taken:
        pass
    return asin
