"""Accepted answers in default mode: comparison of answers, and detection of answers in texts.

Answers are compared in the forms of `forms`. Answers that list candidates, deny, paste results or
repeat the question are wrong.
`strict_compat=True` compares by `answers` instead. Not supported: the day if a year is accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import category, normalize

from agent_envs.search_qa.forms import UNITS, Forms, forms, possible, trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CLOSED = frozenset({"yes", "no", "noanswer"})
_LEADING, _LEADING_NUMBER = (
    re.compile(rf"\A(?:it (?:is|was) |its )?(?:(?:{words}) )?(?:year )?")
    for words in ("as|at|by|for|from|in|into|of|on|to|with", "at|for|in|of")
)
_STOPS = frozenset(
    re.findall(
        r"\w+",
        "a an the it its is was are were be been this that these those which what who whom there "
        "in on at of by for from into to with as called named known answer",
    )
)
"""Words without information beside an answer."""
_TELLING = frozenset(
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
_NOT_BY_CODE, _COMMON, _LIMITING = _STOPS - _CODE, _STOPS | _TELLING, _LIMITS | _TELLING
_PART = re.compile(r"[\w/]")
_PATH = re.compile(r"(?<!\w)\w+(?:[/_]\w+)+")
_IT_IS = re.compile("[Ii]t (?:is|was) [^ ]+$")
_BESIDE, _LABELLED = re.compile(r", | ?\("), re.compile(r"(?::| =) ")
_NUCLIDE = re.compile(r"\W*?\^?(\d{1,3}) ?([A-Z][a-z]?)\W*")
_EDGES = " \t\n.,;:!?…\"'“”‘’«»()[]{}*_`"
_LONG = 40
"""Most words of an answer that are searched for an accepted one."""
_CODE_LETTERS, _CAPITALS, _PARTICLE_LETTERS = 3, 4, 2
"""Most letters of a code, of a code in capitals, and of a part of many names, such as "de"."""
_FIGURE = re.compile(r"(?:minus)?\d")
_BARE = re.compile(r"(?:minus)?\d+(?:point\d+)?")


class Accepted:
    """The accepted answers of one question.

    A choice is a question that names an accepted answer itself or is answered by yes or no. For a
    choice only the answer alone counts, for every reward, as in HotpotQA for yes and no.

    Args:
        answers: as in the data; answers that are empty after normalisation are ignored.
        question: its words have no information beside an answer.
        bridges: answers of earlier steps; these do not count as answers in passages.
    """

    def __init__(self, answers: Sequence[str], question: str, bridges: Sequence[str] = ()) -> None:
        self._answers, self._question, self._bridges = answers, question, bridges

    @cached_property
    def _person(self) -> bool:
        """Whether the question asks for a person."""
        return self._question.casefold().lstrip().startswith(("who ", "whom ", "by whom "))

    @cached_property
    def _folded(self) -> str:
        """The question without case; has all that `_lower` has."""
        return f"{self._question.casefold()} the of"

    @cached_property
    def _told(self) -> tuple[str, ...]:
        """The accepted answers as in the data."""
        return tuple(raw for raw, part in self._traces.items() if part or _something(forms(raw)))

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """The accepted answers that are also common words."""
        return () if self._closed else tuple(raw for raw in self._told if _common(raw))

    @cached_property
    def golds(self) -> tuple[Forms, ...]:
        """All other accepted answers in the compared forms."""
        told = dict.fromkeys(forms(raw) for raw in self._told if raw not in self._words)
        return tuple(dict.fromkeys([*told, *_bare(told)]))

    @property
    def _closed(self) -> bool:
        return all(answer.strip(" .!").casefold() in CLOSED for answer in self._answers)

    @cached_property
    def choice(self) -> bool:
        """Whether the question is a choice."""
        if self._closed or not possible(self._traces, self._question):
            return self._closed
        asked = forms(self._question)
        return any(_stands_in(gold, asked) for gold in self.golds)

    @cached_property
    def _showing(self) -> tuple[str, ...]:
        """The accepted answers that a text can show."""
        known = {forms(bridge) for bridge in self._bridges}
        return tuple(raw for raw in self._told if forms(raw) not in known and _shows(raw))

    @property
    def silent(self) -> bool:
        """Whether no text can show an answer."""
        return self.choice or not self._showing

    @cached_property
    def _traces(self) -> dict[str, str]:
        """The different accepted answers as in the data, each with its `trace`."""
        return {raw: trace(raw) for raw in self._answers}

    @cached_property
    def _asked(self) -> frozenset[str]:
        """The question's words in the compared form."""
        return frozenset(" ".join(forms(self._question)).split()) - _TELLING

    @cached_property
    def _written(self) -> frozenset[str]:
        """The question's words as written."""
        words = {_stripped(word) for word in self._question.split()}
        return frozenset(words | {word.removesuffix("'s") for word in words})

    @cached_property
    def _any(self) -> frozenset[str]:
        """The question's words in any case."""
        return frozenset(word.casefold() for word in self._written) - _TELLING | {"the"}

    @cached_property
    def _lower(self) -> frozenset[str]:
        """The question's words in lower case."""
        lower = {word.casefold() for word in self._written if word.islower()}
        lower = (lower | {"the", "of"}) - _TELLING
        if self._words or any(not _long(gold) and gold.joined.isalpha() for gold in self.golds):
            # "is it" is not the answer "it", nor "is ms" the answer "ms"
            lower -= _NOT_BY_CODE
        return frozenset(lower)

    @property
    def _money(self) -> bool:
        lower = (word.casefold() for word in self._written if word.islower())
        return not {"currency", "pay", "pays", "euro", "money"}.isdisjoint(lower)

    @cached_property
    def _mixed(self) -> list[str]:
        """The question's words of letters with numbers, such as U-235."""
        return [
            f" {forms(word).spaced} "
            for word in self._question.split()
            if not word.isalpha() and word[0].isalpha() and _figure(word)
        ]

    @cached_property
    def _named_numbers(self) -> set[tuple[str, str]]:
        parts = [_stripped(word) for word in self._question.split()]
        return {(a, b) for a, b in pairwise(parts) if a.isalpha() and b.isdigit()}

    def right(self, answer: str) -> bool:
        """Whether it is an accepted answer.

        Allowed are a preposition or "it is" before it, another accepted answer in brackets, and
        words of the question: beside a number, before a colon, after a comma or in brackets; beside
        a name only words that are not names (the city of Chad, Portuguese language, but not Panama
        City). For a choice no words of the question: with "Which is not larger?" or "Which is
        farther from the larger city?", "Lima is larger" says something else.
        """
        if answer in self._told:
            return True
        if not possible(self._traces, answer):
            return False
        others = set[str]()  # readings that are not an accepted answer; they often repeat
        for core, before, after in self._readings(answer):
            if core in others:
                continue
            if not self._is(core):
                others.add(core)
            elif not _figure(core) or self._measured(before, after):
                return True
        return False

    def _readings(self, answer: str) -> Iterator[tuple[str, str, str]]:
        """All readings of an answer without the allowed words before and after it."""
        yield answer, "", ""
        if not self.choice:
            yield self._unframed(answer)
        name, *beside = _BESIDE.split(answer, maxsplit=1)
        if beside:
            other = _stripped(beside[0])
            if self._is(name) and self._is(other):
                yield name, "", ""
            if not _figure(name) or self._measured("", other):
                yield f"{name} in {other}", "", ""  # in case that is an accepted answer
            if self._person and "(" not in answer:
                yield f"{other} {name}", "", ""  # the last name first
        label, *rest = _LABELLED.split(answer, maxsplit=1)
        if not (rest or beside) or self.choice:
            return
        if rest and self._named(label):
            yield rest[0], label, ""
        if self._named(*beside):
            yield name, "", beside[0]

    def _is(self, answer: str) -> bool:
        if self._words:
            bare = _stripped(answer).casefold()
            if any(bare == _stripped(raw).casefold() for raw in self._words):
                return True
        given = forms(answer)
        name = _led_by(_LEADING, given)
        for gold in self.golds:
            if _FIGURE.match(gold.spaced):
                plain = _led_by(_LEADING_NUMBER, given)
            else:
                plain = name if _long(gold) or _IT_IS.match(answer.strip()) else given
            if gold.joined in given + plain or gold.spaced in given + plain:
                return True
            if self._counted(gold.spaced, plain.spaced) or self._respelled(gold, name):
                return True
        nuclide = _NUCLIDE.fullmatch(normalize("NFKC", answer)) if len(answer) < _LONG else None
        return nuclide is not None and self._isotope(nuclide[2], nuclide[1])

    def _respelled(self, gold: Forms, given: Forms) -> bool:
        """Whether it is a person with initials for other names, or the plural of a currency."""
        if self._person:
            words, said = gold.spaced.split(), given.spaced.split()
            if len(words) == len(said) > 1 and words[-1] == said[-1]:
                return all(b in {a, a[0]} for a, b in zip(words, said, strict=True))
        return given.spaced == f"{gold.spaced}s" and _long(gold) and self._money

    def _isotope(self, symbol: str, mass: str) -> bool:
        """Whether the accepted answers are an isotope, and these are its symbol and mass."""
        named = f"{symbol.casefold()} {mass}"
        golds = {gold.spaced for gold in self.golds}
        return named in golds and any(gold != named and gold.endswith(f" {mass}") for gold in golds)

    def paid(self, reward: str, answer: str) -> float:
        """The reward "em", "f1" or "sub_em".

        "sub_em": 1 for an answer with an accepted one and otherwise only words without information:
        stop words and words of the question, but no negation, other number or other name.
        "f1": for the same answers SQuAD's F1 of words, so more words give less; a part of a name,
        such as Sudan of South Sudan, is a different name.
        """
        return 1.0 if self.right(answer) else self.paid_in_part(reward, answer)

    def paid_in_part(self, reward: str, answer: str) -> float:
        """The reward "em", "f1" or "sub_em" for an answer that is not `right`."""
        if reward == "em" or not possible(self._traces, answer) or self.choice:
            return 0.0
        if not self._held(answer.split()):
            return 0.0
        return max(_overlap(gold, forms(answer)) for gold in self.golds) if reward == "f1" else 1.0

    def shown(self, texts: Iterable[str]) -> bool:
        """Whether one of the texts shows an accepted answer.

        In whole words, not as part of a path; codes and words such as "it" must match as written.
        Always False for a choice: the question contains its answers, so they are no evidence.
        """
        if self.choice:
            return False
        showing = {raw: self._traces[raw] for raw in self._showing}
        return any(_shown(raw, text) for text in texts for raw in possible(showing, text))

    def _unframed(self, answer: str) -> tuple[str, str, str]:
        """The answer, and the words around it that the question has in lower case."""
        words = answer.split()
        first, last = 0, len(words)
        while first < last and self._plain(words[first]):
            first += 1
        while first < last and words[last - 1].islower() and self._plain(words[last - 1]):
            last -= 1
        if last < len(words) and answer.islower() and not _figure(words[first:last]):
            last = len(words)
        return " ".join(words[first:last]), " ".join(words[:first]), " ".join(words[last:])

    def _plain(self, word: str) -> bool:
        """Whether the question has the word in lower case."""
        bare = _stripped(word).casefold()
        return bare in self._folded and bare in self._lower and not self._code(word)

    def _code(self, word: str) -> bool:
        """Whether a word has capitals that the question does not have, such as the code IN."""
        bare = _stripped(word)
        return bare.isupper() and len(bare) > 1 and bare not in self._written

    def _named(self, *texts: str) -> bool:
        """Whether the question has all words of the texts, which must not be empty."""
        words = [word for text in texts for word in re.split("[ ,;:]+", text) if _stripped(word)]
        return not _STOPS.issuperset(_stripped(word).casefold() for word in words) and all(
            _stripped(word).casefold() in self._any and not self._code(word) for word in words
        )

    def _counted(self, gold: str, given: str) -> bool:
        """Whether the answer is a number, `gold`, with words of the question."""
        if not _FIGURE.match(gold) or self.choice:
            return False
        before, found, after = f" {given} ".partition(f" {gold} ")
        if not found or _limited(before, after) or not self._counts(after):
            return False
        beside = f"{before} {after}"
        for mixed in self._mixed:
            beside = beside.replace(mixed, " ")
        words = beside.split()
        return self._asked.issuperset(words) and not any(map(_FIGURE.match, words))

    def _counts(self, after: str, written: str = "") -> bool:
        """Whether the words after a number are not a unit, or the unit of the question.

        That is the unit after "how many", "much", "degrees" or "in", but not "in the years of the
        war", nor "in years" if the question asks how many of something else.

        Args:
            after: in the compared form.
            written: the first of them as written.
        """
        unit = next(iter(after.split()), "")
        if unit not in UNITS:
            return True
        question = f" {forms(self._question).spaced} "
        for name in (unit, written or unit):
            if any(f" {word} {name} " in question for word in ("many", "much", "degrees")):
                return True
            counted = " how many " in question and unit != "percent"
            if f" in {name} " in question and not counted and f"in the {name}" not in self._folded:
                return True
        return False

    def _measured(self, before: str, after: str) -> bool:
        """Whether the words around a number keep its value and its unit."""
        if not after:
            return not _limited(before, after)
        unit = forms(f"0 {after}").spaced.partition(" ")[2]
        written = forms(after.split(maxsplit=1)[0]).spaced
        return not _limited(before, after) and self._counts(unit, written)

    def _held(self, words: list[str]) -> bool:
        """Whether words contain an accepted answer and otherwise no information."""
        lower, places = all(word == word.lower() for word in words), range(len(words))
        first = next((i for i in places if not self._idle(words, i, lower=lower)), None)
        if first is None:
            return False
        last = next(i + 1 for i in places[::-1] if not self._idle(words, i, lower=lower))
        if last - first > _LONG:
            return False
        return any(
            self._alone(words[:i], words[i:j], words[j:])
            for i in range(max(0, first - 4), first + 1)
            for j in range(last, min(len(words), last + 4) + 1)
        )

    def _alone(self, before: list[str], words: list[str], after: list[str]) -> bool:
        """Whether words are an accepted answer that the words around them do not change."""
        core = " ".join(words)
        if not self._is(core):
            return False
        if _figure(core):
            behind = forms(" ".join([words[-1], *after])).spaced.split()
            units = [word for word in behind if word in UNITS]
            own = forms(core).spaced.split()
            fits = self._counts(" ".join(forms(" ".join(after)).spaced.split()[:1]))
            return (
                fits
                and not _figure([word for word in before + after if word[0].isdigit()])
                and set(units[:1]) <= {*own, *self._asked}
                and not _limited(" ".join(before), " ".join(after))
            )
        if not _long(forms(core)):
            return _led(before) and not _NOT_BY_CODE.intersection(
                _stripped(word).casefold() for word in after
            )
        return self._separate(before[-1:], words[:1], before=True) and self._separate(
            after[:1], words[-1:], before=False
        )

    def _separate(self, beside: list[str], word: list[str], *, before: bool) -> bool:
        """Whether a word beside a name cannot form another name with it."""
        if not beside:
            return True
        bare = _stripped(beside[0])
        mark = beside[0][-1:] if before else word[0][-1:]
        if bare.casefold() in _STOPS or mark in ",:;)" or (not before and beside[0][0] == "("):
            return True
        return (
            bare.casefold() in self._lower
            and bare.islower()
            and not (word[0].islower() and not before)
        )

    def _idle(self, words: list[str], place: int, *, lower: bool) -> bool:
        """Whether a word of an answer has no information (stop or question word)."""
        return self._says_nothing(words[place], first=not place, lower=lower) or (
            place > 0
            and (_stripped(words[place - 1]), _stripped(words[place])) in self._named_numbers
        )

    def _says_nothing(self, word: str, *, first: bool, lower: bool) -> bool:
        bare = _stripped(word)
        if bare.casefold() in _STOPS:
            return not (bare.isupper() and len(bare) > 1) and word[-1] not in ",;|/"
        if not bare or bare.casefold() in _TELLING or bare[0].isdigit() or not _whole(word):
            return False
        bare = bare.removesuffix("'s").removesuffix("’s")
        begins = first and bare[1:].islower() and bare.casefold() in self._written
        return bare in self._written or begins or (lower and bare in self._any)


def _stripped(word: str, ending: str = "") -> str:
    """A word without the punctuation around it."""
    return word.strip(_EDGES).removesuffix(ending)


def _whole(word: str) -> bool:
    """Whether a word has no sign that `forms` makes a word."""
    return all(category(letter)[0] != "S" and letter not in "%&@#" for letter in word)


def _led_by(lead: re.Pattern[str], given: Forms) -> Forms:
    """An answer without its leading words."""
    return Forms(*(lead.sub("", words, count=1) for words in given))


def _long(gold: Forms) -> bool:
    """Whether an answer has more than three letters; shorter ones may be codes."""
    return len(gold.joined) > _CODE_LETTERS


def _common(raw: str) -> bool:
    """Whether an answer is also a common word, such as the code IN."""
    return _stripped(raw).casefold() in _COMMON


def _shows(raw: str) -> bool:
    """Whether an answer can be distinguished from other words of a text."""
    if _common(raw):
        return raw[0] in ".+" or (raw.isupper() and len(raw) > 1)
    return len(raw) > _PARTICLE_LETTERS or not raw.islower()


def _shown(raw: str, text: str) -> bool:
    """Whether a text has an accepted answer in whole words; codes must match as written."""
    if _common(raw) or (raw.isupper() and raw.isalpha() and len(raw) <= _CAPITALS):
        return _stands_alone(raw, text)
    if "/" in text or "_" in text:
        text = _PATH.sub(_one_word, text)
    return _stands_in(forms(raw), forms(text))


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


def _led(before: list[str]) -> bool:
    """Whether the words before a code lead to it: "The code of Kenya is KE", not "it KE"."""
    low = [_stripped(word).casefold() for word in before]
    if before and (before[-1][-1] == ":" or (low[-1] == "is" and low[:-1])):
        return low[-1] != "is" or low[-2] == "answer" or low[-2] not in _STOPS
    return not _NOT_BY_CODE.intersection(low)


def _figure(text: str | list[str]) -> bool:
    """Whether a text has a number."""
    words = text if isinstance(text, list) else text.split()
    return any(_FIGURE.match(word) for part in words for word in forms(part).spaced.split())


def _limited(before: str, after: str) -> bool:
    """Whether the word before or after a number changes its value."""
    for words in (forms(before).spaced.split()[::-1], forms(after).spaced.split()):
        kept = (word for word in words if word in _LIMITS or word not in _STOPS | {"year"})
        if next(kept, "") in _LIMITING:
            return True
    return False


def _something(gold: Forms) -> bool:
    return bool(gold.joined and gold.spaced)


def _bare(golds: Iterable[Forms]) -> Iterator[Forms]:
    """Percentages without the word, which their questions have; degrees as plain numbers."""
    golds = set(golds)
    for gold in sorted(golds):
        number, _, unit = gold.joined.partition(" ")
        if not _BARE.fullmatch(number):
            continue
        if unit == "percent":
            yield Forms(number, number)
        if unit == "celsius" and Forms(number, number) in golds:
            yield Forms(f"{number} degrees", f"{number} degrees")


def _stands_in(gold: Forms, text: Forms) -> bool:
    return any(f" {part} " in f" {whole} " for part, whole in zip(gold, text, strict=True))


def _overlap(gold: Forms, given: Forms) -> float:
    ours, theirs = given.joined.split(), gold.joined.split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))
