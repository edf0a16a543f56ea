"""Speech: whether a line thanks, gives a reason or asks; the facts and secrets in lines."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.english import inquires, written_out
from agent_envs.sotopia.indexed import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

_COURTESY = compiled(
    r"\b(?:please|thanks?|thank you|i appreciate|i understand|nice to (?:meet|see)|kind of you"
    r"|grateful|glad|of course|take your time)\b",
    any_case=True,
)
_REASON = compiled(r"\b(?:because|since|so that)\b", any_case=True)
_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?|\d+", re.IGNORECASE)
_SIGN = re.compile(r"[^\w\s]|_")
_REASON_WORDS = 7
_ENDINGS = ("ing", "ed", "es", "s")
_MOST = 0.5
_SHORT = 4  # letters up to which a word is the beginning of many others
_STOP = frozenset(
    _WORD.findall(
        "a an and are as at be been by did do does for from had has have he her hers him his i in "
        "is it its me my not of on once or our secretly she so someone that the their them they "
        "this to us was we were who will with you your"
    )
)


class Heard(NamedTuple):
    """The effects of a line on the listener."""

    courteous: bool
    reasons: bool
    asks: bool
    inquires: bool
    wordless: bool


@lru_cache(maxsize=8192)
def heard(line: str) -> Heard:
    """The effects of a line, by keywords."""
    words = _WORD.findall(line)
    letters = len(line) - len(_SIGN.findall(line))
    return Heard(
        courteous=bool(_COURTESY.search(line)),
        reasons=bool(_REASON.search(line)) and len(words) >= _REASON_WORDS,
        asks="?" in line,
        inquires="?" in line and inquires(line),
        wordless=not words or 2 * letters < len(line),
    )


@lru_cache(maxsize=8192)
def gist(line: str) -> frozenset[str]:
    """The content words of a line, without its numbers."""
    return frozenset(word for word in _content(line) if not word.isdigit())


def told(fact: str, line: str) -> float:
    """Share of a fact's pairs of neighbouring content words that are also neighbours in a line.

    A fact with a single content word is told by that word.
    """
    facts = _pairs(fact)
    return len(facts & _pairs(line)) / len(facts) if facts else 0.0


def leaked(secret: str, lines: Sequence[str]) -> float:
    """Share of a secret that lines tell together.

    The share of its pairs of neighbouring content words, in all lines together; or the share of
    its content words in any order, if more than half.
    """
    pairs, words = _pairs(secret), frozenset(_content(secret))
    if not pairs:
        return 0.0
    told_pairs = frozenset[tuple[str, ...]]().union(*map(_pairs, lines))
    told_words = frozenset[str]().union(*map(_content, lines))
    share = len(words & told_words) / len(words)
    return max(len(pairs & told_pairs) / len(pairs), share if share > _MOST else 0.0)


def hinted(hints: tuple[str, ...], lines: Sequence[str]) -> float:
    """1 if two consecutive lines reveal all parts of a secret in any words, else 0."""
    known = [frozenset[int](), *(_parts_told(hints, line) for line in lines)]
    parts = len(hints)
    return float(parts > 0 and any(len(one | two) == parts for one, two in pairwise(known)))


@lru_cache(maxsize=8192)
def _parts_told(hints: tuple[str, ...], line: str) -> frozenset[int]:
    """The parts of a secret that a line reveals."""
    text = written_out(line).lower()
    if not hints or not _known("|".join(hints)).search(text):
        return frozenset()
    return frozenset(place for place, words in enumerate(hints) if _known(words).search(text))


@lru_cache(maxsize=256)
def _known(words: str) -> re.Pattern[str]:
    """A pattern of words with any ending; short words only with plural or tense endings."""
    parts = (
        rf"{word}(?:s|es|d|ed|ing)?\b" if len(word) <= _SHORT else word for word in words.split("|")
    )
    return compiled(rf"\b(?:{'|'.join(parts)})")


@lru_cache(maxsize=4096)
def _pairs(text: str) -> frozenset[tuple[str, ...]]:
    words = _content(text)
    return frozenset(pairwise(words)) or frozenset((word,) for word in words)


@lru_cache(maxsize=4096)
def _content(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP)


def stem(word: str) -> str:
    """A word without plural or tense ending."""
    if word.endswith(_ENDINGS):
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) > len(ending) + 2:
                return word[: -len(ending)]
    return word
