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
from unicodedata import normalize

from agent_envs.search_qa.forms import UNITS, Forms, forms, possible, trace
from agent_envs.search_qa.words import (
    FIGURE,
    NOT_BY_CODE,
    STOPS,
    TELLING,
    common,
    figure,
    led,
    limited,
    long,
    shown,
    shows,
    stands_in,
    stripped,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CLOSED = frozenset({"yes", "no", "noanswer"})
_LEADING, _LEADING_NUMBER = (
    re.compile(rf"\A(?:it (?:is|was) |its )?(?:(?:{words}) )?(?:year )?")
    for words in ("as|at|by|for|from|in|into|of|on|to|with", "at|for|in|of")
)
_IT_IS = re.compile("[Ii]t (?:is|was) [^ ]+$")
_BESIDE, _LABELLED = re.compile(r", | ?\("), re.compile(r"(?::| =) ")
_NUCLIDE = re.compile(r"\W*?\^?(\d{1,3}) ?([A-Z][a-z]?)\W*")
_LONG = 40
"""Most words of an answer that are searched for an accepted one."""
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
        return () if self._closed else tuple(raw for raw in self._told if common(raw))

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
        return any(stands_in(gold, asked) for gold in self.golds)

    @cached_property
    def _showing(self) -> tuple[str, ...]:
        """The accepted answers that a text can show."""
        known = {forms(bridge) for bridge in self._bridges}
        return tuple(raw for raw in self._told if forms(raw) not in known and shows(raw))

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
        return frozenset(" ".join(forms(self._question)).split()) - TELLING

    @cached_property
    def _written(self) -> frozenset[str]:
        """The question's words as written."""
        words = {stripped(word) for word in self._question.split()}
        return frozenset(words | {word.removesuffix("'s") for word in words})

    @cached_property
    def _any(self) -> frozenset[str]:
        """The question's words in any case."""
        return frozenset(word.casefold() for word in self._written) - TELLING | {"the"}

    @cached_property
    def _lower(self) -> frozenset[str]:
        """The question's words in lower case."""
        lower = {word.casefold() for word in self._written if word.islower()}
        lower = (lower | {"the", "of"}) - TELLING
        if self._words or any(not long(gold) and gold.joined.isalpha() for gold in self.golds):
            # "is it" is not the answer "it", nor "is ms" the answer "ms"
            lower -= NOT_BY_CODE
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
            if not word.isalpha() and word[0].isalpha() and figure(word)
        ]

    @cached_property
    def _named_numbers(self) -> set[tuple[str, str]]:
        parts = [stripped(word) for word in self._question.split()]
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
            elif not figure(core) or self._measured(before, after):
                return True
        return False

    def _readings(self, answer: str) -> Iterator[tuple[str, str, str]]:
        """All readings of an answer without the allowed words before and after it."""
        yield answer, "", ""
        if not self.choice:
            yield self._unframed(answer)
        name, *beside = _BESIDE.split(answer, maxsplit=1)
        if beside:
            together = self._together(name, stripped(beside[0]), bracketed="(" in answer)
            yield from ((reading, "", "") for reading in together)
        label, *rest = _LABELLED.split(answer, maxsplit=1)
        if not (rest or beside) or self.choice:
            return
        if rest and self._named(label):
            yield rest[0], label, ""
        if self._named(*beside):
            yield name, "", beside[0]

    def _together(self, name: str, other: str, *, bracketed: bool) -> Iterator[str]:
        """Readings of a name with what is beside it after a comma or in brackets."""
        if self._is(name) and self._is(other):
            yield name
        if not figure(name) or self._measured("", other):
            yield f"{name} in {other}"  # in case that is an accepted answer
        if self._person and not bracketed:
            yield f"{other} {name}"  # the last name first

    def _is(self, answer: str) -> bool:
        if self._words:
            bare = stripped(answer).casefold()
            if any(bare == stripped(raw).casefold() for raw in self._words):
                return True
        given = forms(answer)
        name = _led_by(_LEADING, given)
        for gold in self.golds:
            if FIGURE.match(gold.spaced):
                plain = _led_by(_LEADING_NUMBER, given)
            else:
                plain = name if long(gold) or _IT_IS.match(answer.strip()) else given
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
        return given.spaced == f"{gold.spaced}s" and long(gold) and self._money

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
        return any(shown(raw, text) for text in texts for raw in possible(showing, text))

    def _unframed(self, answer: str) -> tuple[str, str, str]:
        """The answer, and the words around it that the question has in lower case."""
        words = answer.split()
        first, last = 0, len(words)
        while first < last and self._plain(words[first]):
            first += 1
        while first < last and words[last - 1].islower() and self._plain(words[last - 1]):
            last -= 1
        if last < len(words) and answer.islower() and not figure(words[first:last]):
            last = len(words)
        return " ".join(words[first:last]), " ".join(words[:first]), " ".join(words[last:])

    def _plain(self, word: str) -> bool:
        """Whether the question has the word in lower case."""
        bare = stripped(word).casefold()
        return bare in self._folded and bare in self._lower and not self._code(word)

    def _code(self, word: str) -> bool:
        """Whether a word has capitals that the question does not have, such as the code IN."""
        bare = stripped(word)
        return bare.isupper() and len(bare) > 1 and bare not in self._written

    def _named(self, *texts: str) -> bool:
        """Whether the question has all words of the texts, which must not be empty."""
        words = [word for text in texts for word in re.split("[ ,;:]+", text) if stripped(word)]
        return not STOPS.issuperset(stripped(word).casefold() for word in words) and all(
            stripped(word).casefold() in self._any and not self._code(word) for word in words
        )

    def _counted(self, gold: str, given: str) -> bool:
        """Whether the answer is a number, `gold`, with words of the question."""
        if not FIGURE.match(gold) or self.choice:
            return False
        before, found, after = f" {given} ".partition(f" {gold} ")
        if not found or limited(before, after) or not self._counts(after):
            return False
        beside = f"{before} {after}"
        for mixed in self._mixed:
            beside = beside.replace(mixed, " ")
        words = beside.split()
        return self._asked.issuperset(words) and not any(map(FIGURE.match, words))

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
            return not limited(before, after)
        unit = forms(f"0 {after}").spaced.partition(" ")[2]
        written = forms(after.split(maxsplit=1)[0]).spaced
        return not limited(before, after) and self._counts(unit, written)

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
        if figure(core):
            behind = forms(" ".join([words[-1], *after])).spaced.split()
            units = [word for word in behind if word in UNITS]
            own = forms(core).spaced.split()
            fits = self._counts(" ".join(forms(" ".join(after)).spaced.split()[:1]))
            return (
                fits
                and not figure([word for word in before + after if word[0].isdigit()])
                and set(units[:1]) <= {*own, *self._asked}
                and not limited(" ".join(before), " ".join(after))
            )
        if not long(forms(core)):
            return led(before) and not NOT_BY_CODE.intersection(
                stripped(word).casefold() for word in after
            )
        return self._separate(before[-1:], words[:1], before=True) and self._separate(
            after[:1], words[-1:], before=False
        )

    def _separate(self, beside: list[str], word: list[str], *, before: bool) -> bool:
        """Whether a word beside a name cannot form another name with it."""
        if not beside:
            return True
        bare = stripped(beside[0])
        mark = beside[0][-1:] if before else word[0][-1:]
        if bare.casefold() in STOPS or mark in ",:;)" or (not before and beside[0][0] == "("):
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
            and (stripped(words[place - 1]), stripped(words[place])) in self._named_numbers
        )

    def _says_nothing(self, word: str, *, first: bool, lower: bool) -> bool:
        bare = stripped(word)
        if bare.casefold() in STOPS:
            return not (bare.isupper() and len(bare) > 1) and word[-1] not in ",;|/"
        if not bare or bare.casefold() in TELLING or bare[0].isdigit() or not whole(word):
            return False
        bare = bare.removesuffix("'s").removesuffix("’s")
        begins = first and bare[1:].islower() and bare.casefold() in self._written
        return bare in self._written or begins or (lower and bare in self._any)


def _led_by(lead: re.Pattern[str], given: Forms) -> Forms:
    """An answer without its leading words."""
    return Forms(*(lead.sub("", words, count=1) for words in given))


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


def _overlap(gold: Forms, given: Forms) -> float:
    ours, theirs = given.joined.split(), gold.joined.split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))
