"""The clauses of a product's texts: words with their stems, between breaks of the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.webshop.analysis import stem

if TYPE_CHECKING:
    from collections.abc import Iterator


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_BREAK = re.compile(
    r"([;:!?|()\[\]{}<>~=\n\u2022\u2026\u2014\uff1a\uff1f]|\.(?=\s|$|[^\W\d_]{3})|\s[-\u2013*]+\s)"
)
_OPEN = re.compile(r"\b(free of|free from|without|contains no|no|not contain)\s*:", re.IGNORECASE)
_GLUED = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=\d)(?=[A-Z]{2})")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*[^\W_]*|[^\W_]+(?:'[^\W_]+)*|[,&/]")
_ABLE = re.compile(r"(?<=\w{3})[ai]bl$")  # ending of a stem: washable is what one can wash
_LONG = 3  # letters from which on a stem may lose its last one: assembl(y)
AND, OR = word_set("and &"), word_set("or nor /")
SEPARATORS = AND | OR | {","}

VERBAL = word_set("not never cannot avoid dont doesnt isnt cant wont")
NOMINAL = word_set("no without zero neither lacks lacking unlike 0 0g")
DENYING = VERBAL | NOMINAL
_PASSIVE = (
    "recommended included required needed necessary allowed suitable available permitted advised "
    "possible supported"
)
REFUSED = word_set(_PASSIVE)
_KEYED = word_set(": ? = - \u2013 \uff1a \uff1f")  # between a key and its value
_VALUE = re.compile(
    r"\s*(?:(?:no|n/a|false)(?=\s*(?:$|[,/]|\d))|none\b(?!\s+of\b)|no need\b"
    rf"|not (?:{_PASSIVE.replace(' ', '|')})\b)",
    re.IGNORECASE,
)  # values that deny their key
_NEXT = re.compile(r"\s*(?:No|NO)(?=\s+[A-Z])")  # a denying value before the next key
_ASKING = re.compile(r"\s*(?:\d+\.? *)?(?:whether|does|do|is|are|can|will|has)\b", re.IGNORECASE)
_ANSWER = re.compile(r"\s*(?:answer|a)?\s*", re.IGNORECASE)
_ITEM = 4  # most words of a value's item

_MATERIALS = word_set("wood gold wool silk oat wheat")  # wooden, golden
GRADED = word_set(
    "high low long short soft hard fresh thick thin wide narrow slim larg small big fast quick "
    "smooth strong warm bright dark deep loose tight rich eas heav health fine great safe"
)  # stems of adjectives: "-er" is their comparative, not a tool or a person
_EDGED = {f"{part}{edge}": part for part in ("waist", "neck", "hem") for edge in ("band", "line")}


class Clause(NamedTuple):
    """Words, commas and links between two breaks of a text, and the key (stem) of each.

    For "fit type: regular" the words are "fit type"; `value` has the last word of each item after
    the colon, and `no` is whether the value denies the key, as in "box spring required: no".
    """

    words: tuple[str, ...]
    keys: tuple[str, ...]
    no: bool = False
    value: tuple[str, ...] = ()


class Text(NamedTuple):
    """A text as clauses, with all their words and keys."""

    clauses: tuple[Clause, ...]
    words: frozenset[str]
    keys: frozenset[str]


@lru_cache(maxsize=1 << 13)
def clauses_of(text: str) -> Text:
    """A text as clauses."""
    clauses = tuple(_clauses(text))
    every = frozenset[str]()
    return Text(
        clauses,
        every.union(*(c.words for c in clauses), *(c.value for c in clauses)),
        every.union(*(c.keys for c in clauses), *(map(key_of, c.value) for c in clauses)),
    )


def _clauses(text: str) -> Iterator[Clause]:
    """The clauses of a text; a value that denies its key is not part of any clause."""
    pieces = _BREAK.split(_OPEN.sub(r"\1 ", text))
    parts, marks = pieces[::2], [*(mark.strip() for mark in pieces[1::2]), ""]
    for at, part in enumerate(parts):
        behind = _behind(parts, marks[at], at)
        value = parts[behind] if behind < len(parts) and marks[at] in _KEYED else ""
        mark = marks[behind] if value else ""
        no = _VALUE.match(value) or (_NEXT.match(value) if mark == ":" else None)
        if no:
            parts[behind] = value[no.end() :]
        denied = bool(no or (_ASKING.match(part) and value.strip().lower().startswith("no ")))
        items = _items(value, mark) if marks[at] == ":" and not no else ()
        head, comma, key = part.rpartition(",")
        if comma and denied:
            yield from _clause(head)
            yield from _clause(key, no=True, value=items)
        else:
            yield from _clause(part, no=denied, value=items)


def _behind(parts: list[str], mark: str, at: int) -> int:
    """The place of the value of a key; the word "answer" may stand between after a question."""
    answer = mark in {"?", "\uff1f"} and at + 1 < len(parts) and _ANSWER.fullmatch(parts[at + 1])
    return at + 2 if answer else at + 1


def _clause(part: str, *, no: bool = False, value: tuple[str, ...] = ()) -> Iterator[Clause]:
    words = words_of(part)
    if words:
        yield Clause(words, tuple(map(key_of, words)), no, value)


def _items(value: str, mark: str) -> tuple[str, ...]:
    """The last words of a value's items; the next key may be joined to the last item."""
    found = []
    for item in re.split(r"[,/&+]", value):
        words = words_of(item)
        if DENYING & set(words):
            return ()
        if 0 < len(words) <= _ITEM:
            found.append(words[-1])
    opening = re.match(r"\s*([A-Za-z]+)\s+[A-Z]", value)
    if opening and mark == ":":
        found.append(opening[1].lower())
    return tuple(found)


def words_of(text: str) -> tuple[str, ...]:
    """Words, commas and links in lower case; "SoftSole" is split into two words."""
    text = _GLUED.sub(" ", text).lower().replace("\u2019", "'")
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=1 << 16)
def key_of(word: str) -> str:
    """The common stem of a word's inflections."""
    word = word.removesuffix("'s")
    if word.endswith("ily"):
        word = word[:-3] + "y"
    word = _EDGED.get(word, word)
    if word.endswith("en") and word[:-2] in _MATERIALS:
        word = word[:-2]
    found = _ABLE.sub("", _graded(word) or stem(word))
    return found[:-1] if len(found) > _LONG and found[-1] in "iy" else found


def _graded(word: str) -> str:
    """The stem of the adjective of a comparative or superlative ("fresher", "highest"), or ""."""
    ending = next((one for one in ("est", "er") if word.endswith(one)), "")
    base = word[: len(word) - len(ending)]
    if not ending or len(base) < _LONG:
        return ""
    found = stem(f"{base}ed")
    return found if ending == "est" or found.removesuffix("i") in GRADED else ""
