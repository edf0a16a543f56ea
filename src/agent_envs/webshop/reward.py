"""The score of a purchase in [0, 1]; and the public WebShop's matching of texts, as published."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agent_envs.webshop.catalogue import Product
    from agent_envs.webshop.goals import Goal

SIMILAR = 85  # a token set ratio above this is a match
_COLORS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac
copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite
grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light
lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard natural
navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet
walnut wheat white wine yellow
"""
COLORS = tuple(_COLORS.split())

_SAME_TYPE = 0.2  # title scores above this mean the same type
_OTHER_TYPE = 0.1  # title scores below this mean a very different type
_UNLIKE = 0.5
_SHARED_LEVELS = 2


class Score(NamedTuple):
    """Score of a purchase and its parts; `total` = share of matches times `type`.

    Attributes:
        total: In [0, 1].
        type: 1 for the goal's type of product, less for another.
        attributes, options: Satisfied shares of the goal's; options is 1 if the goal has none.
        price: Whether the price is within the goal's limit.
    """

    total: float
    type: float
    attributes: float
    options: float
    price: float


class Match(NamedTuple):
    """How far a product satisfies a goal, without options."""

    type: float
    attributes: int
    price: bool


def make_score(
    kind: float, attributes: tuple[int, int], options: tuple[int, int], *, price: bool
) -> Score:
    """The score of a purchase, from satisfied and required numbers of attributes and options."""
    right = attributes[0] + options[0] + price
    return Score(
        total=right / (attributes[1] + options[1] + 1) * kind,
        type=kind,
        attributes=attributes[0] / attributes[1] if attributes[1] else 1.0,
        options=options[0] / options[1] if options[1] else 1.0,
        price=float(price),
    )


def match_product(
    goal: Goal, target: Product, bought: Product, nouns: Sequence[Sequence[str]], price: float
) -> Match:
    """How far `bought` at a price satisfies a goal made for `target`, as in the public WebShop.

    nouns: the nouns of both titles.
    """
    return Match(
        score_type(target, bought, *nouns),
        sum(has_attribute(bought, attribute) for attribute in goal.attributes),
        price <= goal.price_upper,
    )


def score_type(
    target: Product, bought: Product, wanted: Sequence[str], found: Sequence[str]
) -> float:
    """The type score of the bought product, given the nouns of the target's and its title."""
    title = len(set(wanted) & set(found)) / len(wanted) if wanted else _SAME_TYPE
    if title == 0:
        return 0.0
    if title < _OTHER_TYPE:
        return _OTHER_TYPE
    levels = [{part.strip() for part in p.product_category.split("›")} for p in (target, bought)]
    same = target.query == bought.query or len(levels[0] & levels[1]) >= _SHARED_LEVELS
    return 1.0 if same or title > _SAME_TYPE else _UNLIKE


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether a product has an attribute: similar to one of its own, or verbatim in its texts."""
    if any(are_alike(own, attribute) for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def count_similar_options(
    wanted: Iterable[tuple[str, str]], chosen: Collection[tuple[str, str]]
) -> int:
    """How many of the wanted options the public WebShop counts: those similar to a chosen value."""
    values = [_find_color(value) for _, value in chosen]
    return sum(
        any(are_alike(value, _write_option(*option)) for value in values) for option in wanted
    )


@lru_cache(maxsize=1 << 12)
def _write_option(name: str, value: str) -> str:
    """The text that the public WebShop compares: a color, or the pair as text if it has a name."""
    if not name:
        return _find_color(value)
    return next((c for c in COLORS if c in (name, value)), str((name, value)))


@lru_cache(maxsize=1 << 12)
def _find_color(value: str) -> str:
    """The first color whose name occurs in the value, else the value."""
    return next((color for color in COLORS if color in value), value)


@lru_cache(maxsize=1 << 16)
def are_alike(one: str, other: str) -> bool:
    """Whether the token set ratio of two texts, rounded, is above 85."""
    return round(token_set_ratio(one, other)) > SIMILAR


def token_set_ratio(one: str, other: str) -> float:
    """100 if one text's set of words contains the other's, else their similarity: -> [0, 100].

    The largest of three similarities: of both whole sets, and of the shared words with each.
    """
    first, second = (set(_strip_punctuation(text).split()) for text in (one, other))
    if not first or not second:
        return 0.0
    shared = " ".join(sorted(first & second))
    rest = [" ".join(sorted(a - b)) for a, b in ((first, second), (second, first))]
    if shared and not all(rest):
        return 100.0
    gap = bool(shared)
    sizes = [len(shared) + gap + len(part) for part in rest]
    distance = len(rest[0]) + len(rest[1]) - 2 * _measure_common(*rest)
    ratios = [_scale_distance(distance, sum(sizes))]
    if shared:
        ratios += [
            _scale_distance(gap + len(p), len(shared) + n) for p, n in zip(rest, sizes, strict=True)
        ]
    return max(ratios)


def _scale_distance(distance: int, size: int) -> float:
    return 100 - 100 * distance / size if size else 100.0


def _measure_common(one: str, other: str) -> int:
    """Length of the longest common subsequence, with an integer's bit for each character."""
    places: dict[str, int] = {}
    for place, char in enumerate(one):
        places[char] = places.get(char, 0) | 1 << place
    full = (1 << len(one)) - 1
    free = full
    for char in other:
        taken = free & places.get(char, 0)
        free = (free + taken) | (free - taken)
    return (~free & full).bit_count()


def _strip_punctuation(text: str) -> str:
    """Lower-case words without punctuation, and without the letters U+0080 to U+00FF."""
    kept = re.sub(r"[\x80-\xff]", "", text)
    return "".join(char.lower()[0] for char in re.sub(r"[\W_]", " ", kept))
