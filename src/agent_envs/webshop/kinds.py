"""The kind of product that a product is, for `mode="strict"`."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from agent_envs.webshop.clauses import AND, SEPARATORS, word_set, words_of

if TYPE_CHECKING:
    from agent_envs.webshop.products import Product

_GENDERS = word_set("men women boy girl kid children")
_VAGUE = word_set("accessory supply product set kit tool care")
_USE = re.compile(r"\b(?:for|with|compatible)\b.*", re.IGNORECASE | re.DOTALL)
_SHARED_LEVELS = 2
_SHORT = 4  # letters of words like "ties", whose singular ends in "-ie"


def same_kind(target: Product, bought: Product) -> bool:
    """Whether a product is of the kind in a goal made for `target`.

    A shelf is a whole category. The product is of the kind if a level of its category has the name
    of the kind; or if it is listed under that name on the target's shelf or a neighbouring one; or
    if it is on the target's shelf and the shelf is for the kind. A product for other people (men,
    children, ...) than the name and the target's shelf say is not. A product that is listed under
    another name than the kind's must also have the kind in its title.
    """
    shelf, other = _levels(target.product_category), _levels(bought.product_category)
    if target.query == bought.query and shelf == other:
        return True
    if _for_others(target, bought):
        return False
    if _named(target.query, other[:-1]):  # its own shelf is a subtype of the kind
        return True
    named = _named(target.query, other)
    if target.query != bought.query:
        here = named or (bool(shelf) and shelf == other and _is_for(shelf, target.query))
        return here and _called(bought.title, target.query, other[-1] if named else "")
    return named or _near(shelf, other)


def _for_others(target: Product, bought: Product) -> bool:
    """Whether a product is for other people than those of the goal."""
    whom = _GENDERS & _keys(bought.product_category)
    meant = _GENDERS & _keys(f"{target.product_category} {target.query}")
    return bool(whom) and bool(meant) and whom.isdisjoint(meant)


def _near(shelf: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two shelves are neighbours, or one is unknown."""
    pairs = zip(shelf, other, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    shortest = min(len(shelf), len(other))
    return not shortest or shared >= max(_SHARED_LEVELS, shortest - 1)


@lru_cache(maxsize=1 << 16)
def _called(title: str, kind: str, shelf: str = "") -> bool:
    """Whether a title, if there is one, has a kind's name, or a word of its shelf's name.

    The purpose of a thing is not its kind: "makeup brushes for eye shadow".
    """
    words, places = _keys(title), _keys(shelf) - _GENDERS - _VAGUE
    if not words or places & words:
        return True
    own = _keys(_USE.sub("", title)) or words
    return any(name <= own for found in _names(kind) if (name := found - _GENDERS - _VAGUE))


def _is_for(shelf: tuple[str, ...], kind: str) -> bool:
    """Whether a shelf has a word of a kind's name, and is not for other people than the name."""
    place, name = _keys(" ".join(shelf[1:])), _keys(kind)
    whom, meant = place & _GENDERS, name & _GENDERS
    things = name - _GENDERS - _VAGUE
    return (not things or bool(things & place)) and (not (whom and meant) or bool(whom & meant))


@lru_cache(maxsize=1 << 14)
def _levels(category: str) -> tuple[str, ...]:
    """The levels of a category, the widest first."""
    return tuple(level for part in category.split("\u203a") if (level := part.strip()))


@lru_cache(maxsize=1 << 14)
def _named(kind: str, levels: tuple[str, ...]) -> bool:
    """Whether a level below the first has the kind's name; other levels may say for whom it is.

    If a kind has several names, "t-shirts & tanks", one is enough.
    """
    below = [_keys(level) for level in levels[1:]]
    everything = frozenset[str]().union(*below)
    return any(
        name <= everything and any(level <= name and level - _GENDERS - _VAGUE for level in below)
        for name in _names(kind)
        if name - _GENDERS - _VAGUE
    )


@lru_cache(maxsize=1 << 12)
def _names(kind: str) -> tuple[frozenset[str], ...]:
    """The words of a kind's name, and of each of its single names, each with its gender words."""
    whole = _keys(kind)
    return whole, *(_keys(part) | whole & _GENDERS for part in re.split(r",|&|\band\b", kind))


@lru_cache(maxsize=1 << 14)
def _keys(text: str) -> frozenset[str]:
    """The words of a name, each in the singular: beds are not bedding."""
    return frozenset(map(_singular, words_of(text))) - SEPARATORS - AND


def _singular(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("s'")
    if word.endswith("ies") and len(word) > _SHORT:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
