"""Whether a value is the wanted one, in any of the usual notations.

A wanted value is a plain value or of one of the kinds below:

* a text: the same words, in any case and spacing, with or without a full stop or quotation marks
  around it;
* a number: equal to within half a cent; True and False must be equal;
* a list: each of its values, in order; a frozenset: each once, in any order;
* `Lines`, `TwoDecimals`, `Quantity`, `Title`.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import dropwhile
from typing import Any, NamedTuple


def split_words(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


HALF_A_CENT = 0.005
LONGEST = 500  # characters of a text that states a number
_QUOTES = str.maketrans("‘’‚‛“”„‟′″«»‐‑‒–—−", '\'\'\'\'""""\'"""------')
_PLAIN = split_words(
    """
    the it it's its is was are were be will that that's this these those them all both
    of in for by to on at from with during over since until
    someday i i'll i've me my you you'll you've your we our have has had did do does
    answer result final exactly precisely called named titled
    """
)
"""Words of plain statements that do not name a kind of thing."""
_SUMS = split_words(
    """
    total totals totaling totalling sum sums altogether overall together come comes came
    amounts add adds added equals
    """
)
_COPULAS = frozenset({"is", "was", "are", "were"})
_WHERE = frozenset({"in", "on", "at", "from", "by", "with", "during", "over", "since", "until"})
_BEHIND = _COPULAS | _WHERE | {"for", "to", "all", "that"}
"""What may come after a number and its unit; a noun there says what the number counts."""
_UNSAID = split_words(
    """
    not no nor or either neither about around roughly approximately nearly almost maybe perhaps
    probably possibly more less fewer least most minimum maximum between half double twice without
    except excluding plus minus per each every a an any how many much number count up than before
    after under above below first second next last another other others what which when why who
    """
)
"""Words that change the meaning of a statement, also if the request has them."""
_NAMING = split_words("a an title name song track artist time length")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY = "someday"  # placeholder for a date of the request
_MARKED = re.compile(r"(?<![^\W_])(\*{1,3}|_{1,3}|`{1,3})\s*([^*_`]+?)\s*\1(?![^\W_])")
_DIGITS = r"[+-]?(?:[0-9]+,[0-9]{2}(?![0-9])|(?:[0-9]{1,3}(?:[ ,][0-9]{3})+|[0-9]+)(?:\.[0-9]+)?)"
_BARE = r"(?<![\w.,:+-])"  # not part of another number
_H, _M = r"\s?(?:h|hrs?|hours?)\b", r"\s?(?:m|mins?|minutes?)\b"
_CLOCKS = (
    re.compile(rf"{_BARE}([0-9]{{1,3}}):([0-5][0-9])(?:{_H})?(?!{_M}|[\w:]|[.,][0-9])"),
    re.compile(
        rf"{_BARE}([0-9]{{1,3}})\s?(?:h|hrs?|hours?)\s?([0-5][0-9])(?:{_M})?(?!{_H}|[\w:]|[.,][0-9])"
    ),
)
_JOINED = re.compile(r"\s*(?:(?:,|&|\band\b)\s*)?(?=[0-9])")
_BETWEEN = re.compile(rf"\bbetween {_DAY} and {_DAY}\b")
_ARTICLE = re.compile(r"\ban? (?=(?:total|sum)\b)")
_ADDING = re.compile(r"\badd(?:s|ed)? up to\b")
_COUNTING = re.compile(r"\b(?:(?:number|count|amount) of|how (?:many|much)) (?=(\w+))")
_SAID = re.compile(r"[^\W\d_]*(?:[\s'\",.:;=()]+[^\W\d_]*)*")
_TWO_DECIMALS = re.compile(r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|0|[1-9][0-9]*)\.[0-9]{2}")
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
_DIGIT = f"(?:{'|'.join(_SMALL[:10])})"
_POINT = re.compile(rf"\s+point ({_DIGIT}(?:[ -]{_DIGIT})*)\b")
_RUN = re.compile(rf"\b{_WORD}(?:(?: and |[ -]){_WORD})*\b")


class Lines(NamedTuple):
    """A text with one of these values per line, in this order, with or without bullets."""

    lines: tuple[str, ...]

    def fits(self, value: Any) -> bool:
        """Whether a value is such a text."""
        if not isinstance(value, str):
            return False
        found = [_BULLET.sub("", line, count=1) for line in value.splitlines() if line.strip()]
        return [normalise(line) for line in found] == [normalise(line) for line in self.lines]


class TwoDecimals(NamedTuple):
    """A text that is only this number, with two decimals."""

    number: float

    def fits(self, value: Any) -> bool:
        """Whether a value is such a text."""
        text = normalise(value) if isinstance(value, str) else ""
        if not _TWO_DECIMALS.fullmatch(text):
            return False
        return abs(float(text.replace(",", "")) - self.number) < HALF_A_CENT


class Measure(NamedTuple):
    """A kind of quantity, with the words that are allowed beside its numbers.

    Attributes:
        units: words for its units, with their sizes; a number without unit has size 1.
        says: words for such a quantity, like "time" and "spend".
        things: words for things that have it; its number does not count these.
        clock: whether it may be written as hours and minutes, "3:30".
    """

    units: dict[str, float]
    says: frozenset[str]
    things: frozenset[str]
    clock: bool = False

    @property
    def part(self) -> str:
        """The pattern of a number with a unit after it, a currency before it, or neither."""
        units = "|".join(sorted(map(re.escape, self.units), key=len, reverse=True))
        first = "|".join(re.escape(unit) for unit in _CURRENCIES & self.units.keys()) or "(?!)"
        return rf"(?:({first})\s*)?({_DIGITS})(?:\s*({units})(?![a-z]))?"


def _map_units(**sizes: float) -> dict[str, float]:
    return {word: size for kind, size in sizes.items() for word in _WORDS[kind].split()}


_WORDS = {
    "minutes": "minutes minute mins min m",
    "hours": "hours hour hrs hr h",
    "money": "dollars dollar euros euro pounds usd eur gbp bucks $ € £",
    "cents": "cents cent",
}
_CURRENCIES = split_words("usd eur gbp $ € £")
MINUTES = Measure(
    _map_units(minutes=1.0, hours=60.0),
    split_words("time length lengths duration spend spent take takes took last lasts"),
    split_words("meeting meetings appointment appointments event events"),
    clock=True,
)
MONEY = Measure(
    _map_units(money=1.0, cents=0.01),
    split_words("money amount spend spent pay paid send sent give gave cost costs"),
    split_words("payment payments transaction transactions transfer transfers"),
)


class Quantity(NamedTuple):
    """A number, with or without its unit, alone or in a plain statement.

    Beside it an answer may only have words of plain statements, of its measure, and of the request
    `asked`.
    """

    number: float
    measure: Measure
    asked: str = ""

    def fits(self, value: Any) -> bool:
        """Whether a value is this number, or a text that states it in digits or words."""
        if isinstance(value, bool):
            return False
        if isinstance(value, (int, float)):
            return abs(value - self.number) < HALF_A_CENT
        said = read_quantity(value, self.measure, self.asked) if isinstance(value, str) else None
        return said is not None and abs(said - self.number) < HALF_A_CENT


class Title(NamedTuple):
    """The title of a song, with or without its artist, alone or in a plain statement.

    Beside title and artist, an answer may only have words of plain statements and of the request
    `asked`.
    """

    title: str
    artist: str
    asked: str = ""

    def fits(self, value: Any) -> bool:
        """Whether a value is a text with this title."""
        if not isinstance(value, str) or "?" in value:
            return False
        said = _find_words(value)
        title, artist = _find_words(self.title), _find_words(self.artist)
        place = _find_place(title, said)
        if place is None or said[:place][-1:] == ["by"]:  # taken for the artist
            return False
        said[place : place + len(title)] = []
        place = _find_place(artist, said)
        if place is not None:
            said[place : place + len(artist)] = []
        asked = {*_find_words(self.asked)} - _UNSAID
        return set(said) <= _PLAIN | _NAMING | asked


def is_same(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one."""
    if isinstance(wanted, (Lines, TwoDecimals, Quantity, Title)):
        return wanted.fits(value)
    if isinstance(wanted, frozenset):
        return (
            isinstance(value, (list, tuple))
            and len(value) == len(wanted)
            and set(map(_normalise_value, value)) == set(map(_normalise_value, wanted))
        )
    if isinstance(wanted, (list, tuple)):
        return isinstance(value, (list, tuple)) and [*map(_normalise_value, value)] == [
            *map(_normalise_value, wanted)
        ]
    if isinstance(wanted, str):
        return isinstance(value, str) and normalise(value) == normalise(wanted)
    if isinstance(wanted, bool) or isinstance(value, (bool, str)) or None in (value, wanted):
        return value is wanted
    return bool(abs(value - wanted) < HALF_A_CENT)


def normalise(text: str) -> str:
    """A text normalised in case, spacing and quotes, without a final full stop."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    text = " ".join(text.split())
    text = text.removesuffix(".").strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip().removesuffix(".").strip()
    return text


def read_quantity(text: str, measure: Measure, asked: str = "") -> float | None:
    """The number that a text states, in units of size 1; None if it states none or other things.

    It may be in digits or words, with units from large to small ("3 h 30 min") or without, alone or
    in a plain statement. Other words are allowed if they are units and words of the measure, words
    of the request `asked`, or words that do not name a thing. A noun that the number would count,
    before or after it, is a wrong unit.
    """
    if len(text) > LONGEST:
        return None
    said = _write_numbers_in_digits(text, measure, asked)
    first = re.search(_BARE + measure.part, said)
    if first is None or re.match("[+-]?0[0-9]", first[2]):
        return None
    parts = _find_parts(said, first, measure)
    before = _drop_phrases(said[: first.start()], measure)
    after = _drop_phrases(said[parts[-1].end() :], measure)
    named = {
        measure.units[word] for word in _find_words(f"{before} {after}") if word in measure.units
    }
    units = [unit for part in parts for unit in (part[1], part[3]) if unit]
    sizes = [measure.units[unit] for unit in units]
    if not _is_of_measure(before, after, measure, asked, sized=bool(sizes or named)):
        return None
    sizes = sizes or [*named] or [1.0]
    if len(sizes) != len(parts) or sizes != sorted({*sizes}, reverse=True) or named - {*sizes}:
        return None
    return sum(_parse_number(part[2]) * size for part, size in zip(parts, sizes, strict=True))


def _find_parts(said: str, first: re.Match[str], measure: Measure) -> list[re.Match[str]]:
    """The numbers with units that follow each other, from the first on."""
    parts, pattern = [first], re.compile(measure.part)
    while (joined := _JOINED.match(said, parts[-1].end())) and (
        part := pattern.match(said, joined.end())
    ):
        parts.append(part)
    return parts


def _write_numbers_in_digits(text: str, measure: Measure, asked: str) -> str:
    """A text with numbers in digits, without markup and dates of the request."""
    said = normalise(text)
    while said != (bare := _MARKED.sub(r"\2", said)):
        said = bare
    said = normalise(said)
    for day in _DATE.findall(asked):
        said = said.replace(day, _DAY)
    said = _RUN.sub(_write_digits, _POINT.sub(_write_decimals, said))
    for clock in _CLOCKS if measure.clock else ():
        said = clock.sub(r"\1 h \2 min", said)
    return said


def _drop_phrases(said: str, measure: Measure) -> str:
    """A part of a statement, without words that are allowed only in certain phrases."""
    measured = measure.says | measure.units.keys()
    said = _COUNTING.sub(lambda found: "" if found[1] in measured else found[0], said)
    return _ARTICLE.sub("", _ADDING.sub("comes to", _BETWEEN.sub(_DAY, said)))


def _is_of_measure(before: str, after: str, measure: Measure, asked: str, *, sized: bool) -> bool:
    """Whether a number between these texts is of the measure; `sized`: it has a unit."""
    if not (_SAID.fullmatch(before) and _SAID.fullmatch(after)):
        return False
    if (before and before[-1] not in " :=\"'") or (after and after[0] not in " ,.;\"'"):
        return False
    if after.rstrip().endswith((",", ":", ";", "=", "(")):
        return False
    request = {*_find_words(asked)} - _UNSAID
    names = {word for name in re.findall('"([^"]*)"', asked) for word in _find_words(name)}
    plain_words = _PLAIN | _SUMS | measure.says | measure.units.keys()
    front, behind = _find_words(before), _find_words(after)
    if not {*front, *behind} <= plain_words | measure.things | request:
        return False
    kinds = (measure.things | request) - plain_words - names
    subject = front + (behind if _COPULAS & {*behind[:1]} else [])
    return (
        _leads_to_number(front, before, measure, sized=sized)
        and _continues_number(behind, measure, sized=sized)
        and (sized or not _counts_things(subject, kinds, measure))
    )


def _leads_to_number(front: list[str], before: str, measure: Measure, *, sized: bool) -> bool:
    """Whether the words before a number lead to it, so that it is not a place or a time."""
    if not front or before.rstrip(" \"'")[-1:] in {":", "=", ",", ";", "."}:
        return True
    if front[-1] in {"of", "to"}:
        return front[-2:-1] != [] and front[-2] in _SUMS | measure.says
    return front[-1] not in _WHERE and (front[-1] != "for" or sized)


def _continues_number(behind: list[str], measure: Measure, *, sized: bool) -> bool:
    """Whether the words after a number and its unit do not name things that it would count."""
    rest = list(dropwhile(_SUMS.__contains__, behind))
    known = _BEHIND | measure.says | measure.units.keys()
    if behind and behind[-1] in _WHERE | {"for", "of", "to"}:
        return False
    return not rest or rest[0] in known or (sized and rest[0] == "of")


def _counts_things(subject: list[str], kinds: frozenset[str], measure: Measure) -> bool:
    """Whether a statement counts things, instead of their measure."""
    if not kinds & {*subject} or measure.says & {*subject}:
        return False
    followed = zip(subject, [*subject[1:], ""], strict=True)
    return not any(word in _SUMS and behind not in kinds for word, behind in followed)


def _write_digits(run: re.Match[str]) -> str:
    """A number in words as digits; other runs of such words unchanged."""
    words = [word for word in re.split("[ -]", run[0]) if word != "and"]
    total = part = 0
    for word in words:
        if word == "thousand":
            total, part = 1000 * part, 0
        else:
            part = 100 * part if word == "hundred" else part + _VALUES[word]
    return str(total + part) if spell_number(total + part) == " ".join(words) else run[0]


def _write_decimals(point: re.Match[str]) -> str:
    """The digits after a decimal point that are written in words."""
    return "." + "".join(str(_VALUES[word]) for word in re.split("[ -]", point[1]))


def spell_number(number: int) -> str:
    """A number from 0 to 999,999 in English words, without "and" and hyphens."""
    for size, name in _SCALES:
        if number >= size:
            many, rest = divmod(number, size)
            return f"{spell_number(many)} {name}" + (f" {spell_number(rest)}" if rest else "")
    if number < len(_SMALL):
        return _SMALL[number]
    return _TENS[number // 10 - 2] + (f" {_SMALL[number % 10]}" if number % 10 else "")


def _parse_number(digits: str) -> float:
    """The number of digits with spaces or commas between thousands, or a comma as decimal point."""
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]{2}", digits):
        return float(digits.replace(",", "."))
    return float(re.sub("[ ,]", "", digits))


def _find_words(text: str) -> list[str]:
    """The words of a text in lower case, with inner apostrophes."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", normalise(text))


def _find_place(part: list[str], words: list[str]) -> int | None:
    """The first place at which a run of words begins among others."""
    places = range(len(words) - len(part) + 1)
    return next((at for at in places if words[at : at + len(part)] == part), None)


def _normalise_value(value: Any) -> Any:
    return normalise(value) if isinstance(value, str) else value
