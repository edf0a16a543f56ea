"""The parts that every article is made with: the writer who picks wordings, lists and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

_SMALL = "no one two three four five six seven eight nine ten eleven twelve"
_WORDS = 42  # in a passage at least


@dataclass(frozen=True)
class Article:
    """A passage of the encyclopaedia: about which entity, under which topic."""

    entity: str
    topic: str
    title: str
    text: str


@dataclass(frozen=True)
class Writer:
    """Chooses wordings; draws from `rng.random` alone, which is the same on every machine."""

    rng: np.random.Generator

    def one(self, *wordings: str) -> str:
        """One of the wordings."""
        return wordings[int(self.rng.random() * len(wordings))]

    def fill_passage(self, lines: Sequence[str], *more: str) -> str:
        """The lines as a text; as many of `more` are put after them as a passage needs."""
        text = " ".join(lines)
        for line in more:
            if len(text.split()) < _WORDS:
                text = f"{text} {line}"
        return text


def join_names(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def count_noun(number: int, noun: str) -> str:
    """`no cities`, `one city`, `12 cities`: the plural is `noun` with an s or ies."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    words = _SMALL.split()
    word = words[number] if number < len(words) else str(number)
    return f"{word} {noun if number == 1 else plural}"


def sentence(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


def degrees(latitude: float, longitude: float) -> str:
    """`12.0 degrees north and 8.5 degrees east`."""
    across = "north" if latitude >= 0 else "south"
    along = "east" if longitude >= 0 else "west"
    return f"{abs(latitude):.1f} degrees {across} and {abs(longitude):.1f} degrees {along}"
