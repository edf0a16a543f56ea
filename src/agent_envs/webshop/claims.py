"""What a product says of itself: which attributes it states, and of what kind it is.

These are the rules of `mode="strict"`. An attribute counts where whole words state it, in any
inflection, and no negation denies it. Left out: synonyms, and what only a picture shows.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.webshop.analysis import stem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_envs.webshop.products import Product


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BREAK = re.compile(
    r"[;:!?|()\[\]{}<>~=\n\u2022\u2026\u2014]|\.(?=\s|$|[^\W\d_]{3})|\s[-\u2013*]+\s"
)
_GLUED = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=\d)(?=[A-Z]{2})")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*[^\W_]*|[^\W_]+(?:'[^\W_]+)*|[,&/]")
_ABLE = re.compile(r"(?<=\w{3})[ai]bl$")  # of a stem: washable is what one can wash
_LONG = 3  # letters of a stem that may lose its last: assembl(y)
_AND, _OR = _set("and &"), _set("or nor /")
_SEPARATORS = _AND | _OR | {","}
_IS = _set("is are be can was")
_GAPS = _IS | _set("and & / to of for with in by a an the")
_TURNING = _IS | _set("made of for by in with on from against to the a an your")
_PARTICIPLE = re.compile(r"[aeiouy]\w*(ing|ed|[ai]ble|ant)$")
_GAP = 2  # words that may stand between two words of an attribute
_ITEMS = 8  # words and separators of a list

_VERBAL = _set("not never cannot avoid dont doesnt isnt cant wont")
_NOMINAL = _set("no without zero neither lacks lacking unlike 0 0g")
_PAIRS = frozenset(
    tuple(pair.split())
    for pair in (
        *("free of", "free from", "instead of", "rather than"),
        *("look like", "looks like", "feels like"),
    )
)
_REACH = {True: 5, False: 2}  # words between "not", or "no", and what it denies
_FAR = 30  # words and separators of a list between them, at most
_NOT_DENYING = _set("only just merely more matter doubt wonder worries in")  # not in use
_CONTAINING = _set("contain includ have us add made")
_MEANT = _set("need suitable recommended meant safe intended designed fit good use used")
_ENDS = _set(
    "but however yet though although while when after before during if unless because since so "
    "thanks until even then required needed necessary"
)  # a negation does not reach past these
_SMALL = _GAPS - _SEPARATORS
_OPENING = _SEPARATORS | _GAPS
_CLOSING = _SEPARATORS | _GAPS | _ENDS | _set("only too also inside included")  # no noun
_REFUSED = _set(
    "recommended included required needed necessary allowed suitable available permitted advised "
    "possible supported"
)

_GENDERS = _set("men women boi girl kid children")
_VAGUE = _set("accessori suppli product set kit tool")
_SHARED_LEVELS = 2


class _Clause(NamedTuple):
    """Words, commas and links between two breaks of a text, and the key of each."""

    words: tuple[str, ...]
    keys: tuple[str, ...]


class _Text(NamedTuple):
    """A text as clauses, with all their words and keys."""

    clauses: tuple[_Clause, ...]
    words: frozenset[str]
    keys: frozenset[str]


class _Wanted(NamedTuple):
    """Words of an attribute, and of its body: all, or what is to be missing, a noun or not."""

    words: tuple[str, ...]
    body: tuple[str, ...]
    noun: bool


class _Mention(NamedTuple):
    """Where a clause has an attribute; `sure` unless its words only share a list."""

    start: int
    end: int
    sure: bool = True


def states(product: Product, attribute: str) -> bool:
    """Whether a product states an attribute: in its texts, or in the list of its attributes.

    What the list has, word for word or in other words, and the texts only deny is not stated.
    """
    texts = (product.title, *product.bullets, product.description)
    said = frozenset[bool]().union(*(_said(text, attribute) for text in texts))
    return True in said or (
        not said
        and any(own == attribute or True in _said(own, attribute) for own in product.attributes)
    )


def same_kind(target: Product, bought: Product) -> bool:
    """Whether a product is of the kind that a goal made for `target` names.

    It is if a level of its category has the name of the kind; if it is listed under that name and
    stands on the target's shelf or on one beside it; or if it stands on the target's shelf and the
    shelf is one for the kind. What is for others than the name and the target's shelf say is not.
    """
    shelf, other = _levels(target.product_category), _levels(bought.product_category)
    if target.query == bought.query and shelf == other:
        return True
    whom = _GENDERS & _keys(bought.product_category)
    meant = _GENDERS & _keys(f"{target.product_category} {target.query}")
    if whom and meant and whom.isdisjoint(meant):
        return False
    if _named(target.query, other):
        return True
    if target.query != bought.query:
        return bool(shelf) and shelf == other and _is_for(shelf, target.query)
    pairs = zip(shelf, other, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    shortest = min(len(shelf), len(other))
    return not shortest or shared >= max(_SHARED_LEVELS, shortest - 1)


def _is_for(shelf: tuple[str, ...], kind: str) -> bool:
    """Whether a shelf has a word of a kind's name, and is not for others than the name says."""
    place, name = _keys(" ".join(shelf[1:])), _keys(kind)
    whom, meant = place & _GENDERS, name & _GENDERS
    things = name - _GENDERS
    return (not things or bool(things & place)) and (not (whom and meant) or bool(whom & meant))


@lru_cache(maxsize=1 << 14)
def _levels(category: str) -> tuple[str, ...]:
    """The levels of a category, the widest first."""
    return tuple(level for part in category.split("\u203a") if (level := part.strip()))


@lru_cache(maxsize=1 << 14)
def _named(kind: str, levels: tuple[str, ...]) -> bool:
    """Whether a level below the first is called what the kind is; others may say for whom.

    Of a kind with several names, "t-shirts & tanks", one is enough.
    """
    below = [_keys(level) for level in levels[1:]]
    everything = frozenset[str]().union(*below)
    whole = _keys(kind)
    names = [whole, *(_keys(part) | whole & _GENDERS for part in re.split(r",|&|\band\b", kind))]
    return any(
        name <= everything and any(level <= name and level - _GENDERS - _VAGUE for level in below)
        for name in names
        if name - _GENDERS - _VAGUE
    )


@lru_cache(maxsize=1 << 14)
def _keys(text: str) -> frozenset[str]:
    return frozenset(_key(word) for word in _words(text)) - _SEPARATORS


@lru_cache(maxsize=1 << 16)
def _said(text: str, attribute: str) -> frozenset[bool]:
    """What a text says of an attribute: that it is so, that it is not so, both, or nothing."""
    wanted, read = _wanted(attribute), _read(text)
    if not _possible(read, wanted.words) and not _possible(read, wanted.body):
        return frozenset()
    find = _has if wanted.body == wanted.words else _lacks
    return frozenset(truth for clause in read.clauses for truth in find(clause, wanted))


@lru_cache(maxsize=1 << 14)
def _wanted(attribute: str) -> _Wanted:
    words = _words(attribute)
    noun, prefixed = words[1:] and words[-1] == "free", words[1:] and words[0] == "non"
    body = words[:-1] if noun else words[1:] if prefixed else words
    return _Wanted(words, body, noun=bool(noun))


def _possible(text: _Text, wanted: tuple[str, ...]) -> bool:
    """Whether the first word may be in a text, perhaps in one with the next or cut in two."""
    first = wanted[0] if wanted else ""
    return bool(first) and (
        _key(first) in text.keys
        or _key("".join(wanted[:2])) in text.keys
        or any(first[:cut] in text.words for cut in range(2, len(first)))
    )


@lru_cache(maxsize=1 << 13)
def _read(text: str) -> _Text:
    clauses = tuple(
        _Clause(words, tuple(map(_key, words)))
        for part in _BREAK.split(text)
        if (words := _words(part))
    )
    every = frozenset[str]()
    return _Text(
        clauses, every.union(*(c.words for c in clauses)), every.union(*(c.keys for c in clauses))
    )


def _words(text: str) -> tuple[str, ...]:
    """Words, commas and links, lower case; "SoftSole", as pages glue it, is two words."""
    text = _GLUED.sub(" ", text).lower().replace("\u2019", "'")
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=1 << 16)
def _key(word: str) -> str:
    """What the inflections of a word have in common."""
    word = word.removesuffix("'s")
    if word.endswith("ily"):
        word = word[:-3] + "y"
    found = _ABLE.sub("", stem(word))
    return found[:-1] if len(found) > _LONG and found[-1] in "iy" else found


def _has(clause: _Clause, wanted: _Wanted) -> Iterator[bool]:
    """Of each mention of an attribute, whether it is affirmed."""
    for mention in _mentions(clause, wanted.words):
        denied = clause.words[mention.end : mention.end + 1] == ("free",)
        denied = denied or _denied(clause.words, mention)
        if mention.sure or denied:
            yield not denied


def _lacks(clause: _Clause, wanted: _Wanted) -> Iterator[bool]:
    """Of each mention of what "x free" and "non x" want missing, whether it is, if that is said."""
    words = clause.words
    for start, end, _ in _mentions(clause, wanted.words, lists=False):
        yield not _denied(words, _Mention(start, end))
    for mention in _mentions(clause, wanted.body):
        start, end, _ = mention
        prefixed = words[max(start - 1, 0)] == "non"
        if prefixed or _freed(words, mention):
            yield not _denied(words, _Mention(start - prefixed, end))
        elif wanted.noun and not _alone(words, mention):
            continue
        elif _denied(words, mention, missing=True, noun=wanted.noun):
            yield True


def _alone(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether a mention is all of its item: "no sugar", but not "no added sugar"."""
    start, end, _ = mention
    before, behind = words[start - 1] if start else ",", words[end] if end < len(words) else ","
    opens = before in _SEPARATORS or before in _NOMINAL or before in {"of", "from", "any", "all"}
    return (opens or _key(before) in _CONTAINING) and behind in _CLOSING


def _mentions(
    clause: _Clause, wanted: tuple[str, ...], *, lists: bool = True
) -> Iterator[_Mention]:
    """Where the words of an attribute are, one after the other or in a list that shares one."""
    keys = tuple(map(_key, wanted))
    pair = len(keys) == 2 and lists  # noqa: PLR2004  a modifier and its noun
    for start in range(len(clause.words)):
        turned = pair and clause.keys[start] == keys[1] and _turned(clause, start, wanted, keys[0])
        if turned:
            yield _Mention(start, turned)
        if clause.keys[start][:2] != keys[0][:2]:
            continue
        end = _phrase(clause, start, wanted, keys)
        if end:
            yield _Mention(start, end)
        elif pair and clause.keys[start] == keys[0]:
            yield from _listed(clause, start, keys[1])


def _phrase(clause: _Clause, at: int, wanted: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """The end of the attribute's words that start at a place, 0 if they do not.

    A few small words may stand between them, and words may be written as one or as two.
    """
    words, place, gap = clause.words, 0, 0
    while place < len(keys):
        if at >= len(words):
            return 0
        if clause.keys[at] == keys[place]:
            at, place, gap = at + 1, place + 1, 0
        elif clause.keys[at] == _key("".join(wanted[place : place + 2])):
            at, place, gap = at + 1, place + 2, 0
        elif (
            wanted[place].startswith(words[at]) and _key("".join(words[at : at + 2])) == keys[place]
        ):
            at, place, gap = at + 2, place + 1, 0
        elif place and gap < _GAP and _small(words, at):
            if words[at - 1] == f"{wanted[0]}s":  # shorts with a sleeve
                return 0
            at, gap = at + 1, gap + 1
        else:
            return 0
    return at


def _small(words: tuple[str, ...], at: int) -> bool:
    """Whether a word may stand inside an attribute: "to", a number, or a comma before one."""
    number = words[at + (words[at] == ",") :][:1]
    return words[at] in _GAPS or (number != () and number[0][0].isdecimal())


def _turned(clause: _Clause, at: int, wanted: tuple[str, ...], modifier: str) -> int:
    """The end of an attribute said the other way round, from its last word at a place on, or 0.

    "Sole of rubber", "mounted on the wall", "the height is adjustable"; a participle or an adverb
    needs no word between: "adjustable height", "installs easily".
    """
    end = at + 1
    while end < len(clause.words) and end - at <= _GAP + 1 and clause.words[end] in _TURNING:
        end += 1
    between, word = clause.words[at + 1 : end], clause.words[end : end + 1]
    if wanted[1].endswith("ed") and not clause.words[at].endswith(("ed", "s", "ing")):
        return 0  # a base for plants is not based on them
    if not word or modifier not in {clause.keys[end], _key(word[0].removesuffix("ly"))}:
        return 0
    alone = clause.words[end + 1 : end + 2] == () or clause.words[end + 1] in _CLOSING
    joined = alone and between and "to" not in between and not _PARTICIPLE.search(wanted[0])
    fits = joined or _IS & set(between) or _PARTICIPLE.search(wanted[1]) or word[0].endswith("ly")
    return end + 1 if fits else 0


def _listed(clause: _Clause, start: int, noun: str) -> Iterator[_Mention]:
    """A modifier and its noun with a list between: "dry and damaged hair" has dry hair.

    A list after the modifier's own noun may share it or not: "artificial colors and flavors".
    """
    words, own = clause.words, 0
    for at in range(start + 1, min(start + 1 + _ITEMS, len(words))):
        separated, before = words[at] in _SEPARATORS, words[at - 1] in _SEPARATORS
        if words[at] in _SMALL:
            return
        if not separated and not before:  # two words in a row
            if clause.keys[at] == noun and at > start + 1 and not own:
                yield _Mention(start, at + 1)
                return
            if at > start + 1:
                return
            own = at
        elif own and before and clause.keys[at] == noun:
            yield _Mention(start, at + 1, sure=False)
            return


def _freed(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether "free" follows a mention, at once or at the end of a list that it starts or is in."""
    start, end, _ = mention
    if words[end : end + 1] == ("free",):
        return True
    alone = start == 0 or words[start - 1] in _OPENING
    if not (alone or words[start - 1].endswith("ly") or words[start - 1].isdecimal()):
        return False
    for at in range(end, min(end + _ITEMS, len(words))):
        separated = words[at] in _SEPARATORS
        if at == end and not separated:
            return False
        if not separated and words[at - 1] not in _SEPARATORS:
            return words[at] == "free" and words[at + 1 : at + 2] not in {("of",), ("from",)}
    return False


def _denied(
    words: tuple[str, ...], mention: _Mention, *, missing: bool = False, noun: bool = False
) -> bool:
    """Whether a negation before or behind a mention denies it.

    `missing`: it is what an attribute wants missing. `noun`: a noun, which no "do not" denies.
    """
    start, end, _ = mention
    behind = words[end + (words[end : end + 1] != () and words[end] in _IS) :][:2]
    refused = len(behind) > 1 and _verbal(behind[0]) and behind[1] in _REFUSED
    if refused or behind == ("sold", "separately"):
        return True
    at = _negation(words, start)
    if at < 0:
        return False
    if noun and _verbal(words[at]) and not _CONTAINING & set(map(_key, words[at + 1 : start])):
        return False
    return _reaches(words, at, mention, missing=missing)


def _negation(words: tuple[str, ...], start: int) -> int:
    """The place of the negation before a mention, near enough to mean it, else -1."""
    distance = 0
    for at in range(start - 1, max(-1, start - 1 - _FAR), -1):
        word, before = words[at], words[at - 1] if at else ""
        verbal, free = _verbal(word), words[at : at + 2] in _PAIRS
        if verbal or free or word in _NOMINAL or (word == "non" and not distance):
            return at if distance <= _REACH[verbal] + free else -1
        purpose = word == "for" and before not in _MEANT
        if (purpose or word in _ENDS) and not _verbal(before):  # not for, not yet
            return -1
        distance = 0 if word in _SEPARATORS else distance + 1
    return -1


def _verbal(word: str) -> bool:
    return word in _VERBAL or word.endswith("n't")


def _reaches(words: tuple[str, ...], at: int, mention: _Mention, *, missing: bool) -> bool:
    """Whether a negation reaches a mention behind it: through "or", in a list through commas.

    "And" lets only "free of" through, and "no" and "without" to what is to be missing.
    """
    start, end, _ = mention
    between = words[at + 1 : start]
    if words[at + 1] in _NOT_DENYING:
        return False
    through_and = words[at] == "free" or (missing and not _verbal(words[at]))
    if not through_and and _AND & set(between):
        return False
    if "," not in between:
        return True
    links = _OR | _AND if through_and else _OR
    if links & set(takewhile(lambda word: word != ",", reversed(between))):
        return True
    behind = words[end : end + _ITEMS]
    return bool(behind) and behind[0] in _SEPARATORS and bool(links & set(behind))
