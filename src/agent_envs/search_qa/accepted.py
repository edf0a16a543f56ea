"""Accepted answers in default mode: what counts as one, and what of a text shows one.

Names are compared without case, articles, punctuation and Latin diacritics; numbers by their value
with sign, decimal point, thousands separators, powers of ten and unit. An answer that lists, pastes
or repeats the question is none. `strict_compat=True` compares as `answers` does instead. Left out:
words for numbers from 100, conversion of units.
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import category, normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BESIDE = 3
"""Words that "sub_em" allows beside the accepted answer."""
CLOSED = frozenset({"yes", "no", "noanswer"})
REWARDS = ("em", "f1", "sub_em")

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
_WORDS = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_SMALL[1:10])}))?|({'|'.join(_SMALL)}))\b"
)
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}|\d+,\d{4,}|\d{4,},\d{3}|0\d*,\d+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_UNITS = {
    "celsius": r"°\s*c\b|(?:degrees?|deg)\s(?:celsius|centigrade|c)\b|celsius\b|centigrade\b|c\b",
    "fahrenheit": r"°\s*f\b|(?:degrees?|deg)\s(?:fahrenheit|f)\b|fahrenheit\b|f\b",
    "": r"°|(?:degrees?|deg)\b",
    "percent": r"%|per\s?cent\b|pct\b",
    "square kilometres": r"(?:km\^?2|sq\.?\skm|square\skm|sq\.?\skilomet(?:er|re)s?)\b"
    r"|square\skilomet(?:er|re)s?\b",
    "square miles": r"(?:sq\.?\smi|square\smi|sq\.?\smiles?|square\smiles?)\b",
    "kilometres": r"(?:km|kilomet(?:er|re)s?)\b",
    "metres": r"(?:m|met(?:er|re)s?)\b",
    "years": r"(?:yrs?|years?)\b",
    "days": r"(?:d|days?)\b",
    "hours": r"(?:h|hrs?|hours?)\b",
    "minutes": r"(?:min|mins|minutes?)\b",
    "seconds": r"(?:s|secs?|seconds?)\b",
}
_RUN = re.compile(
    r"(\d(?:[.,' ’]?\d)*)"
    r"(?:e([+-]?\d{1,2})(?!\w)| ?[x×*] ?10\^([+-]?\d{1,2})(?!\d))?"
    rf"((?:[ -](?:{'|'.join(_SCALES)})\b)*)"
    rf"(?:\s?(?:{'|'.join(f'(?P<u{i}>{words})' for i, words in enumerate(_UNITS.values()))}))?"
)
"""Digits and what parts them, a power of ten, words for powers, a unit."""
_BEFORE = re.compile(r"((?<![\w.)])[-−–]|− |\b(?:minus|negative) )?((?<!\w)\.)?\Z")
_WHOLE = re.compile(r"\d{1,3}([,' ’])\d{3}(?:\1\d{3})*(?:\.\d+)?|\d*(?:[.,]\d+)?")
_LONGEST = len("negative .")
_LEADING = re.compile(
    r"\A(?:it (?:is|was) |its )?(?:(?:as|at|by|for|from|in|into|of|on|to|with) )?(?:year )?"
)
_FIGURE = re.compile(r"(?:minus)?\d")
_BARE = re.compile(r"(?:minus)?\d+(?:point\d+)?")


class _Marks(dict[int, str]):
    """For `str.translate`: punctuation goes, and what parts words becomes `blank`."""

    def __init__(self, blank: str) -> None:
        self.blank = blank

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if letter in "-/_,;:." or category(letter) == "Pd":
            self[code] = self.blank
        else:
            self[code] = "" if letter in "$+<=>^`|~" or category(letter)[0] == "P" else letter
        return self[code]


_JOINED, _SPACED = _Marks(""), _Marks(" ")


class Forms(NamedTuple):
    """A text as it is compared: with hyphens and slashes taken out, and with blanks for them."""

    joined: str
    spaced: str


@lru_cache(maxsize=4096)  # the same passages come up again and again
def forms(text: str) -> Forms:
    """The text without what does not matter, each number as one word that has its value."""
    text = _RAISED.sub(lambda raised: f"^{raised[0].translate(_SUPERSCRIPT)}", text)
    if not text.isascii():
        text = normalize("NFKC", text.replace("º", "°"))
    text = _numbers(_WORDS.sub(_figures_of, text.casefold()))
    if not text.isascii():
        text = normalize("NFC", _ACCENTS.sub("", normalize("NFD", text.translate(_LETTERS))))
    text = text.replace("&", " and ")
    kept = text.translate(_JOINED), text.translate(_SPACED)
    return Forms(*(" ".join(_ARTICLES.sub(" ", words).split()) for words in kept))


class Accepted:
    """The accepted answers of one question.

    A choice is a question that names an accepted answer itself or is answered by yes or no: there
    only the answer alone counts, whatever the reward, as HotpotQA has it for yes and no.
    """

    def __init__(self, answers: Sequence[str], question: str) -> None:
        told = dict.fromkeys(filter(_something, map(forms, answers)))
        bare = [_bare_percent(gold) for gold in told]
        self.golds = tuple(dict.fromkeys([*told, *filter(None, bare)]))
        asked = forms(question)
        self._asked = frozenset(f"{asked.joined} {asked.spaced}".split())
        common = [word for word in question.split() if word.islower()]
        self._common = {forms(word).joined for word in ["the", "of", *common]}
        closed = all(answer.strip(" .!").casefold() in CLOSED for answer in answers)
        self.choice = closed or any(_stands_in(gold, asked) for gold in self.golds)

    def right(self, answer: str) -> bool:
        """Whether it is an accepted answer.

        It may have a preposition or "it is" before it, another accepted one in brackets, and words
        of the question beside a number, before a colon, behind a comma or in brackets; beside a
        name, those that are no names (the city of Chad, Portuguese language, but not Panama City).
        """
        said = [answer, self._unframed(answer)]
        if not self.choice:
            label, _, rest = answer.partition(": ")
            said += [rest] if self._named(label) else []
            name, *beside = re.split(r", | ?\(", answer, maxsplit=1)
            said += [name] if self._named(*beside) or any(map(self._is, beside)) else []
        return any(map(self._is, said))

    def _is(self, answer: str) -> bool:
        given = forms(answer)
        plain = Forms(*(_LEADING.sub("", words) for words in given))
        return any(
            not set(gold).isdisjoint({*given, *plain}) or self._counted(gold.spaced, plain.spaced)
            for gold in self.golds
        )

    def paid(self, reward: str, answer: str) -> float:
        """What "em", "f1" or "sub_em" pays.

        "sub_em": 1 for an answer with an accepted one in whole words and at most `BESIDE` more.
        "f1": that of SQuAD over words, 0 where the numbers are others.
        """
        if reward == "em" or self.choice or self.right(answer):
            return float(self.right(answer))
        given = forms(answer)
        if reward == "sub_em":
            return float(any(_held(gold, given) for gold in self.golds))
        return max((_overlap(gold, given) for gold in self.golds), default=0.0)

    def shown(self, texts: Iterable[str]) -> bool:
        """Whether one of the texts has an accepted answer in whole words.

        Never for a choice: the question has its answers, so that finding them shows nothing.
        """
        if self.choice:
            return False
        return any(_stands_in(gold, forms(text)) for text in texts for gold in self.golds)

    def _unframed(self, answer: str) -> str:
        """The answer without words around it that the question has in lower case."""
        words = answer.split()
        first, last = 0, len(words)
        while first < last and self._plain(words[first]):
            first += 1
        while first < last and words[last - 1].islower() and self._plain(words[last - 1]):
            last -= 1
        return " ".join(words[first : len(words) if answer.islower() else last])

    def _plain(self, word: str) -> bool:
        """Whether the question has the word in lower case."""
        return forms(word).joined in self._common

    def _named(self, *texts: str) -> bool:
        """Whether the question has all words of the texts, of which there are some."""
        return bool(texts) and all(self._asked.issuperset(forms(t).spaced.split()) for t in texts)

    def _counted(self, gold: str, given: str) -> bool:
        """Whether the answer is a number, `gold`, with words of the question."""
        if self.choice or not _FIGURE.match(gold):
            return False
        before, found, after = f" {given} ".partition(f" {gold} ")
        return bool(found) and self._asked.issuperset(f"{before} {after}".split())


def _figures_of(words: re.Match[str]) -> str:
    """A number below 100 that is written in words."""
    tens, unit, small = words.groups()
    if small:
        return str(_SMALL.index(small))
    return str(20 + 10 * _TENS.index(tens) + (_SMALL.index(unit) if unit else 0))


def _numbers(text: str) -> str:
    """The text with each number in one way of writing, its unit after it."""
    written, done = list[str](), 0
    for run in _RUN.finditer(text):
        start, digits = run.start(), run[1]
        if text[start - 1 : start].isalpha():
            continue  # as in u235
        before = _BEFORE.search(text, max(done, start - _LONGEST), start)
        sign, point = before.groups("") if before else ("", "")
        first, *rest = _apart(point + digits)
        written += [text[done : start - len(sign) - len(point)], "minus" if sign else ""]
        done = run.end()
        for number in rest:
            written += [_written(first, 0), " "]
            first = number
        units = [f" {unit}" for i, unit in enumerate(_UNITS) if run[f"u{i}"] is not None]
        written += [_written(first, _places(run)), *units]
    return "".join([*written, text[done:]])


def _apart(digits: str) -> list[str]:
    """The numbers that digits with blanks, commas and points make."""
    if _WHOLE.fullmatch(digits):
        return [digits]
    return re.split("[, ]", digits)


def _places(run: re.Match[str]) -> int:
    """The power of ten after a number."""
    return int(run[2] or run[3] or 0) + sum(_SCALES[word] for word in re.split("[ -]", run[4])[1:])


def _written(number: str, places: int) -> str:
    """A number times a power of ten, digits alone; what is no number stays as it is."""
    if not _WHOLE.fullmatch(number):
        return number
    comma = _DECIMAL_COMMA.fullmatch(number)
    number = number.replace(",", ".") if comma else re.sub("[,' ’]", "", number)
    if "." not in number and not places:
        return number  # with the zeros that a code may begin with
    whole, _, part = f"{Decimal(f'{number}e{places}'):f}".partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    return f"{whole}point{part}" if part else whole


def _something(gold: Forms) -> bool:
    return bool(gold.joined and gold.spaced)


def _bare_percent(gold: Forms) -> Forms | None:
    """A percentage without the word, which its question has."""
    bare = gold.joined.removesuffix(" percent")
    return Forms(bare, bare) if bare != gold.joined and _BARE.fullmatch(bare) else None


def _stands_in(gold: Forms, text: Forms) -> bool:
    return any(f" {part} " in f" {whole} " for part, whole in zip(gold, text, strict=True))


def _figures(text: Forms) -> Counter[str]:
    """The numbers of a text."""
    return Counter(word for word in text.spaced.split() if _FIGURE.match(word))


def _held(gold: Forms, given: Forms) -> bool:
    """Whether an answer is `gold` with a few words more, none of them a number."""
    few = len(given.spaced.split()) <= len(gold.spaced.split()) + BESIDE
    return few and _stands_in(gold, given) and _figures(gold) == _figures(given)


def _overlap(gold: Forms, given: Forms) -> float:
    ours, theirs = given.joined.split(), gold.joined.split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    if not shared or _figures(gold) != _figures(given):
        return 0.0
    return 2 * shared / (len(ours) + len(theirs))
