"""The compared forms of a text.

Names are compared without case, articles, sentence punctuation and Latin diacritics; numbers by
value, with decimal point, thousands separators, powers of ten, unit and every sign beside them.
Not supported: number words from 100, conversion of units, a raised dot as decimal point, "below
zero" as a sign.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category, normalize

_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_RAISED = re.compile(r"[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})
_ACCENTS = re.compile("(?<=[a-z])[\u0300-\u036f]+")
_SMALL = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen",
)
_TENS = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")
_FIRST = "".join(sorted({word[0] for word in _SMALL + _TENS}))
_WORDS = re.compile(
    rf"\b(?=[{_FIRST}])"
    rf"(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_SMALL[1:10])}))?|({'|'.join(_SMALL)}))\b"
)
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}|\d+,\d{4,}|\d{4,},\d{3}|0\d*,\d+")
_ARTICLES = re.compile(r"a(?<!\wa)n?\b|t(?<!\wt)he\b")  # literals first, for speed
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_PREFIXES = {"k": 3, "m": 6, "g": 9}
UNITS = {
    "celsius": r"°\s*c\b|(?:degrees?|deg)\s(?:celsius|centigrade|c)\b|celsius\b|centigrade\b|c\b",
    "fahrenheit": r"°\s*f\b|(?:degrees?|deg)\s(?:fahrenheit|f)\b|fahrenheit\b|f\b",
    "degrees": r"°|(?:degrees?|deg)\b",
    "percent": r"%|per\s?cent\b|pct\b",
    "square kilometres": r"(?:km\^?2|sq\.?\skm|square\skm|sq\.?\skilomet(?:er|re)s?)\b"
    r"|square\skilomet(?:er|re)s?\b",
    "square miles": r"(?:sq\.?\smi|square\smi|sq\.?\smiles?|square\smiles?)\b",
    "kilometres": r"(?:km|kilomet(?:er|re)s?)\b",
    "metres": r"(?:m|met(?:er|re)s?)\b",
    "years": r"(?:yrs?|years?)\b|[ya](?=\W*\Z)",
    "months": r"months?\b",
    "weeks": r"(?:wks?|weeks?)\b",
    "days": r"(?:d|days?)\b",
    "hours": r"(?:h|hrs?|hours?)\b",
    "minutes": r"(?:min|mins|minutes?)\b",
    "seconds": r"(?:s|secs?|seconds?)\b",
}
_UNIT_NAMES = {f"u{i}": f" {unit}" for i, unit in enumerate(UNITS)}
_RUN = re.compile(
    r"(\d(?:[.,' ’]?\d)*)"
    r"(?:e([+-]?\d{1,2})(?!\w)| ?[x×*] ?10\^([+-]?\d{1,2})(?!\d))?"
    rf"((?:[ -](?:{'|'.join(_SCALES)})\b)*)"
    r"(?:\s?(?P<prefix>[kmg])(?=yrs?\b|[ya]\W*\Z))?"
    rf"(?:\s?(?:{'|'.join(f'(?P<u{i}>{words})' for i, words in enumerate(UNITS.values()))}))?"
)
"""Digits with separators, a power of ten, words for powers, a unit."""
_OPENING = "([{\"'“‘«*_`"
_BEFORE = re.compile(
    rf"((?<![^\s{re.escape(_OPENING)}])(?:[-‐‑‒−–]|− )"
    rf"|(?:\A|(?<=\A[{re.escape(_OPENING)}]))[-‐‑‒–] "
    r"|\b(?:minus|negative) )?((?<!\w)\.)?\Z"
)
"""A sign (in ASCII also a dash or a bullet), and a point without a digit before it."""
_PLUS = re.compile(rf"(?<![^\s{re.escape(_OPENING)}])\+(?=\d)")
_MARKED = re.compile(r"(?<=[^\w\s])|(?<=[^\w\s] )|(?<=[se] )")
"""Whether there may be a sign before a number, by the endings of the patterns beside this one."""
_ODD_BEFORE = re.compile(r"(?<!\w)[^\w\s.(\[{\"'“‘«]\Z|(?<!\S)[-‐‑‒–—/*!?]{1,3} \Z")
_ODD_AFTER = re.compile(
    r"[-‐‑‒–—−/_](?!\w)|[·*`´](?!\s*\Z)|[*`´]| ?[-‐‑‒–—−/+]+\W*\Z"
)  # quotes are checked together with those before the number
_SIGN = " ¤ "
"""Signs beside a number that do not change its value."""
_WHOLE = re.compile(r"\d{1,3}([,' ’])\d{3}(?:\1\d{3})*(?:\.\d+)?|\d*(?:[.,]\d+)?")
_LONGEST = len("negative .")
_MARKUP = re.compile(
    r"(?<![\w*_`])(\*{1,3}|_{1,3}|`{1,3})(?=[^\s*_`])((?:(?!\1).){1,200}?)\1(?![\w*_`])"
)
_DIGIT = re.compile(r"\d")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_OTHERS = re.compile(r"\D+")
_LAST = re.compile(r"(?<!\S)(?:[a-z]*[./-])*([a-z]+)\Z")
_BETWEEN = re.compile(r"(\d)((?:[^\w\s]|_)+)(?=\d)")


class _Marks(dict[int, str | None]):
    """For `str.translate`: drops punctuation, replaces word separators, makes signs words."""

    def __init__(self, blank: str | None) -> None:
        self.blank = blank

    def __missing__(self, code: int) -> str | None:
        letter = chr(code)
        kind = category(letter)
        if letter in "-/_,;:." or kind == "Pd":
            self[code] = self.blank
        elif letter in "!?¡¿…*\"'`´·・、。" or kind in {"Ps", "Pe", "Pi", "Pf"}:
            self[code] = None
        else:
            self[code] = f" {letter} " if kind[0] in "PS" else letter
        return self[code]


_JOINED, _SPACED = _Marks(None), _Marks(" ")
_NO_LETTER = str.maketrans("", "", "".join(c for c in map(chr, range(128)) if not c.isalnum()))
_FREE = frozenset({"a", "an", "the", "and", "in", *" ".join(UNITS).split()})
"""Words that two texts with the same forms need not share: articles, `&`, units, also "in"."""


class Forms(NamedTuple):
    """A text in the compared forms: without hyphens and slashes, and with spaces for them."""

    joined: str
    spaced: str


@lru_cache(maxsize=4096)  # the same passages are found repeatedly
def read_forms(text: str) -> Forms:
    """The normalised text, with each number as one word for its value."""
    if not text.isascii():
        text = _RAISED.sub(lambda raised: f"^{raised[0].translate(_SUPERSCRIPT)}", text)
        text = normalize("NFKC", text.replace("º", "°"))
    text = text.strip()
    if "*" in text or "_" in text or "`" in text:
        text = _MARKUP.sub(r"\2", text)
    if "+" in text:
        text = _PLUS.sub("", text)
    text = _WORDS.sub(_read_number_word, text.casefold())
    numeric = _DIGIT.search(text)
    if numeric:
        text = _normalise_numbers(text)
    if not text.isascii():
        text = normalize("NFC", _ACCENTS.sub("", normalize("NFD", text.translate(_LETTERS))))
    text = text.replace("&", " and ")
    if numeric:
        text = _BETWEEN.sub(r"\1 \2 ", text)
    joined, spaced = text.translate(_JOINED), text.translate(_SPACED)
    plain = _drop_articles(joined)
    return Forms(plain, plain if joined == spaced else _drop_articles(spaced))


def find_trace(text: str) -> str:
    """Letters or digits that a text has if it has `text` in the compared forms.

    They are the digits of the first number or the last word; "" if none is certain to stay. See
    `find_possible`.
    """
    lower = _lower_text(text)
    if _WORDS.search(lower):
        return ""
    number = _RUN.search(text)
    if number:
        digits = _OTHERS.sub("", number[1]) if _WHOLE.fullmatch(number[1]) else number[1][0]
        return digits.strip("0") if digits.isascii() else ""  # 5 thousand, 5,000 and 5000.0
    last = _LAST.search(lower.replace("'", ""))
    if last is None or _DIGIT.search(lower):
        return ""
    return "" if last[1] in _FREE or last[0].translate(_NO_LETTER) in _FREE else last[1]


def find_possible(traces: Mapping[str, str], text: str) -> list[str]:
    """The keys that a text can have in the compared forms, by their traces.

    It misses none, and finds most that a text does not have at a tenth of the cost of `read_forms`.
    """
    lower, letters = _keep_letters(text)
    left = [key for key, part in traces.items() if part in letters]
    if len(left) == len(traces) or not any(map(str.isdecimal, traces.values())):
        return left
    # numbers in words or in other digits, and those in the compared form, such as 5point5
    if "point" in lower or _WORDS.search(lower):
        return list(traces)
    return left if text.isascii() or not _OTHER_DIGIT.search(lower) else list(traces)


@lru_cache(maxsize=8)  # an answer is held against several accepted ones
def _keep_letters(text: str) -> tuple[str, str]:
    """A text in lower case, and its ASCII letters and digits alone."""
    lower = _lower_text(text)
    return lower, lower.translate(_NO_LETTER).encode("ascii", "ignore").decode()


def _lower_text(text: str) -> str:
    """A text in lower case, with diacritics and other marks after their letters."""
    if text.isascii():
        return text.lower()
    return normalize("NFKD", text).casefold().translate(_LETTERS)


def _drop_articles(text: str) -> str:
    """The words of a text without articles."""
    return " ".join(_ARTICLES.sub(" ", text).split())


def _read_number_word(words: re.Match[str]) -> str:
    """The digits of a number below 100 in words."""
    tens, unit, small = words.groups()
    if small:
        return str(_SMALL.index(small))
    return str(20 + 10 * _TENS.index(tens) + (_SMALL.index(unit) if unit else 0))


def _normalise_numbers(text: str) -> str:
    """The text with normalised numbers, each followed by its unit, with signs as words."""
    parts, done = list[str](), 0
    for run in _RUN.finditer(text):
        start, digits = run.start(), run[1]
        if text[start - 1 : start].isalpha():
            continue  # such as u235
        sign, point, odd = "", "", None
        if _MARKED.match(text, start):
            before = _BEFORE.search(text, max(done, start - _LONGEST), start)
            sign, point = before.groups("") if before else ("", "")
            start -= len(sign) + len(point)
            odd = _ODD_BEFORE.search(text, max(done, start - 4), start)
        first, *rest = _split_numbers(point + digits)
        parts += [text[done:start], _SIGN if odd else "", "minus" if sign else ""]
        for number in rest:
            parts += [_write_number(first, 0), " "]
            first = number
        parts += [_write_number(first, _read_power(run)), _UNIT_NAMES.get(run.lastgroup or "", "")]
        parts += [_SIGN if _has_sign_after(text, start, run.end()) else ""]
        done = run.end()
    return "".join([*parts, text[done:]])


def _has_sign_after(text: str, start: int, end: int) -> bool:
    """Whether a number has a sign after it, such as an unopened quote."""
    quote = text[end : end + 1]
    if quote and quote in "'\"`":
        return quote not in (text[0], text[start - 1 : start])
    return _ODD_AFTER.match(text, end) is not None


def _split_numbers(digits: str) -> list[str]:
    """The numbers in digits with spaces, commas and points."""
    if _WHOLE.fullmatch(digits):
        return [digits]
    return re.split("[, ]", digits)


def _read_power(run: re.Match[str]) -> int:
    """The power of ten after a number."""
    words = sum(_SCALES[word] for word in run[4].replace("-", " ").split(" ")[1:])
    return int(run[2] or run[3] or 0) + words + _PREFIXES.get(run["prefix"], 0)


def _write_number(number: str, places: int) -> str:
    """A number times a power of ten as plain digits; other texts unchanged."""
    if (number.isdecimal() and not places) or not _WHOLE.fullmatch(number):
        return number
    comma = _DECIMAL_COMMA.fullmatch(number)
    number = number.replace(",", ".") if comma else re.sub("[,' ’]", "", number)
    if "." not in number and not places:
        return number  # keeps leading zeros, which a code may have
    whole, _, part = f"{Decimal(f'{number}e{places}'):f}".partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    return f"{whole}point{part}" if part else whole
