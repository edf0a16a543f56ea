"""Accepted answers in default mode: comparison of answers, and detection of answers in texts.

Answers are compared in the forms of `forms`. Answers that list candidates, deny, paste results or
repeat the question are wrong.
`strict_compat=True` compares by `answers` instead. Not supported: the day if a year is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from unicodedata import category, normalize

from agent_envs.search_qa.answers import CLOSED, measure_overlap
from agent_envs.search_qa.forms import UNITS, Forms, find_possible, find_trace, read_forms

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
STOPS, TELLING, _LIMITS = (
    frozenset(re.findall(r"\w+", words))
    for words in (
        """a an the it its is was are were be been this that these those which what who whom there
        in on at of by for from into to with as called named known answer""",
        """no not nor neither never none non without except but cannot or and either both any all
        versus vs instead rather unlike other another opposite false wrong""",
        """by from to into until till since than over under above below before after about around
        near nearly almost up beyond within between during circa more less least most fewer later
        earlier as with on minus plus half times""",
    )
)
"""Words without information beside an answer; words that deny an answer or add an alternative, also
if the question has them; and words that change the value of the number beside them."""
_CODE = frozenset(re.findall(r"\w+", "a an the of for"))
"""The words above that are allowed beside an answer of up to three letters."""
NOT_BY_CODE, _COMMON, _LIMITING = STOPS - _CODE, STOPS | TELLING, _LIMITS | TELLING
_PATH = re.compile(r"(?<!\w)\w+(?:[/_]\w+)+")
_EDGES = " \t\n.,;:!?…\"'“”‘’«»()[]{}*_`"
_CODE_LETTERS, _CAPITALS, _PARTICLE_LETTERS = 3, 4, 2
"""Most letters of a code, of a code in capitals, and of a part of many names, such as "de"."""
FIGURE = re.compile(r"(?:minus)?\d")


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
    def _asks_person(self) -> bool:
        """Whether the question asks for a person."""
        return self._question.casefold().lstrip().startswith(("who ", "whom ", "by whom "))

    @cached_property
    def _folded_question(self) -> str:
        """The question without case; has all that `_lower_words` has."""
        return f"{self._question.casefold()} the of"

    @cached_property
    def _usable_answers(self) -> tuple[str, ...]:
        """The accepted answers as in the data."""
        return tuple(raw for raw, part in self._traces.items() if part or all(read_forms(raw)))

    @cached_property
    def _common_answers(self) -> tuple[str, ...]:
        """The accepted answers that are also common words."""
        return tuple(r for r in self._usable_answers if is_common(r) and not self._is_closed)

    @cached_property
    def golds(self) -> tuple[Forms, ...]:
        """All other accepted answers in the compared forms."""
        names = [raw for raw in self._usable_answers if raw not in self._common_answers]
        golds = dict.fromkeys(map(read_forms, names))
        return tuple(dict.fromkeys([*golds, *_strip_units(golds)]))

    @property
    def _is_closed(self) -> bool:
        return all(answer.strip(" .!").casefold() in CLOSED for answer in self._answers)

    @cached_property
    def choice(self) -> bool:
        """Whether the question is a choice."""
        if self._is_closed or not find_possible(self._traces, self._question):
            return self._is_closed
        asked = read_forms(self._question)
        return any(stands_in(gold, asked) for gold in self.golds)

    @cached_property
    def _showable_answers(self) -> tuple[str, ...]:
        """The accepted answers that a text can show."""
        known = {read_forms(bridge) for bridge in self._bridges}
        able = (raw for raw in self._usable_answers if can_be_shown(raw))
        return tuple(raw for raw in able if read_forms(raw) not in known)

    @property
    def silent(self) -> bool:
        """Whether no text can show an answer."""
        return self.choice or not self._showable_answers

    @cached_property
    def _traces(self) -> dict[str, str]:
        """The different accepted answers as in the data, each with its `find_trace`."""
        return {raw: find_trace(raw) for raw in self._answers}

    @cached_property
    def _question_forms(self) -> frozenset[str]:
        """The question's words in the compared form."""
        return frozenset(" ".join(read_forms(self._question)).split()) - TELLING

    @cached_property
    def _question_words(self) -> frozenset[str]:
        """The question's words as written."""
        words = {strip_marks(word) for word in self._question.split()}
        return frozenset(words | {word.removesuffix("'s") for word in words})

    @cached_property
    def _folded_words(self) -> frozenset[str]:
        """The question's words in any case."""
        return frozenset(word.casefold() for word in self._question_words) - TELLING | {"the"}

    @cached_property
    def _lower_words(self) -> frozenset[str]:
        """The question's words in lower case."""
        lower = {word.casefold() for word in self._question_words if word.islower()}
        lower = (lower | {"the", "of"}) - TELLING
        codes = [gold for gold in self.golds if not is_long(gold) and gold.joined.isalpha()]
        if self._common_answers or codes:
            # "is it" is not the answer "it", nor "is ms" the answer "ms"
            lower -= NOT_BY_CODE
        return frozenset(lower)

    @property
    def _asks_money(self) -> bool:
        lower = (word.casefold() for word in self._question_words if word.islower())
        return not {"currency", "pay", "pays", "euro", "money"}.isdisjoint(lower)

    @cached_property
    def _mixed_words(self) -> list[str]:
        """The question's words of letters with numbers, such as U-235."""
        return [
            f" {read_forms(word).spaced} "
            for word in self._question.split()
            if not word.isalpha() and word[0].isalpha() and has_figure(word)
        ]

    @cached_property
    def _numbered_names(self) -> set[tuple[str, str]]:
        parts = [strip_marks(word) for word in self._question.split()]
        return {(a, b) for a, b in pairwise(parts) if a.isalpha() and b.isdigit()}

    def is_right(self, answer: str) -> bool:
        """Whether it is an accepted answer.

        Allowed are a preposition or "it is" before it, another accepted answer in brackets, and
        words of the question: beside a number, before a colon, after a comma or in brackets; beside
        a name only words that are not names (the city of Chad, Portuguese language, but not Panama
        City). For a choice no words of the question: with "Which is not larger?" or "Which is
        farther from the larger city?", "Lima is larger" says something else.
        """
        if answer in self._usable_answers:
            return True
        if not find_possible(self._traces, answer):
            return False
        others = set[str]()  # readings that are not an accepted answer; they often repeat
        for core, before, after in self._list_readings(answer):
            if core in others:
                continue
            if not self._is_accepted(core):
                others.add(core)
            elif not has_figure(core) or self._keeps_measure(before, after):
                return True
        return False

    def _list_readings(self, answer: str) -> Iterator[tuple[str, str, str]]:
        """All readings of an answer without the allowed words before and after it."""
        yield answer, "", ""
        if not self.choice:
            yield self._strip_frame(answer)
        name, *beside = _BESIDE.split(answer, maxsplit=1)
        if beside:
            together = self._join_names(name, strip_marks(beside[0]), bracketed="(" in answer)
            yield from ((reading, "", "") for reading in together)
        label, *rest = _LABELLED.split(answer, maxsplit=1)
        if not (rest or beside) or self.choice:
            return
        if rest and self._question_has(label):
            yield rest[0], label, ""
        if self._question_has(*beside):
            yield name, "", beside[0]

    def _join_names(self, name: str, other: str, *, bracketed: bool) -> Iterator[str]:
        """Readings of a name with what is beside it after a comma or in brackets."""
        if self._is_accepted(name) and self._is_accepted(other):
            yield name
        if not has_figure(name) or self._keeps_measure("", other):
            yield f"{name} in {other}"  # in case that is an accepted answer
        if self._asks_person and not bracketed:
            yield f"{other} {name}"  # the last name first

    def _is_accepted(self, answer: str) -> bool:
        if self._common_answers:
            bare = strip_marks(answer).casefold()
            if any(bare == strip_marks(raw).casefold() for raw in self._common_answers):
                return True
        given = read_forms(answer)
        name = _strip_lead(_LEADING, given)
        for gold in self.golds:
            if FIGURE.match(gold.spaced):
                plain = _strip_lead(_LEADING_NUMBER, given)
            else:
                plain = name if is_long(gold) or _IT_IS.match(answer.strip()) else given
            if gold.joined in given + plain or gold.spaced in given + plain:
                return True
            if self._is_counted(gold.spaced, plain.spaced) or self._is_respelled(gold, name):
                return True
        nuclide = _NUCLIDE.fullmatch(normalize("NFKC", answer)) if len(answer) < _LONG else None
        return nuclide is not None and self._is_isotope(nuclide[2], nuclide[1])

    def _is_respelled(self, gold: Forms, given: Forms) -> bool:
        """Whether it is a person with initials for other names, or the plural of a currency."""
        if self._asks_person:
            words, said = gold.spaced.split(), given.spaced.split()
            if len(words) == len(said) > 1 and words[-1] == said[-1]:
                return all(b in {a, a[0]} for a, b in zip(words, said, strict=True))
        return given.spaced == f"{gold.spaced}s" and is_long(gold) and self._asks_money

    def _is_isotope(self, symbol: str, mass: str) -> bool:
        """Whether the accepted answers are an isotope, and these are its symbol and mass."""
        named = f"{symbol.casefold()} {mass}"
        golds = {gold.spaced for gold in self.golds}
        return named in golds and any(gold != named and gold.endswith(f" {mass}") for gold in golds)

    def score(self, reward: str, answer: str) -> float:
        """The reward "em", "f1" or "sub_em".

        "sub_em": 1 for an answer with an accepted one and otherwise only words without information:
        stop words and words of the question, but no negation, other number or other name.
        "f1": for the same answers SQuAD's F1 of words, so more words give less; a part of a name,
        such as Sudan of South Sudan, is a different name.
        """
        return 1.0 if self.is_right(answer) else self.score_part(reward, answer)

    def score_part(self, reward: str, answer: str) -> float:
        """The reward "em", "f1" or "sub_em" for an answer that is not `is_right`."""
        if reward == "em" or not find_possible(self._traces, answer) or self.choice:
            return 0.0
        if not self._holds_answer(answer.split()):
            return 0.0
        if reward != "f1":
            return 1.0
        return max(measure_overlap(read_forms(answer).joined, gold.joined) for gold in self.golds)

    def is_shown_in(self, texts: Iterable[str]) -> bool:
        """Whether one of the texts shows an accepted answer.

        In whole words, not as part of a path; codes and words such as "it" must match as written.
        Always False for a choice: the question contains its answers, so they are no evidence.
        """
        if self.choice:
            return False
        traces = {raw: self._traces[raw] for raw in self._showable_answers}
        return any(shows_answer(raw, text) for text in texts for raw in find_possible(traces, text))

    def _strip_frame(self, answer: str) -> tuple[str, str, str]:
        """The answer, and the words around it that the question has in lower case."""
        words = answer.split()
        first, last = 0, len(words)
        while first < last and self._is_plain(words[first]):
            first += 1
        while first < last and words[last - 1].islower() and self._is_plain(words[last - 1]):
            last -= 1
        if last < len(words) and answer.islower() and not has_figure(words[first:last]):
            last = len(words)
        return " ".join(words[first:last]), " ".join(words[:first]), " ".join(words[last:])

    def _is_plain(self, word: str) -> bool:
        """Whether the question has the word in lower case."""
        bare = strip_marks(word).casefold()
        if bare not in self._folded_question:  # for speed
            return False
        return bare in self._lower_words and not self._is_code(word)

    def _is_code(self, word: str) -> bool:
        """Whether a word has capitals that the question does not have, such as the code IN."""
        bare = strip_marks(word)
        return bare.isupper() and len(bare) > 1 and bare not in self._question_words

    def _question_has(self, *texts: str) -> bool:
        """Whether the question has all words of the texts, which must not be empty."""
        words = [word for text in texts for word in re.split("[ ,;:]+", text) if strip_marks(word)]
        bare = {strip_marks(word).casefold() for word in words}
        known = bare <= self._folded_words and not any(map(self._is_code, words))
        return known and not STOPS.issuperset(bare)

    def _is_counted(self, gold: str, given: str) -> bool:
        """Whether the answer is a number, `gold`, with words of the question."""
        if not FIGURE.match(gold) or self.choice:
            return False
        before, found, after = f" {given} ".partition(f" {gold} ")
        if not found or is_limited(before, after) or not self._fits_unit(after):
            return False
        beside = f"{before} {after}"
        for mixed in self._mixed_words:
            beside = beside.replace(mixed, " ")
        words = beside.split()
        return self._question_forms.issuperset(words) and not any(map(FIGURE.match, words))

    def _fits_unit(self, after: str, written: str = "") -> bool:
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
        question = f" {read_forms(self._question).spaced} "
        for name in (unit, written or unit):
            if any(f" {word} {name} " in question for word in ("many", "much", "degrees")):
                return True
            counted = " how many " in question and unit != "percent"
            wanted = f" in {name} " in question and f"in the {name}" not in self._folded_question
            if wanted and not counted:
                return True
        return False

    def _keeps_measure(self, before: str, after: str) -> bool:
        """Whether the words around a number keep its value and its unit."""
        if not after:
            return not is_limited(before, after)
        unit = read_forms(f"0 {after}").spaced.partition(" ")[2]
        written = read_forms(after.split(maxsplit=1)[0]).spaced
        return not is_limited(before, after) and self._fits_unit(unit, written)

    def _holds_answer(self, words: list[str]) -> bool:
        """Whether words contain an accepted answer and otherwise no information."""
        lower, places = all(word == word.lower() for word in words), range(len(words))
        first = next((i for i in places if not self._is_idle(words, i, lower=lower)), None)
        if first is None:
            return False
        last = next(i + 1 for i in places[::-1] if not self._is_idle(words, i, lower=lower))
        if last - first > _LONG:
            return False
        return any(
            self._stands_alone(words[:i], words[i:j], words[j:])
            for i in range(max(0, first - 4), first + 1)
            for j in range(last, min(len(words), last + 4) + 1)
        )

    def _stands_alone(self, before: list[str], words: list[str], after: list[str]) -> bool:
        """Whether words are an accepted answer that the words around them do not change."""
        core = " ".join(words)
        if not self._is_accepted(core):
            return False
        if has_figure(core):
            behind = read_forms(" ".join([words[-1], *after])).spaced.split()
            units = [word for word in behind if word in UNITS]
            return (
                self._fits_unit(" ".join(read_forms(" ".join(after)).spaced.split()[:1]))
                and not has_figure([word for word in before + after if word[0].isdigit()])
                and set(units[:1]) <= {*read_forms(core).spaced.split(), *self._question_forms}
                and not is_limited(" ".join(before), " ".join(after))
            )
        if not is_long(read_forms(core)):
            behind = [strip_marks(word).casefold() for word in after]
            return leads_to_code(before) and NOT_BY_CODE.isdisjoint(behind)
        return self._is_separate(before[-1:], words[:1], before=True) and self._is_separate(
            after[:1], words[-1:], before=False
        )

    def _is_separate(self, beside: list[str], word: list[str], *, before: bool) -> bool:
        """Whether a word beside a name cannot form another name with it."""
        if not beside:
            return True
        bare = strip_marks(beside[0])
        mark = beside[0][-1:] if before else word[0][-1:]
        if bare.casefold() in STOPS or mark in ",:;)" or (not before and beside[0][0] == "("):
            return True
        joins = word[0].islower() and not before
        return bare.casefold() in self._lower_words and bare.islower() and not joins

    def _is_idle(self, words: list[str], place: int, *, lower: bool) -> bool:
        """Whether a word of an answer has no information (stop or question word)."""
        return self._says_nothing(words[place], first=not place, lower=lower) or (
            place > 0
            and (strip_marks(words[place - 1]), strip_marks(words[place])) in self._numbered_names
        )

    def _says_nothing(self, word: str, *, first: bool, lower: bool) -> bool:
        bare = strip_marks(word)
        if bare.casefold() in STOPS:
            return not (bare.isupper() and len(bare) > 1) and word[-1] not in ",;|/"
        if not bare or bare.casefold() in TELLING or bare[0].isdigit() or not has_no_sign(word):
            return False
        bare = bare.removesuffix("'s").removesuffix("’s")
        begins = first and bare[1:].islower() and bare.casefold() in self._question_words
        return bare in self._question_words or begins or (lower and bare in self._folded_words)


def _strip_lead(lead: re.Pattern[str], given: Forms) -> Forms:
    """An answer without its leading words."""
    return Forms(*(lead.sub("", words, count=1) for words in given))


def _strip_units(golds: Iterable[Forms]) -> Iterator[Forms]:
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


def strip_marks(word: str) -> str:
    """A word without the punctuation around it."""
    return word.strip(_EDGES)


def has_no_sign(word: str) -> bool:
    """Whether a word has no sign that `read_forms` makes a word."""
    return all(category(letter)[0] != "S" and letter not in "%&@#" for letter in word)


def is_long(gold: Forms) -> bool:
    """Whether an answer has more than three letters; shorter ones may be codes."""
    return len(gold.joined) > _CODE_LETTERS


def is_common(raw: str) -> bool:
    """Whether an answer is also a common word, such as the code IN."""
    return strip_marks(raw).casefold() in _COMMON


def can_be_shown(raw: str) -> bool:
    """Whether an answer can be distinguished from other words of a text."""
    if is_common(raw):
        return raw[0] in ".+" or (raw.isupper() and len(raw) > 1)
    return len(raw) > _PARTICLE_LETTERS or not raw.islower()


def shows_answer(raw: str, text: str) -> bool:
    """Whether a text has an accepted answer in whole words; codes must match as written."""
    if is_common(raw) or (raw.isupper() and raw.isalpha() and len(raw) <= _CAPITALS):
        code = re.escape(raw)  # first in the pattern, for speed
        return re.search(rf"{code}(?<![\w/]{code})(?![\w/])", text) is not None
    if "/" in text or "_" in text:
        text = _PATH.sub(lambda path: re.sub("[/_]", "", path[0]), text)
    return stands_in(read_forms(raw), read_forms(text))


def leads_to_code(before: list[str]) -> bool:
    """Whether the words before a code lead to it: "The code of Kenya is KE", not "it KE"."""
    low = [strip_marks(word).casefold() for word in before]
    if before and (before[-1][-1] == ":" or (low[-1] == "is" and low[:-1])):
        return low[-1] != "is" or low[-2] == "answer" or low[-2] not in STOPS
    return not NOT_BY_CODE.intersection(low)


def has_figure(text: str | list[str]) -> bool:
    """Whether a text has a number."""
    words = text if isinstance(text, list) else text.split()
    return any(FIGURE.match(word) for part in words for word in read_forms(part).spaced.split())


def is_limited(before: str, after: str) -> bool:
    """Whether the word before or after a number changes its value."""
    for words in (read_forms(before).spaced.split()[::-1], read_forms(after).spaced.split()):
        kept = (word for word in words if word in _LIMITS or word not in STOPS | {"year"})
        if next(kept, "") in _LIMITING:
            return True
    return False


def stands_in(gold: Forms, text: Forms) -> bool:
    """Whether a text has an answer in whole words, in one of the compared forms."""
    return any(f" {part} " in f" {whole} " for part, whole in zip(gold, text, strict=True))
