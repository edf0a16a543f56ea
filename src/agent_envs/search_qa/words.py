"""Words of answers and of texts around them: which have information, and which change an answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import category

from agent_envs.search_qa.forms import forms

if TYPE_CHECKING:
    from agent_envs.search_qa.forms import Forms

STOPS = frozenset(
    re.findall(
        r"\w+",
        "a an the it its is was are were be been this that these those which what who whom there "
        "in on at of by for from into to with as called named known answer",
    )
)
"""Words without information beside an answer."""
TELLING = frozenset(
    re.findall(
        r"\w+",
        "no not nor neither never none non without except but cannot or and either both any all "
        "versus vs instead rather unlike other another opposite false wrong",
    )
)
"""Words that deny an answer or add an alternative, also if the question has them."""
_LIMITS = frozenset(
    re.findall(
        r"\w+",
        "by from to into until till since than over under above below before after about around "
        "near nearly almost up beyond within between during circa more less least most fewer later "
        "earlier as with on minus plus half times",
    )
)
"""Words that change the value of the number beside them."""
_CODE = frozenset(re.findall(r"\w+", "a an the of for"))
"""The words above that are allowed beside an answer of up to three letters."""
NOT_BY_CODE, _COMMON, _LIMITING = STOPS - _CODE, STOPS | TELLING, _LIMITS | TELLING
_PART = re.compile(r"[\w/]")
_PATH = re.compile(r"(?<!\w)\w+(?:[/_]\w+)+")
_EDGES = " \t\n.,;:!?…\"'“”‘’«»()[]{}*_`"
_CODE_LETTERS, _CAPITALS, _PARTICLE_LETTERS = 3, 4, 2
"""Most letters of a code, of a code in capitals, and of a part of many names, such as "de"."""
FIGURE = re.compile(r"(?:minus)?\d")


def stripped(word: str, ending: str = "") -> str:
    """A word without the punctuation around it."""
    return word.strip(_EDGES).removesuffix(ending)


def whole(word: str) -> bool:
    """Whether a word has no sign that `forms` makes a word."""
    return all(category(letter)[0] != "S" and letter not in "%&@#" for letter in word)


def long(gold: Forms) -> bool:
    """Whether an answer has more than three letters; shorter ones may be codes."""
    return len(gold.joined) > _CODE_LETTERS


def common(raw: str) -> bool:
    """Whether an answer is also a common word, such as the code IN."""
    return stripped(raw).casefold() in _COMMON


def shows(raw: str) -> bool:
    """Whether an answer can be distinguished from other words of a text."""
    if common(raw):
        return raw[0] in ".+" or (raw.isupper() and len(raw) > 1)
    return len(raw) > _PARTICLE_LETTERS or not raw.islower()


def shown(raw: str, text: str) -> bool:
    """Whether a text has an accepted answer in whole words; codes must match as written."""
    if common(raw) or _is_code(raw):
        return _stands_alone(raw, text)
    if "/" in text or "_" in text:
        text = _PATH.sub(_one_word, text)
    return stands_in(forms(raw), forms(text))


def _is_code(raw: str) -> bool:
    return raw.isupper() and raw.isalpha() and len(raw) <= _CAPITALS


def _stands_alone(raw: str, text: str) -> bool:
    """Whether a text has some words as written, not as part of a word or path."""
    at = text.find(raw)
    while at >= 0:
        end = at + len(raw)
        beside = text[max(0, at - 1) : at] + text[end : end + 1]
        if not _PART.search(beside):
            return True
        at = text.find(raw, at + 1)
    return False


def _one_word(path: re.Match[str]) -> str:
    return re.sub("[/_]", "", path[0])


def led(before: list[str]) -> bool:
    """Whether the words before a code lead to it: "The code of Kenya is KE", not "it KE"."""
    low = [stripped(word).casefold() for word in before]
    if before and (before[-1][-1] == ":" or (low[-1] == "is" and low[:-1])):
        return low[-1] != "is" or low[-2] == "answer" or low[-2] not in STOPS
    return not NOT_BY_CODE.intersection(low)


def figure(text: str | list[str]) -> bool:
    """Whether a text has a number."""
    words = text if isinstance(text, list) else text.split()
    return any(FIGURE.match(word) for part in words for word in forms(part).spaced.split())


def limited(before: str, after: str) -> bool:
    """Whether the word before or after a number changes its value."""
    for words in (forms(before).spaced.split()[::-1], forms(after).spaced.split()):
        kept = (word for word in words if word in _LIMITS or word not in STOPS | {"year"})
        if next(kept, "") in _LIMITING:
            return True
    return False


def stands_in(gold: Forms, text: Forms) -> bool:
    """Whether a text has an answer in whole words, in one of the compared forms."""
    return any(f" {part} " in f" {whole} " for part, whole in zip(gold, text, strict=True))
