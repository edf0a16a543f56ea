"""The score of a purchase, in [0, 1]: product type, attributes, options and price.

Either as in the public WebShop, or strict: attributes by the product's texts, options matched
exactly by name and value, and the displayed price.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.webshop.claims import AND, SEPARATORS, states, word_set, words_of

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
_GENDERS = word_set("men women boy girl kid children")
_VAGUE = word_set("accessory supply product set kit tool care")
_USE = re.compile(r"\b(?:for|with|compatible)\b.*", re.IGNORECASE | re.DOTALL)
_SHORT = 4  # letters of words like "ties", whose singular ends in "-ie"


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


def score_purchase(goal: Goal, match: Match, options: int) -> Score:
    """The score of a purchase with `options` of the goal's options right."""
    attributes, wanted = len(goal.attributes), len(goal.options)
    right = match.attributes + options + match.price
    return Score(
        total=right / (attributes + wanted + 1) * match.type,
        type=match.type,
        attributes=match.attributes / attributes if attributes else 1.0,
        options=options / wanted if wanted else 1.0,
        price=float(match.price),
    )


def match_strictly(
    goal: Goal, target: Product, bought: Product, nouns: Sequence[Sequence[str]]
) -> Match:
    """How far `bought` satisfies a goal made for `target`, by its texts and its price tag.

    The type of a product of another kind is at most 0.5. The highest price of a range counts.
    """
    kind = 1.0
    if not is_same_kind(target, bought):
        kind = min(_UNLIKE, score_type(target, bought, tuple(dict.fromkeys(nouns[0])), nouns[1]))
    return Match(
        kind,
        sum(states(bought, attribute) for attribute in goal.attributes),
        bought.highest < goal.price_upper,
    )


def match_loosely(
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
    shared = len(set(wanted) & set(found))
    title = shared / len(wanted) if wanted else _SAME_TYPE
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


def count_exact_options(
    wanted: Iterable[tuple[str, str]], chosen: Collection[tuple[str, str]]
) -> int:
    """How many of the wanted options are chosen, by name and value."""
    return sum(option in chosen for option in wanted)


def count_similar_options(
    wanted: Iterable[tuple[str, str]], chosen: Collection[tuple[str, str]]
) -> int:
    """How many of the wanted options the public WebShop counts: those similar to a chosen value."""
    values = [_find_color(value) for _, value in chosen]
    return sum(
        any(are_alike(value, _write_option(*option)) for value in values) for option in wanted
    )


def _write_option(name: str, value: str) -> str:
    """The text that the public WebShop compares: a color, or the pair as text if it has a name."""
    if not name:
        return _find_color(value)
    return next((c for c in COLORS if c in (name, value)), str((name, value)))


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


def is_same_kind(target: Product, bought: Product) -> bool:
    """Whether a product is of the kind in a goal made for `target`.

    A shelf is a whole category. The product is of the kind if a level of its category has the name
    of the kind; or if it is listed under that name on the target's shelf or a neighbouring one; or
    if it is on the target's shelf and the shelf is for the kind. A product for other people (men,
    children, ...) than the name and the target's shelf say is not. A product that is listed under
    another name than the kind's must also have the kind in its title.
    """
    shelf, other = _split_levels(target.product_category), _split_levels(bought.product_category)
    if target.query == bought.query and shelf == other:
        return True
    whom = _GENDERS & _read_words(bought.product_category)
    meant = _GENDERS & _read_words(f"{target.product_category} {target.query}")
    if whom and meant and whom.isdisjoint(meant):  # for other people than those of the goal
        return False
    if _has_kind_name(target.query, other[:-1]):  # its own shelf is a subtype of the kind
        return True
    named = _has_kind_name(target.query, other)
    if target.query != bought.query:
        here = named or (bool(shelf) and shelf == other and _is_for(shelf, target.query))
        return here and _names_kind_in_title(bought.title, target.query, other[-1] if named else "")
    return named or _is_near(shelf, other)


def _is_near(shelf: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two shelves are neighbours, or one is unknown."""
    pairs = zip(shelf, other, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    shortest = min(len(shelf), len(other))
    return not shortest or shared >= max(_SHARED_LEVELS, shortest - 1)


@lru_cache(maxsize=1 << 16)
def _names_kind_in_title(title: str, kind: str, shelf: str = "") -> bool:
    """Whether a title, if there is one, has a kind's name, or a word of its shelf's name.

    The purpose of a thing is not its kind: "makeup brushes for eye shadow".
    """
    words, places = _read_words(title), _read_words(shelf) - _GENDERS - _VAGUE
    if not words or places & words:
        return True
    own = _read_words(_USE.sub("", title)) or words
    return any(name <= own for found in _split_names(kind) if (name := found - _GENDERS - _VAGUE))


def _is_for(shelf: tuple[str, ...], kind: str) -> bool:
    """Whether a shelf has a word of a kind's name, and is not for other people than the name."""
    place, name = _read_words(" ".join(shelf[1:])), _read_words(kind)
    whom, meant = place & _GENDERS, name & _GENDERS
    things = name - _GENDERS - _VAGUE
    return (not things or bool(things & place)) and (not (whom and meant) or bool(whom & meant))


@lru_cache(maxsize=1 << 14)
def _split_levels(category: str) -> tuple[str, ...]:
    """The levels of a category, the widest first."""
    return tuple(level for part in category.split("\u203a") if (level := part.strip()))


@lru_cache(maxsize=1 << 14)
def _has_kind_name(kind: str, levels: tuple[str, ...]) -> bool:
    """Whether a level below the first has the kind's name; other levels may say for whom it is.

    If a kind has several names, "t-shirts & tanks", one is enough.
    """
    below = [_read_words(level) for level in levels[1:]]
    everything = frozenset[str]().union(*below)
    return any(
        name <= everything and any(level <= name and level - _GENDERS - _VAGUE for level in below)
        for name in _split_names(kind)
        if name - _GENDERS - _VAGUE
    )


@lru_cache(maxsize=1 << 12)
def _split_names(kind: str) -> tuple[frozenset[str], ...]:
    """The words of a kind's name, and of each of its single names, each with its gender words."""
    whole = _read_words(kind)
    return whole, *(_read_words(part) | whole & _GENDERS for part in re.split(r",|&|\band\b", kind))


@lru_cache(maxsize=1 << 14)
def _read_words(text: str) -> frozenset[str]:
    """The words of a name, each in the singular: beds are not bedding."""
    return frozenset(map(_make_singular, words_of(text))) - SEPARATORS - AND


def _make_singular(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("s'")
    if word.endswith("ies") and len(word) > _SHORT:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
