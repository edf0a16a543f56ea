"""Whether a value is the wanted one, whatever of the usual ways it is written in.

A wanted value is a plain one or one of the kinds below:

* a text: the same words, in any case and spacing, with or without a full stop or quotation marks
  around it;
* a number: the same to half a cent; True and False are themselves;
* a list: each of its values, in order; a frozenset: each once, in any order;
* `Lines`, `TwoDecimals`, `Quantity`, `Title`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, NamedTuple

HALF_A_CENT = 0.005
MINUTES = {"": 1.0, "minutes": 1.0, "hours": 60.0}
MONEY = {"": 1.0, "money": 1.0, "cents": 0.01}
_UNITS = {
    "minutes": "minutes minute mins min m",
    "hours": "hours hour hrs hr h",
    "money": "dollars dollar euros euro pounds usd eur gbp bucks $ € £",
    "cents": "cents cent",
}
_UNIT = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_QUOTES = str.maketrans("‘’‚‛“”„‟′″«»‐‑‒–—−", '\'\'\'\'""""\'"""------')
_FRAME = re.compile(
    r"^(?:(?:the |your |my )?(?:answer|total|sum|result|amount|title|longest song|song|time)"
    r"(?: is| was|:| =)|(?:it|that)(?: is|'s)|it comes to|=)\s*"
)
_STATING = frozenset(
    (
        "the",
        "it",
        "it's",
        "its",
        "is",
        "was",
        "that",
        "that's",
        "a",
        "an",
        "answer",
        "title",
        "name",
    )
    + (
        "song",
        "track",
        "called",
        "named",
        "titled",
        "by",
        "artist",
        "of",
        "in",
        "from",
        "your",
        "my",
    )
)
_AFTER = re.compile(r"\s*,?\s*(?:in total|altogether|in all|total|overall)$")
_DIGITS = r"[+-]?(?:[0-9]+,[0-9]{2}(?![0-9])|(?:[0-9]{1,3}(?:[ ,][0-9]{3})+|[0-9]+)(?:\.[0-9]+)?)"
_PART = re.compile(rf"([$€£]|usd|eur|gbp)?\s*({_DIGITS})\s*([a-z$€£]*)\s*(?:(?:,|&|\band\b)\s*)?")
_OPEN_END = re.compile(r"(?:,|&|\band)$")
_TWO_DECIMALS = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)\.[0-9]{2}")
_BULLET = re.compile(r"\s*(?:[-*•]|[0-9]+[.)])\s+")
_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ((1000, "thousand"), (100, "hundred"))
_VALUES = dict(zip((*_SMALL, *_TENS), (*range(20), *range(20, 100, 10)), strict=True))
_WORD = f"(?:{'|'.join((*_VALUES, 'hundred', 'thousand'))})"
_RUN = re.compile(rf"\b{_WORD}(?:(?: and |[ -]){_WORD})*\b")


class Lines(NamedTuple):
    """A text with one of these on each line, in this order, with or without bullets."""

    lines: tuple[str, ...]

    def fits(self, value: Any) -> bool:
        """Whether a value is such a text."""
        if not isinstance(value, str):
            return False
        found = [_BULLET.sub("", line, count=1) for line in value.splitlines() if line.strip()]
        return [plain(line) for line in found] == [plain(line) for line in self.lines]


class TwoDecimals(NamedTuple):
    """A text that is nothing but this number, with two decimals."""

    number: float

    def fits(self, value: Any) -> bool:
        """Whether a value is such a text."""
        text = plain(value) if isinstance(value, str) else ""
        if not _TWO_DECIMALS.fullmatch(text):
            return False
        return abs(float(text.replace(",", "")) - self.number) < HALF_A_CENT


class Quantity(NamedTuple):
    """A number, with or without its unit: `units` are those it may have, with their sizes."""

    number: float
    units: dict[str, float]

    def fits(self, value: Any) -> bool:
        """Whether a value is this number or a text that says it, in digits or in words."""
        if isinstance(value, bool):
            return False
        if isinstance(value, (int, float)):
            return abs(value - self.number) < HALF_A_CENT
        said = quantity(value, self.units) if isinstance(value, str) else None
        return said is not None and abs(said - self.number) < HALF_A_CENT


class Title(NamedTuple):
    """The title of a song, with or without its artist, alone or in a plain statement.

    Apart from title and artist, an answer has only words that state (`_STATING`) and those of
    `asked`, the request's own.
    """

    title: str
    artist: str
    asked: str = ""

    def fits(self, value: Any) -> bool:
        """Whether a value is a text that names it."""
        if not isinstance(value, str) or "?" in value:
            return False
        said = _words(value)
        title, artist = _words(self.title), _words(self.artist)
        place = _place(title, said)
        if place is None or said[:place][-1:] == ["by"]:  # taken for the artist
            return False
        said[place : place + len(title)] = []
        place = _place(artist, said)
        if place is not None:
            said[place : place + len(artist)] = []
        return set(said) <= _STATING | {*_words(self.asked)}


def same(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one."""
    if isinstance(wanted, (Lines, TwoDecimals, Quantity, Title)):
        return wanted.fits(value)
    if isinstance(wanted, frozenset):
        return (
            isinstance(value, (list, tuple))
            and len(value) == len(wanted)
            and set(map(_key, value)) == set(map(_key, wanted))
        )
    if isinstance(wanted, (list, tuple)):
        return isinstance(value, (list, tuple)) and [*map(_key, value)] == [*map(_key, wanted)]
    if isinstance(wanted, str):
        return isinstance(value, str) and plain(value) == plain(wanted)
    if isinstance(wanted, bool) or isinstance(value, (bool, str)) or None in (value, wanted):
        return value is wanted
    return bool(abs(value - wanted) < HALF_A_CENT)


def plain(text: str) -> str:
    """A text without what does not matter: case, spacing, kind of quotes, a last full stop."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    text = " ".join(text.split())
    text = text.removesuffix(".").strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip().removesuffix(".").strip()
    return text


def quantity(text: str, units: dict[str, float]) -> float | None:
    """The number that a text says, in units of size 1; None where it says none, or more than that.

    It is in digits or words. Units are those of `units`, before or after the number, from large to
    small: "3 h 30 min".
    """
    said = _RUN.sub(_in_digits, _AFTER.sub("", _bare(text)))
    place, total, last = 0, 0.0, float("inf")
    while place < len(said):
        part = _PART.match(said, place)
        if part is None or (part[1] and part[3]):
            return None
        unit = part[1] or part[3]
        size = units.get(_UNIT.get(unit, "?") if unit else "")
        if size is None or size >= last or (place and not unit):
            return None
        total, last, place = total + _number(part[2]) * size, size, part.end()
    return total if said and not _OPEN_END.search(said) else None


def _in_digits(run: re.Match[str]) -> str:
    """A number that is written in words; other runs of such words as they are."""
    words = [word for word in re.split("[ -]", run[0]) if word != "and"]
    total = part = 0
    for word in words:
        if word == "thousand":
            total, part = 1000 * part, 0
        else:
            part = 100 * part if word == "hundred" else part + _VALUES[word]
    return str(total + part) if spelled(total + part) == " ".join(words) else run[0]


def spelled(number: int) -> str:
    """A number from 0 to 999,999 in English words, without "and" and hyphens."""
    for size, name in _SCALES:
        if number >= size:
            many, rest = divmod(number, size)
            return f"{spelled(many)} {name}" + (f" {spelled(rest)}" if rest else "")
    if number < len(_SMALL):
        return _SMALL[number]
    return _TENS[number // 10 - 2] + (f" {_SMALL[number % 10]}" if number % 10 else "")


def _number(digits: str) -> float:
    """Digits with blanks or commas between thousands, or a comma before two decimals."""
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]{2}", digits):
        return float(digits.replace(",", "."))
    return float(re.sub("[ ,]", "", digits))


def _words(text: str) -> list[str]:
    """The words of a text, in lower case, apostrophes within them kept."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", plain(text))


def _place(part: list[str], words: list[str]) -> int | None:
    """Where a run of words begins among others, the first one."""
    places = range(len(words) - len(part) + 1)
    return next((at for at in places if words[at : at + len(part)] == part), None)


def _bare(text: str) -> str:
    """A plain text without "the answer is" and the like before it."""
    return plain(_FRAME.sub("", plain(text), count=1))


def _key(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value
