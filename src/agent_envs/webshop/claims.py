"""The attributes that a product's texts state, by the rules of `mode="strict"`.

An attribute counts if whole words state it, in any inflection, without a negation. Texts are read
as clauses: words with their stems, between breaks of the text. Not supported: synonyms, and what
only a picture shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.webshop.search import stem

if TYPE_CHECKING:
    from agent_envs.webshop.catalogue import Product


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_BREAK = re.compile(
    r"([;:!?|()\[\]{}<>~=\n\u2022\u2026\u2014\uff1a\uff1f]|\.(?=\s|$|[^\W\d_]{3})|\s[-\u2013*]+\s)"
)
_OPEN = re.compile(r"\b(free of|free from|without|contains no|no|not contain)\s*:", re.IGNORECASE)
_GLUED = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=\d)(?=[A-Z]{2})")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*[^\W_]*|[^\W_]+(?:'[^\W_]+)*|[,&/]")
_ABLE = re.compile(r"(?<=\w{3})[ai]bl$")  # ending of a stem: washable is what one can wash
_LONG = 3  # letters from which on a stem may lose its last one: assembl(y)
AND, OR = word_set("and &"), word_set("or nor /")
SEPARATORS = AND | OR | {","}

VERBAL = word_set("not never cannot avoid dont doesnt isnt cant wont")
NOMINAL = word_set("no without zero neither lacks lacking unlike 0 0g")
DENYING = VERBAL | NOMINAL
_PASSIVE = (
    "recommended included required needed necessary allowed suitable available permitted advised "
    "possible supported"
)
REFUSED = word_set(_PASSIVE)
_KEYED = word_set(": ? = - \u2013 \uff1a \uff1f")  # between a key and its value
_VALUE = re.compile(
    r"\s*(?:(?:no|n/a|false)(?=\s*(?:$|[,/]|\d))|none\b(?!\s+of\b)|no need\b"
    rf"|not (?:{_PASSIVE.replace(' ', '|')})\b)",
    re.IGNORECASE,
)  # values that deny their key
_NEXT = re.compile(r"\s*(?:No|NO)(?=\s+[A-Z])")  # a denying value before the next key
_ASKING = re.compile(r"\s*(?:\d+\.? *)?(?:whether|does|do|is|are|can|will|has)\b", re.IGNORECASE)
_ANSWER = re.compile(r"\s*(?:answer|a)?\s*", re.IGNORECASE)
_ITEM = 4  # most words of a value's item

_MATERIALS = word_set("wood gold wool silk oat wheat")  # wooden, golden
GRADED = word_set(
    "high low long short soft hard fresh thick thin wide narrow slim larg small big fast quick "
    "smooth strong warm bright dark deep loose tight rich eas heav health fine great safe"
)  # stems of adjectives: "-er" is their comparative, not a tool or a person
_EDGED = {f"{part}{edge}": part for part in ("waist", "neck", "hem") for edge in ("band", "line")}


class Clause(NamedTuple):
    """Words, commas and links between two breaks of a text, and the key (stem) of each.

    For "fit type: regular" the words are "fit type"; `value` has the last word of each item after
    the colon, and `no` is whether the value denies the key, as in "box spring required: no".
    """

    words: tuple[str, ...]
    keys: tuple[str, ...]
    no: bool = False
    value: tuple[str, ...] = ()


class Text(NamedTuple):
    """A text as clauses, with all their words and keys."""

    clauses: tuple[Clause, ...]
    words: frozenset[str]
    keys: frozenset[str]


@lru_cache(maxsize=1 << 13)
def clauses_of(text: str) -> Text:
    """A text as clauses."""
    clauses = tuple(_split_clauses(text))
    every = frozenset[str]()
    return Text(
        clauses,
        every.union(*(c.words for c in clauses), *(c.value for c in clauses)),
        every.union(*(c.keys for c in clauses), *(map(key_of, c.value) for c in clauses)),
    )


def _split_clauses(text: str) -> Iterator[Clause]:
    """The clauses of a text; a value that denies its key is not part of any clause."""
    pieces = _BREAK.split(_OPEN.sub(r"\1 ", text))
    parts, marks = pieces[::2], [*(mark.strip() for mark in pieces[1::2]), ""]
    for at, part in enumerate(parts):
        behind = _find_value(parts, marks[at], at)
        value = parts[behind] if behind < len(parts) and marks[at] in _KEYED else ""
        mark = marks[behind] if value else ""
        no = _VALUE.match(value) or (_NEXT.match(value) if mark == ":" else None)
        if no:
            parts[behind] = value[no.end() :]
        denied = bool(no or (_ASKING.match(part) and value.strip().lower().startswith("no ")))
        items = _read_items(value, mark) if marks[at] == ":" and not no else ()
        head, comma, key = part.rpartition(",")
        if comma and denied:
            yield from _read_clause(head)
            yield from _read_clause(key, no=True, value=items)
        else:
            yield from _read_clause(part, no=denied, value=items)


def _find_value(parts: list[str], mark: str, at: int) -> int:
    """The place of the value of a key; the word "answer" may stand between after a question."""
    answer = mark in {"?", "\uff1f"} and at + 1 < len(parts) and _ANSWER.fullmatch(parts[at + 1])
    return at + 2 if answer else at + 1


def _read_clause(part: str, *, no: bool = False, value: tuple[str, ...] = ()) -> Iterator[Clause]:
    words = words_of(part)
    if words:
        yield Clause(words, tuple(map(key_of, words)), no, value)


def _read_items(value: str, mark: str) -> tuple[str, ...]:
    """The last words of a value's items; the next key may be joined to the last item."""
    found = []
    for item in re.split(r"[,/&+]", value):
        words = words_of(item)
        if DENYING & set(words):
            return ()
        if 0 < len(words) <= _ITEM:
            found.append(words[-1])
    opening = re.match(r"\s*([A-Za-z]+)\s+[A-Z]", value)
    if opening and mark == ":":
        found.append(opening[1].lower())
    return tuple(found)


def words_of(text: str) -> tuple[str, ...]:
    """Words, commas and links in lower case; "SoftSole" is split into two words."""
    text = _GLUED.sub(" ", text).lower().replace("\u2019", "'")
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=1 << 16)
def key_of(word: str) -> str:
    """The common stem of a word's inflections."""
    word = word.removesuffix("'s")
    if word.endswith("ily"):
        word = word[:-3] + "y"
    word = _EDGED.get(word, word)
    if word.endswith("en") and word[:-2] in _MATERIALS:
        word = word[:-2]
    found = _ABLE.sub("", _stem_graded(word) or stem(word))
    return found[:-1] if len(found) > _LONG and found[-1] in "iy" else found


def _stem_graded(word: str) -> str:
    """The stem of the adjective of a comparative or superlative ("fresher", "highest"), or ""."""
    ending = next((one for one in ("est", "er") if word.endswith(one)), "")
    base = word[: len(word) - len(ending)]
    if not ending or len(base) < _LONG:
        return ""
    found = stem(f"{base}ed")
    return found if ending == "est" or found.removesuffix("i") in GRADED else ""


_IS = word_set("is are be can was")
_GAPS = _IS | word_set("and & / to of for with in by a an the")
_TURNING = _IS | word_set("made of for by in with on from against to the a an your")
_PARTICIPLE = re.compile(r"[aeiouy]\w*(ing|ed|[ai]ble|ant)$")
_OBJECT = re.compile(r"[aeiouy]\w*[ai]ble$")  # adjustable, not table
_GAP = 2  # most words between two words of an attribute
_ITEMS = 8  # most words and separators of a list
_PAIR = 2  # words of an attribute that is a modifier and its noun
_PAIRS = {"free of", "free from", "instead of", "rather than", "different from", "other than"}
_PAIRS |= {"look like", "looks like", "feels like"}
_REACH = {True: 5, False: 2}  # most words between "not", or "no", and the denied word
_FAR = 30  # most words and separators of a list between them
_NOT_DENYING = word_set("only just merely more matter doubt wonder worries in")  # not in use
_CONTAINING = word_set("contain includ have us add made")
_MEANT = word_set("need suitable recommended meant safe intended designed fit good use used")
_ENDS = word_set(
    "but however yet though although while when after before during if unless because since so "
    "thanks until even then required needed necessary"
)  # a negation does not reach beyond these
_SMALL = _GAPS - SEPARATORS
_OPENING = SEPARATORS | _GAPS
_CLOSING = SEPARATORS | _GAPS | _ENDS | word_set("only too also inside included")  # not a noun
_LABEL = REFUSED | word_set("or not option support type material style")  # after the name in a key
_FIBERS = word_set(
    "cotton polyester spandex elastane lycra nylon polyamide rayon viscose modal acrylic linen "
    "wool silk cashmere hemp bamboo"
)
_INITIALS = word_set("ac dc dvd hdmi lcd led pu sd tv usb")  # of a whole phrase: usb charging port
_STUFF = word_set("mater ingred fabric")  # stems; the word before them specifies their sort
_PRAISE = word_set("unique perfect great sexy simple")  # refers to the thing, not to a word between
_WOODS = word_set(
    "oak pine rubber walnut birch beech ash maple cherry mahogany acacia teak mango cedar elm"
)
_DEGREES = word_set("very super extra ultra medium highly so really")
_LINKS = SEPARATORS | _DEGREES
_KEEPING = word_set("leav keep make get turn")  # stems: keeps skin soft
_WHOSE = word_set("your our their the my its")
_MEANS = word_set("machine hand dishwasher microwave")  # means of washing, not the washed thing


_YES, _NO, _REFUSES = "yes", "no", "refuses"  # a clause's statements about an attribute


class _Attribute(NamedTuple):
    """Words of an attribute, and of its body: all words, or the thing that must be missing.

    A text without any of the `keys` and `cuts` as a word does not mention the attribute: the first
    word of either may be in a text unchanged, joined with the next, or split in two.
    """

    words: tuple[str, ...]
    body: tuple[str, ...]
    noun: bool
    keys: frozenset[str]
    cuts: frozenset[str]


class _Mention(NamedTuple):
    """The place of an attribute in a clause; not `sure` if its words only share a list."""

    start: int
    end: int
    sure: bool = True


def states(product: Product, attribute: str) -> bool:
    """Whether a product states an attribute, in its texts or in its list of attributes.

    A page that refuses the attribute ("required: no", "not included") as often as it states it does
    not state it. An attribute of the list does not count if the texts only deny it.
    """
    texts = (product.title, *product.bullets, product.description)
    said = [truth for text in texts for truth in _read_statements(text, attribute)]
    if said:
        return said.count(_YES) > said.count(_REFUSES)
    return any(
        own == attribute or _YES in _read_statements(own, attribute) for own in product.attributes
    )


@lru_cache(maxsize=1 << 16)
def _read_statements(text: str, attribute: str) -> tuple[str, ...]:
    """The statements of a text about an attribute, clause by clause."""
    wanted, read = _read_attribute(attribute), clauses_of(text)
    if read.keys.isdisjoint(wanted.keys) and read.words.isdisjoint(wanted.cuts):
        return ()
    find = _find_presence if wanted.body == wanted.words else _find_absence
    return tuple(truth for clause in read.clauses for truth in find(clause, wanted))


@lru_cache(maxsize=1 << 14)
def _read_attribute(attribute: str) -> _Attribute:
    words = words_of(attribute)
    noun, prefixed = words[1:] and words[-1] == "free", words[1:] and words[0] == "non"
    body = words[:-1] if noun else words[1:] if prefixed else words
    starts = [some for some in (words, body) if some]
    return _Attribute(
        words,
        body,
        noun=bool(noun),
        keys=frozenset(key_of("".join(some[:end])) for some in starts for end in (1, 2)),
        cuts=frozenset(some[0][:cut] for some in starts for cut in range(2, len(some[0]))),
    )


def _find_presence(clause: Clause, wanted: _Attribute) -> Iterator[str]:
    """For each mention of an attribute, whether it is affirmed."""
    for mention in _find_mentions(clause, wanted.words):
        if _has_key_denied(clause, mention) or _is_refused(clause.words, mention):
            yield _REFUSES
            continue
        denied = clause.words[mention.end : mention.end + 1] == ("free",)
        denied = denied or _is_denied(clause.words, mention)
        if mention.sure or denied:
            yield _NO if denied else _YES


def _has_key_denied(clause: Clause, mention: _Mention) -> bool:
    """Whether a mention is in a key whose value is "no"."""
    return clause.no and _LABEL.issuperset(clause.words[mention.end :])


def _find_absence(clause: Clause, wanted: _Attribute) -> Iterator[str]:
    """For each mention of x in "x free" and "non x": whether it is missing, if that is stated."""
    words = clause.words
    for mention in _find_mentions(clause, wanted.words, lists=False):
        yield _judge_freedom(clause, mention)
    for mention in _find_mentions(clause, wanted.body):
        start, end, _ = mention
        prefixed = words[max(start - 1, 0)] == "non"
        if prefixed or _is_free_of(words, mention):
            if words[start : start + len(wanted.words)] != wanted.words:
                yield _judge_freedom(
                    clause, _Mention(start - prefixed, end + (words[end : end + 1] == ("free",)))
                )
        elif wanted.noun and not _is_alone(words, mention):
            continue
        elif _is_denied(words, mention, missing=True, noun=wanted.noun) or _has_key_denied(
            clause, mention
        ):
            yield _YES


def _judge_freedom(clause: Clause, mention: _Mention) -> str:
    if _has_key_denied(clause, mention) or _is_refused(clause.words, mention):
        return _REFUSES
    return _NO if _is_denied(clause.words, mention) else _YES


def _is_alone(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether a mention is its whole item: "no sugar", but not "no added sugar"."""
    start, end, _ = mention
    before, behind = words[start - 1] if start else ",", words[end] if end < len(words) else ","
    opens = before in SEPARATORS or before in NOMINAL or before in {"of", "from", "any", "all"}
    return (opens or key_of(before) in _CONTAINING) and behind in _CLOSING


def _find_mentions(
    clause: Clause, wanted: tuple[str, ...], *, lists: bool = True
) -> Iterator[_Mention]:
    """The places of an attribute's words, in sequence or in a list that shares one of them."""
    keys = tuple(map(key_of, wanted))
    pair = lists and len(keys) == _PAIR
    if pair and clause.value:
        yield from _find_in_value(clause, keys)
    for start, key in enumerate(clause.keys):
        if pair and key in keys:
            found = _match_reverse(clause, start, wanted, keys) or _match_reordered(
                clause, start, wanted, keys
            )
            if found:
                yield _Mention(start, found)
        if key[:2] != keys[0][:2]:
            continue
        end = _match_phrase(clause, start, wanted, keys)
        if end:
            yield _Mention(start, end)
        elif pair and key == keys[0]:
            if _is_named_between(clause, start, keys):
                yield _Mention(start, start + 3)
            else:
                yield from _find_in_list(clause, start, keys[1])


def _match_phrase(clause: Clause, at: int, wanted: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """The end of the attribute's words that start at a place, 0 if they do not start there.

    A few small words may be between them, and compounds may be written as one or two words.
    """
    words, place, gap = clause.words, 0, 0
    while place < len(keys):
        if at >= len(words):
            return 0
        if clause.keys[at] == keys[place]:
            at, place, gap = at + 1, place + 1, 0
        elif clause.keys[at] == key_of("".join(wanted[place : place + 2])):
            at, place, gap = at + 1, place + 2, 0
        elif (
            wanted[place].startswith(words[at])
            and key_of("".join(words[at : at + 2])) == keys[place]
        ):
            at, place, gap = at + 2, place + 1, 0
        elif place and gap < _GAP and _is_small(words, at):
            if words[at - 1] == f"{wanted[0]}s":  # shorts with a sleeve
                return 0
            at, gap = at + 1, gap + 1
        else:
            return 0
    return at


def _is_small(words: tuple[str, ...], at: int) -> bool:
    """Whether a word may be inside an attribute: "to", a number, or a comma before a number."""
    number = words[at + (words[at] == ",") :][:1]
    return words[at] in _GAPS or (number != () and number[0][0].isdecimal())


def _match_reverse(clause: Clause, at: int, wanted: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """The end of an attribute in reverse order that starts with its last word at a place, or 0.

    "Sole of rubber", "mounted on the wall", "the height is adjustable"; a participle or an adverb
    needs no word between: "adjustable height", "installs easily".
    """
    words, end = clause.words, at + 1
    if clause.keys[at] != keys[1]:
        return 0
    while end < len(words) and end - at <= _GAP + 1 and words[end] in _TURNING:
        end += 1
    if wanted[1].endswith("ed") and not words[at].endswith(("ed", "s", "ing")):
        return 0  # a base for plants is not plant based
    if end == len(words):
        return 0
    found = keys[0] in {clause.keys[end], key_of(words[end].removesuffix("ly"))}
    return end + 1 if found and _belongs_together(words, at, end, wanted) else 0


def _belongs_together(words: tuple[str, ...], at: int, end: int, wanted: tuple[str, ...]) -> bool:
    """Whether a noun and the modifier at `end` after it belong together."""
    between, behind = words[at + 1 : end], words[end + 1 : end + 2]
    if _IS & set(between) or _PARTICIPLE.search(wanted[1]) or words[end].endswith("ly"):
        return True
    alone = not behind or behind[0] in _CLOSING
    return alone and between != () and "to" not in between and not _PARTICIPLE.search(wanted[0])


def _find_in_value(clause: Clause, keys: tuple[str, ...]) -> Iterator[_Mention]:
    """An attribute whose noun is a key and whose modifier is the value: "finish: bronze"."""
    end = len(clause.words)
    end -= end > 1 and clause.words[-1] in {"type", "material", "style"}
    named = clause.keys[end - 1] == keys[1] and not clause.words[end - 1].endswith("ing")
    if (
        named
        and clause.words[max(end - 2, 0)] not in _SMALL
        and keys[0] in map(key_of, clause.value)
    ):
        yield _Mention(end - 1, len(clause.words))


def _match_reordered(
    clause: Clause, at: int, wanted: tuple[str, ...], keys: tuple[str, ...]
) -> int:
    """The end of an attribute with its words in another order, from a place on, or 0.

    Only if there is no other meaning: fibers of a blend, a figure ("hd 1080p"), adjustable or
    supportive things ("adjustable seat height"), and results ("leaves breath fresh").
    """
    words, own = clause.words, clause.keys
    if set(wanted) <= _FIBERS:
        return _match_blend(words, at, *wanted)
    if own[at] != keys[1]:
        return 0
    following = own[at + 1 : at + 2] == keys[:1]
    figure = any(word[0].isdecimal() and not word.isdecimal() for word in wanted)  # 1080p
    if following and (words[at] == f"{wanted[1]}ive" or figure):
        return at + 2
    if own[at + 2 : at + 3] == keys[:1] and _is_able(words, at, wanted):
        return at + 3
    before = at - (words[at - 1] in _WHOSE)
    result = following and keys[0] in GRADED and before and own[before - 1] in _KEEPING
    return at + 2 if result else 0


def _is_able(words: tuple[str, ...], at: int, wanted: tuple[str, ...]) -> bool:
    """Whether "adjustable" at a place refers to the noun after the next word."""
    able = _OBJECT.search(words[at]) and _OBJECT.search(wanted[1])
    return bool(able) and wanted[0] not in _MEANS and words[at + 1] not in _OPENING


def _match_blend(words: tuple[str, ...], at: int, one: str, other: str) -> int:
    """The end of a list with both fibers that starts at a place, 0 if there is none."""
    found = set[str]()
    for end in range(at, len(words)):
        if words[end] in _FIBERS and words[max(end - 1, 0)] != "100":
            found.add(words[end])
            if {one, other} <= found:
                return end + 1
        elif not (words[end] in {",", "/", "and", "&"} or words[end][0].isdecimal()):
            return 0
    return 0


def _is_named_between(clause: Clause, start: int, keys: tuple[str, ...]) -> bool:
    """Whether a word between specifies the noun: "usb data cable", "soft tpu fabric"."""
    if clause.keys[start + 2 : start + 3] != keys[1:]:
        return False
    between = clause.words[start + 1]
    if between in _OPENING | DENYING or between[0].isdecimal():
        return False
    kept = clause.words[start] in _INITIALS | _PRAISE or keys[1] in _STUFF
    return kept or (keys[1] == "wood" and between in _WOODS)


def _find_in_list(clause: Clause, start: int, noun: str) -> Iterator[_Mention]:
    """A modifier and its noun with other words between: "dry and damaged hair", "easy to store"."""
    words = clause.words
    if words[start + 1 : start + 2] == ("to",):
        yield from _find_doable(clause, start, noun)
    elif words[start + 2 : start + 3] == ("to",) and clause.keys[start + 3 : start + 4] == (noun,):
        yield _Mention(start, start + 4, sure=clause.keys[start] in GRADED)  # an easy pan to clean
    yield from _find_sharing(clause, start, noun)


def _find_sharing(clause: Clause, start: int, noun: str) -> Iterator[_Mention]:
    """A modifier and its noun with a list between: "dry and damaged hair" has dry hair.

    A list after the modifier's own noun may share it or not: "artificial colors and flavors".
    """
    words, own = clause.words, False
    for at in range(start + 1, min(start + 1 + _ITEMS, len(words))):
        if words[at] in _SMALL:
            return
        if words[at] in _DEGREES:
            continue
        before = words[at - 1] in (SEPARATORS if at == start + 1 else _LINKS)
        if before or words[at] in SEPARATORS:
            if own and before and clause.keys[at] == noun:
                yield _Mention(start, at + 1, sure=False)
                return
        elif clause.words[at].endswith("ed") and clause.keys[at + 1 : at + 2] == (noun,):
            continue  # a participle before the noun: "color-treated hair"
        elif at == start + 1:  # two adjacent words
            own = True
        else:
            if clause.keys[at] == noun and not own:
                yield _Mention(start, at + 1)
            return


def _find_doable(clause: Clause, start: int, verb: str) -> Iterator[_Mention]:
    """A verb in a list after "to": "easy to store and carry"."""
    words = clause.words
    for at in range(start + 2, min(start + 2 + _ITEMS, len(words))):
        separated, before = words[at] in SEPARATORS, words[at - 1] in SEPARATORS
        if not separated and not before and at > start + 2 and words[at] != "to":
            return
        if before and clause.keys[at] == verb:
            behind = words[at + 1] if at + 1 < len(words) else ","
            if behind in _CLOSING or behind in _WHOSE or behind == "it":
                yield _Mention(start, at + 1)
            return


def _is_free_of(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether "free" follows a mention, directly or at the end of its list."""
    start, end, _ = mention
    if words[end : end + 1] == ("free",):
        return True
    alone = start == 0 or words[start - 1] in _OPENING
    if not (alone or words[start - 1].endswith("ly") or words[start - 1].isdecimal()):
        return False
    for at in range(end, min(end + _ITEMS, len(words))):
        separated = words[at] in SEPARATORS
        if at == end and not separated:
            return False
        if not separated and words[at - 1] not in SEPARATORS:
            return words[at] == "free" and words[at + 1 : at + 2] not in {("of",), ("from",)}
    return False


def _is_denied(
    words: tuple[str, ...], mention: _Mention, *, missing: bool = False, noun: bool = False
) -> bool:
    """Whether a negation before or after a mention denies it.

    missing: the mention is the thing that must be missing. noun: it is a noun, which "do not" does
    not deny.
    """
    start = mention.start
    if _is_refused(words, mention):
        return True
    at = _find_negation(words, start)
    if at < 0:
        return False
    if noun and _is_verbal(words[at]) and not _CONTAINING & set(map(key_of, words[at + 1 : start])):
        return False
    return _reaches(words, at, mention, missing=missing)


def _is_refused(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether a refusal follows a mention: "is not required", "not included"."""
    end = mention.end
    behind = words[end + (words[end : end + 1] != () and words[end] in _IS) :][:2]
    refused = len(behind) > 1 and _is_verbal(behind[0]) and behind[1] in REFUSED
    return refused or behind == ("sold", "separately")


def _find_negation(words: tuple[str, ...], start: int) -> int:
    """The place of a negation before a mention and near enough to refer to it, else -1."""
    distance = 0
    for at in range(start - 1, max(-1, start - 1 - _FAR), -1):
        word, before = words[at], words[at - 1] if at else ""
        verbal, free = _is_verbal(word), " ".join(words[at : at + 2]) in _PAIRS
        if verbal or free or word in NOMINAL or (word == "non" and not distance):
            return at if distance <= _REACH[verbal] + free else -1
        purpose = word == "for" and before not in _MEANT
        if (purpose or word in _ENDS) and not _is_verbal(before):  # except "not for", "not yet"
            return -1
        distance = 0 if word in SEPARATORS else distance + 1
    return -1


def _is_verbal(word: str) -> bool:
    return word in VERBAL or word.endswith("n't")


def _reaches(words: tuple[str, ...], at: int, mention: _Mention, *, missing: bool) -> bool:
    """Whether a negation reaches a mention after it: across "or", and in a list across commas.

    Across "and" only "free of" reaches it, and "no" and "without" if the mention must be missing.
    """
    start, end, _ = mention
    between = words[at + 1 : start]
    if words[at + 1] in _NOT_DENYING:
        return False
    through_and = words[at] == "free" or (missing and not _is_verbal(words[at]))
    if not through_and and AND & set(between):
        return False
    if "," not in between or (missing and words[at] in {"free", "without"}):
        return True
    links = OR | AND if through_and else OR
    if links & set(takewhile(lambda word: word != ",", reversed(between))):
        return True
    behind = words[end : end + _ITEMS]
    return bool(behind) and behind[0] in SEPARATORS and bool(links & set(behind))
