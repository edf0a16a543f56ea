"""Speech: whether a line thanks, gives a reason or asks; the facts and secrets in lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from agent_envs.sotopia.english import has_question, write_out

_COURTESY = re.compile(
    r"\b(?:please|thanks?|thank you|i appreciate|i understand|nice to (?:meet|see)|kind of you"
    r"|grateful|glad|of course|take your time)\b",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:because|since|so that)\b", re.IGNORECASE)
_LETTER = "[a-zA-Z\u0130\u0131\u017f\u212a]"  # [a-z] in any case, faster than `re.IGNORECASE`
_WORD = re.compile(rf"{_LETTER}+(?:['’]{_LETTER}+)?|\d+")
_SIGN = re.compile(r"[^\w\s]")
_REASON_WORDS = 7
_ENDINGS = ("ing", "ed", "es", "s")
_MOST = 0.5
_NONE = frozenset[int]()
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
def hear_line(line: str) -> Heard:
    """The effects of a line, by keywords."""
    asks = "?" in line
    return Heard(
        courteous=bool(_COURTESY.search(line)),
        reasons=bool(_REASON.search(line)) and len(_WORD.findall(line)) >= _REASON_WORDS,
        asks=asks,
        inquires=asks and has_question(line),
        wordless=not _WORD.search(line)
        or len(line) < 2 * (len(_SIGN.findall(line)) + line.count("_")),
    )


@lru_cache(maxsize=8192)
def find_gist(line: str) -> frozenset[str]:
    """The content words of a line, without its numbers."""
    return frozenset(word for word in _list_content(line) if not word.isdigit())


def measure_told(fact: str, line: str) -> float:
    """Share of a fact's pairs of neighbouring content words that are also neighbours in a line.

    A fact with a single content word is told by that word.
    """
    facts = _pair_words(fact)
    return len(facts & _pair_words(line)) / len(facts) if facts else 0.0


def has_part_of(facts: tuple[str, ...], line: str) -> bool:
    """Whether a line tells a part of any of the facts."""
    return not _pair_all_words(facts).isdisjoint(_pair_words(line))


@lru_cache(maxsize=1024)
def _pair_all_words(facts: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset[tuple[str, ...]]().union(*map(_pair_words, facts))


def measure_leak(secret: str, lines: Sequence[str]) -> float:
    """Share of a secret that lines tell together.

    The share of its pairs of neighbouring content words, in all lines together; or the share of
    its content words in any order, if more than half.
    """
    shared = [some for some in [_find_shared(secret, line) for line in lines] if some]
    if not shared:
        return 0.0
    pairs, words = (frozenset[object]().union(*some) for some in zip(*shared, strict=True))
    share = len(words) / len(frozenset(_list_content(secret)))
    return max(len(pairs) / len(_pair_words(secret)), share if share > _MOST else 0.0)


@lru_cache(maxsize=8192)
def _find_shared(secret: str, line: str) -> tuple[frozenset[object], frozenset[object]] | None:
    """The pairs of words and the words of a secret in a line; None for no words."""
    words = frozenset(_list_content(secret)).intersection(_list_content(line))
    return (_pair_words(secret) & _pair_words(line), words) if words else None


def measure_hints(hints: tuple[str, ...], lines: Sequence[str]) -> float:
    """1 if two consecutive lines reveal all parts of a secret in any words, else 0."""
    known = [_find_told_parts(hints, line) for line in lines]
    if not any(known):
        return 0.0
    parts = len(hints)
    return float(any(len(one | two) == parts for one, two in pairwise([_NONE, *known])))


@lru_cache(maxsize=8192)
def _find_told_parts(hints: tuple[str, ...], line: str) -> frozenset[int]:
    """The parts of a secret that a line reveals."""
    text = write_out(line).lower()
    if not hints or not _compile_hints("|".join(hints)).search(text):
        return _NONE
    return frozenset(place for place, one in enumerate(hints) if _compile_hints(one).search(text))


@lru_cache(maxsize=256)
def _compile_hints(words: str) -> re.Pattern[str]:
    """Words with any ending; short words only with plural or tense endings."""
    parts = (
        rf"{word}(?:s|es|d|ed|ing)?\b" if len(word) <= _SHORT else word for word in words.split("|")
    )
    return re.compile(rf"\b(?:{'|'.join(parts)})")


@lru_cache(maxsize=4096)
def _pair_words(text: str) -> frozenset[tuple[str, ...]]:
    words = _list_content(text)
    return frozenset(pairwise(words)) or frozenset((word,) for word in words)


@lru_cache(maxsize=4096)
def _list_content(text: str) -> tuple[str, ...]:
    return tuple([stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP])


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word without plural or tense ending."""
    if word.endswith(_ENDINGS):
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) > len(ending) + 2:
                return word[: -len(ending)]
    return word
