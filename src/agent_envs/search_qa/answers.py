"""Typed answers in words.

Markup, sources, a quoted question, remarks and rejected values are cut; what is left is read as the
declared type, unless it hedges, and compared.
"""

from __future__ import annotations

import re
import tomllib
from datetime import date
from math import isclose
from typing import Any, NamedTuple

from agent_envs.assets import asset
from agent_envs.retrieval.passages import fold_letters

KINDS = {"entity": "a name", "number": "a number", "date": "a date", "yes_no": "yes or no"}
UNKNOWN = "unknown"
_LONGEST = 2_000  # characters, as patterns take quadratic time
_UNDECIDED = "the answer does not commit to one value"


class Answer(NamedTuple):
    """The right answer of a question.

    kind: one of `KINDS`, which the question declares.
    value: the name, the number, the date, or whether it is so; None if no article says it.
    names: the accepted names of an entity.
    unit: of a number; lengths in other units of length are converted.
    tolerance: relative, of a number.
    sort: of an entity, for example "town"; empty if names of every sort may be meant.
    """

    kind: str
    value: str | float | date | bool | None
    names: tuple[str, ...] = ()
    unit: str = ""
    tolerance: float = 0.0
    sort: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return UNKNOWN
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, date):
            return f"{self.value.day} {_MONTHS[self.value.month - 1].title()} {self.value.year}"
        return (
            f"{self.value:,.10g} {self.unit}".strip() if self.kind == "number" else str(self.value)
        )

    def spell(self) -> list[str]:
        """The right answer, and the other names of an entity."""
        return [str(self), *self.names[1:]]

    def declare(self) -> str:
        """The sentence that declares the type of the answer."""
        unit = f" of {self.unit}" if self.unit else ""
        return f"Answer with {KINDS[self.kind]}{unit}, or unknown if no article says it."

    def judge(
        self,
        text: str,
        question: str = "",
        named: frozenset[str] = frozenset(),
        steps: tuple[str, ...] = (),
    ) -> tuple[bool, str]:
        """Whether a text is this answer, and if not, why.

        The question and the names and values on the way to the answer, `steps`, may be repeated;
        `named` are the words of all names of the world.
        """
        if len(text) > _LONGEST:
            return False, f"the answer has more than {_LONGEST:,} characters"
        asked, told = _fold(question), _fold(" ; ".join((question, *steps)))
        known = frozenset(_WORDS(told))
        text = _PATTERNS["markup"].sub(" ", text.replace("{,}", ","))
        said = _cut_question(_fold(text), known, self.kind)
        if "can we say" in asked:
            said = re.sub(r"\b(?:we )?can not say\b(?: (?:that|so|it)\b)?", "not", said)
        if not _WORDS(said):
            return False, "the answer is empty"
        said = _PATTERNS["no_doubt"].sub(" ", _PATTERNS["source"].sub(" source ", said))
        known = frozenset(_WORDS(asked if self.kind == "yes_no" else told))
        if _says_unknown(text, _find_last(said, r"\w"), known, named):
            return self.value is None, "" if self.value is None else "an article says it"
        if self.kind == "yes_no":
            said = _find_last(said, _VALUES[self.kind])
        else:
            said = _find_last(self._mark_values(said), _VALUES[self.kind])
            said = _cut_rejected(_cut_asides(self._cut_reasons(said, told, named)))
        if _PATTERNS["hedges"].search(said) or "?" in said.rstrip("? "):
            return False, _UNDECIDED
        return self._compare(self._read(said, question, told, named), said)

    def _compare(self, found: list[set[Any]], said: str) -> tuple[bool, str]:
        """Whether the values in a text are the right one, and if not, why."""
        if not found:
            unit = f" in {self.unit}" if self.unit else ""
            reason = f"the answer is not {KINDS[self.kind]}{unit}"
            return False, "it names another thing" if self.kind == "entity" else reason
        decided = len(found) > 1 or not _PATTERNS["either"].search(said)
        if decided and all(any(map(self._equals, values)) for values in found):
            return True, ""
        other = decided and set.intersection(*found)
        return False, "the value is another one" if other else _UNDECIDED

    def _equals(self, value: Any) -> bool:
        if self.kind == "number" and isinstance(self.value, int | float):
            return isclose(value, self.value, rel_tol=self.tolerance + 1e-9)
        return bool(value == self.value)

    def _cut_reasons(self, said: str, told: str, named: frozenset[str]) -> str:
        """A text of an answer and then its explanation: without the latter."""
        known = frozenset(_WORDS(told)) | _FILLER
        for mark in _PATTERNS["because"].finditer(said):
            head, rest = said[: mark.start()], said[mark.end() :]
            values = re.findall(_VALUES[self.kind], _cut_asides(head))
            if not values and known.issuperset(_WORDS(head)):
                return self._cut_reasons(rest, told, named)  # what is asked, then the answer
            others = self.unit or not named.isdisjoint({*_WORDS(rest)} - known)
            listed = mark[0].strip() in (":", "-") and others
            explains = len(_WORDS(rest)) >= _SENTENCE and not _PATTERNS["turn"].search(rest)
            if len(values) == 1 and explains and not listed:
                return head
        return said

    def _mark_values(self, said: str) -> str:
        """A text with names, dates or numbers in one form."""
        if self.kind == "entity":
            return _mark_names(said, self.names)
        return _write_dates(said) if self.kind == "date" else _write_numbers(said, self.unit)

    def _read(self, said: str, question: str, told: str, named: frozenset[str]) -> list[set[Any]]:
        """What each value in a text may stand for; [] if one is of another type."""
        known = frozenset(_WORDS(told))
        if self.kind == "entity":
            return [{self.value}] if _names_one(said, self.sort, known, named) else []
        if self.kind == "yes_no":
            return [{value} for value in _read_yes_no(said, _fold(question))]
        if self.kind == "date":
            return [{value} for value in _list_dates(said, known)]
        return [{*values} for values in _read_numbers(said, self.unit, told)]


_READER = tomllib.loads(asset("search_qa/reader.toml").read_text("utf-8"))
_LISTS = {name: text.split() for name, text in _READER["words"].items()}
_MONTHS, _ORDINALS = _LISTS["months"], _LISTS["ordinals"]
_SMALL = {w: n for n, w in enumerate(_LISTS["small"])}
_SMALL |= {w: 20 + 10 * n for n, w in enumerate(_LISTS["tens"])}
_LARGE = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_YES, _NO, _SURE, _VERBS, _PEOPLE, _COPIES = (
    frozenset(_LISTS[name]) for name in ("yes", "no", "sure", "verbs", "people", "copies")
)
_SORTS = {w: sort for sort in ("person", "town", "river", "book", "guild") for w in _LISTS[sort]}
_CLASSES = {"name", "member", "members", "rolls"}
_CLASSES |= {word for word, sort in _SORTS.items() if sort != "person"}
_FILLER = frozenset((*_LISTS["filler"], *_LISTS["sources"], *_SORTS))
_ANY = {name: rf"(?:{'|'.join(words)})".replace("_", " ") for name, words in _LISTS.items()}
_ANY["sorts"] = f"(?:{'|'.join(_SORTS)})"
_PATTERNS = {
    name: re.compile(re.sub(r"<([a-z]+)>", lambda part: _ANY[part[1]], "|".join(alternatives)))
    for name, alternatives in _READER["patterns"].items()
}
_OPPOSITES = {"earlier": "later", "later": "earlier", "smaller": "larger", "larger": "smaller"}
_SENTENCE = 4  # words, a name counts as one
_VALUES = {"entity": r"\|", "date": r"@[\d-]+", "number": r"\d[\d.,']*\d|\d"}
_VALUES["yes_no"] = rf"\b(?:{'|'.join(_YES | _NO)}|not)\b"
_WORDS = re.compile(r"[^\W_]+").findall
_DAYS = _SMALL | {w: n for n, w in enumerate(_ORDINALS, 1)} | {"thirtieth": 30, "thirty first": 31}
_DAYS |= {f"twenty {w}": 20 + n for w, n in _DAYS.items() if 0 < n < 10}  # noqa: PLR2004
_DAY = r"@(\d{4}-\d\d-\d\d)"
_SPELLED = "|".join(sorted(_DAYS, key=len, reverse=True)).replace(" ", "[ -]")
_PARTS = {"d": rf"\b(?P<d>\d\d?|{_SPELLED})(?:st|nd|rd|th)?\b", "y": r"\b(?P<y>\d{4})\b"}
_PARTS["m"] = rf"\b(?P<m>{'|'.join(f'{m[:3]}(?:{m[3:]}|{m[3:4]})?' for m in _MONTHS)})\b"
_DATES = [
    r"\b(?P<y>\d{4})([-/.]?)(?P<m>\d\d?)\2(?P<d>\d\d?)(?:t[\d:]+z?)?\b",
    r"\b(?P<d>\d\d?)([-/.])(?P<m>\d\d?)\2(?P<y>\d{4})\b",
    *(
        r"(?:[ ,.-]|of|in|on|the|day|year)*".join(_PARTS[part] for part in order)
        for order in ("dmy", "mdy", "ymd", "ydm", "myd")
    ),
]


def _fold(text: str) -> str:
    """Lower case without diacritics, marks of emphasis, contractions and typographic variants."""
    text = fold_letters(text).replace("\u2019", "'")
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", text)
    text = re.sub(r"(?<=do|es|is|as)n'?t\b|(?<=ca)n't\b|n't\b|(?<=can)not\b", " not", text)
    return " ".join(re.sub(r"[*_`\"\u201c\u201d«»]", " ", text).split())


def _find_last(said: str, value: str) -> str:
    """What follows the last "so", "the answer is" and the like before a value."""
    parts = _PATTERNS["commit"].split(said)
    return next((part for part in reversed(parts) if re.search(value, part)), parts[-1])


def _cut_question(said: str, known: frozenset[str], kind: str) -> str:
    """A text without a question before the answer: the question itself, or "X? No, Y"."""
    if kind != "yes_no":
        said = re.sub(r"^.*\? *no\b(?=\W*$|[,.:;-])|\? *yes\b", ",", said)
    asked, _, rest = said.rstrip("? ").rpartition("?")
    return rest if (known | _FILLER).issuperset(_WORDS(asked)) else said


def _cut_asides(said: str) -> str:
    """A text without remarks and years that are beside a name, date or number."""
    mark = next((mark for mark in "|@" if mark in said), "0")
    for name in ("remark", "year"):
        rest = _PATTERNS[name].sub(" ", said)
        said = rest if mark in re.sub(r"\d", "0", rest) else said
    return said


def _cut_rejected(said: str) -> str:
    """A text without the values that it rejects: "not X", "rather than X", "X is outdated"."""
    for inner in re.findall(r"\(([^()]*)\)", said):
        said = said.replace(f"({inner})", f"({_cut_rejected(inner)})")
    return "".join(
        _PATTERNS["rejected"].sub(" ", clause) for clause in _PATTERNS["clause"].split(said)
    )


def _says_unknown(text: str, said: str, known: frozenset[str], named: frozenset[str]) -> bool:
    """Whether a text says that the answer is not known, and no value."""
    names = {_fold(word) for word in re.findall(r"(?<!^)(?<![.!?:] )\b[A-Z]\w+", text.strip("*_ "))}
    names = (names | named | {*_LARGE, *_LISTS["tens"]}) - known - _FILLER - {"n", "a"}
    values = any(word in names or word.isdigit() for word in {*_WORDS(said)} - known)
    denied = values or _PATTERNS["not_unknown"].search(said)
    return bool(_PATTERNS["not_known"].search(said)) and not denied


def _mark_names(said: str, names: tuple[str, ...]) -> str:
    """A text with "|" for each name of the entity."""
    listed = [" ".join(_WORDS(_fold(name))) for name in names]
    listed += [name.removeprefix("the ") for name in listed]
    listed += [", ".join(name.split()[::-1]) for name in listed if name.count(" ") == 1]
    pattern = (
        "|".join(sorted(filter(None, listed), key=len, reverse=True)).replace(" ", r"\W+") or "$^"
    )
    return re.sub(r"\|(?: or (?:the )?\|)+", "|", re.sub(rf"\b(?:{pattern})\b(?!'s)", "|", said))


def _names_one(said: str, sort: str, known: frozenset[str], named: frozenset[str]) -> bool:
    """Whether a text names the entity, "|", and no other one.

    A few words may have nothing beside it but words without information; a sentence may say more.
    """
    for word in known & named:  # "its town is Kest, and the Sarn is there"
        said = re.sub(rf"\b{word},? and\b", f"{word}; ", said)
    stems, words = {word[:4] for word in known}, _WORDS(said)
    others = not named or not named.isdisjoint({*words} - known)
    own = [word for word in words if word not in named or word in known]
    says_more = len(own) + said.count("|") >= _SENTENCE and not others
    for chunk in re.split(r"[,;/()]", said):
        rest = " ".join(re.findall(r"[^\W_]+|\|", chunk))
        left, hit = _WORDS(rest), "|" in rest
        informs = not all(word in _FILLER or (hit and word[:4] in stems) for word in left)
        listed = not hit and bool(named & {*left}) and (named | _FILLER).issuperset(left)
        bare = listed or (informs and (hit or others))
        if (bare and not says_more) or _is_of_another(rest, sort):
            return False
    return "|" in said and not _PATTERNS["beside"].search(said)


def _is_of_another(said: str, sort: str) -> bool:
    """Whether a text names something of the entity, "|", or one of another sort.

    "The mayor of Velmora" is not Velmora, "the town of Velmora" is.
    """
    before = _PATTERNS["owner"].search(said)
    owned = bool(before and before[2] == "of")
    related = before and (before[1] in (_CLASSES if owned else _SORTS)) != owned
    sorts = {_SORTS.get(word, sort) for word in _PATTERNS["sort"].findall(said)} - {sort}
    return bool(related or (sort and sorts))


def _read_yes_no(said: str, question: str) -> list[bool]:
    """What a text says to a yes-or-no question; [] if it is no answer to one."""
    said = re.sub(r"^i(?: would|'d)? (?:think|believe|say)(?: so)?\b[:, ]*", "", said)
    said = re.sub(r"^(?:\w+ly|indeed) (?=not\b)", "", said)
    said = re.sub(r"\b(\w+ \w+|\w+)'s (\w+)", r"\2 of \1", said)
    words, turned = _WORDS(said), len(re.findall(r"\bnot\b", said))
    if len({word in _YES for word in words if word in _SURE}) > 1 or not words:
        return []
    either = _YES | _NO
    bare = [part for part in map(_WORDS, re.split(r"[,;:.]", said)) if either.issuperset(part)]
    first = next((word for part in bare for word in part if word in _SURE), words[0])
    if first in either:
        return [first in _YES]
    compared = _read_comparison(said, question)
    if compared is not None:
        return [compared]
    signs = [word in _YES for word in words if word in either]
    asked = iter([word for word in _WORDS(question) if word not in _FILLER])
    content = [word for word in words if word not in _FILLER | either | {"not"}]
    repeats = all(word in asked for word in content)  # in the question's order
    says = bool(signs or turned or _VERBS & {*words}) and not re.match(r"not (?:yes|no)\b", said)
    return [all(signs) != bool(turned % 2)] if repeats and says else []


def _read_comparison(said: str, question: str) -> bool | None:
    """Whether "Y is less than X" agrees with the question "is X less than Y?"; None if neither."""
    left, _, right = question.partition(" than ")
    asked = next((word for word in _OPPOSITES if f" {word} than " in question), "")
    found = re.search(rf"\b(?:{asked}|{_OPPOSITES[asked]})\b", said) if asked else None
    if not found:
        return None
    sides = {*_WORDS(left)} ^ {*_WORDS(right)}
    subject = next((word for word in _WORDS(said) if word in sides), "")
    clause = re.split("[.;:]", said[: found.start()])[-1]
    turned = len(re.findall(r"\bnot\b", clause))
    return (found[0] == asked) != ((turned + (subject in _WORDS(right))) % 2 == 1)


def read_date(said: str) -> list[date]:
    """The one whole date in a text; [] if there is none, several, or a bound."""
    found = _list_dates(_write_dates(said), frozenset())
    return found if len(found) == 1 else []


def _write_dates(said: str) -> str:
    """A text with its whole dates as year-month-day."""
    for pattern in _DATES:
        said = re.sub(pattern, _write_date, said)
    return said


def _write_date(found: re.Match[str]) -> str:
    month, word = found["m"], found["d"].replace("-", " ")
    number = int(month) if month.isdigit() else [m[:3] for m in _MONTHS].index(month[:3]) + 1
    day = int(word) if word.isdigit() else _DAYS[word]
    if number > 12 and found[0].endswith(found["y"]):  # noqa: PLR2004  month/day/year
        day, number = number, day
    try:
        return f"@{date(int(found['y']), number, day)}"
    except ValueError:
        return found[0]


def _list_dates(said: str, known: frozenset[str]) -> list[date]:
    """The dates in a text with dates as year-month-day; [] if they are bounds or not whole."""
    bound = not known.issuperset(_PATTERNS["bounds"].findall(said))
    if bound or re.search(r"\d", re.sub(rf"(?<!\bby ){_DAY}", "", said)):
        return []
    return sorted({date.fromisoformat(day) for day in re.findall(_DAY, said)})


def _write_numbers(said: str, unit: str) -> str:
    """A text with its numbers as digits, without words such as "about"."""
    if not unit:  # of two things
        said = re.sub(r"\bboth\b", "2", _PATTERNS["of_two"].sub(" ", said))
        said = re.sub(r"\b(?:(?:neither|none|nil)(?: one)?|not (?:a single )?one)\b", "0", said)
    said = re.sub(r"(?<=\d)k\b", " thousand", said).replace("/year", " per year")
    own = tuple(f" {word}" for word in (unit, unit.removesuffix("s")))

    def count(run: re.Match[str]) -> str:
        beside = unit and run[0] in ("one", "two") and not run.string.startswith(own, run.end())
        return " " if beside else _count(run)  # "the two towns"

    return _RUN.sub(count, _PATTERNS["about"].sub(" ", said))


def _read_numbers(said: str, unit: str, told: str) -> list[list[float]]:
    """The possible values of each number in a text, in the unit; [] if one is no such.

    Those that were told do not count beside another one.
    """
    known, told = frozenset(_WORDS(told)), _write_dates(told)
    before = {n for match in _PATTERNS["number"].finditer(told) for n in _list_readings(match[0])}
    numbers, found = list(_PATTERNS["number"].finditer(said)), list[list[float]]()
    if not numbers or not known.issuperset(_PATTERNS["bounds"].findall(said[: numbers[-1].end()])):
        return []
    if _PATTERNS["after"].search(said[numbers[-1].end() :]):
        return []
    new = [match for match in numbers if before.isdisjoint(_list_readings(match[0]))]
    for match in new or numbers:
        rest = re.sub(
            rf"^ (?!square|cubic)\w+ (?={re.escape(unit or '?')}\b)", " ", said[match.end() :]
        )
        follows = re.match(r"\s*(?:\((?!\w+ ))?([^\W\d]+[²³\d]*|%)?(\S?)", rest)
        word, mark = (follows[1] or "", follows[2]) if follows else ("", "")
        scale = _convert(word, unit, known)
        rate = re.match(r"\s*[a-z]* (?:per|an?|each|every) (\w+)", rest)
        if rate and rate[1] not in known | {*_LISTS["sources"], *_LISTS["seasons"]}:
            return []
        marked = re.search(r"[/$€£<>±]$|- $", said[: match.start()]) or mark in ("^", "/", "+")
        if marked:
            return []
        if scale is None:  # of another unit
            continue
        found.append([float(f"{value * scale:.9g}") for value in _list_readings(match[0])])
    return found


def _convert(word: str, unit: str, known: frozenset[str]) -> float | None:
    """The factor from the unit named after a number to `unit`; None if it is another."""
    single, own = (w.removesuffix("s") if len(w) > 2 else w for w in (word, unit))  # noqa: PLR2004
    lengths: dict[str, float] = _READER["lengths"]
    if single in lengths or own in lengths:
        if single in lengths and own in lengths:
            return lengths[single] / lengths[own]
        return 1.0 if word in _FILLER | {"", "long", "in"} else None
    alike = any({single, own} <= words for words in (_PEOPLE, _COPIES))
    same = single == own or alike or single == own[:1]
    free = word in _FILLER | {"", "total", "all", "long"} or {single, f"{single}s"} & known
    return 1.0 if same or free else None


def _list_readings(text: str) -> list[float]:
    """The values that digits may stand for: a point before three digits may group them."""
    plain = re.sub(r"[ ']", "", text)
    point = float(re.sub(r"[.,](?=.*[.,])", "", plain).replace(",", "."))
    if " " in text or "'" in text or not re.fullmatch(r"-?[1-9]\d{0,2}(?:[.,]\d{3})+", plain):
        return [point]
    whole = float(re.sub(r"[.,]", "", plain))
    return [whole] if "," in plain else [whole, point]


_IN_WORDS = "|".join([*_SMALL, *_LARGE, "point"])
_RUN = re.compile(
    rf"(?:\b\d[\d.,]* )?\b(?:{_IN_WORDS})(?:(?:(?<=thousand),)?[ -](?:and )?(?:{_IN_WORDS}))*\b"
)


def _count(run: re.Match[str]) -> str:
    """A number in words as digits: "three thousand four hundred and twelve"."""
    total, part, decimals = 0.0, 0.0, ""
    for word in re.findall(r"[a-z]+|\d[\d.,]*", run[0]):
        if word[0].isdigit():
            part = float(word.rstrip(".,").replace(",", ""))
        elif word == "point":
            decimals = "."
        elif word in _SMALL and decimals:
            decimals += str(_SMALL[word])
        elif word in _SMALL:
            part += _SMALL[word]
        elif word in _LARGE and _LARGE[word] < 1000:  # noqa: PLR2004
            part = (part or 1) * _LARGE[word]
        elif word in _LARGE:
            total, part = total + (part or 1) * _LARGE[word], 0.0
    return f"{total + part:.12g}{decimals.rstrip('.')}"
