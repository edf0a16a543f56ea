"""The attributes that a product's texts state, and the kind of product that it is.

These are the rules of `mode="strict"`. An attribute counts if whole words state it, in any
inflection, without a negation. Not supported: synonyms, and what only a picture shows.
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
    r"([;:!?|()\[\]{}<>~=\n\u2022\u2026\u2014\uff1a\uff1f]|\.(?=\s|$|[^\W\d_]{3})|\s[-\u2013*]+\s)"
)
_OPEN = re.compile(r"\b(free of|free from|without|contains no|no|not contain)\s*:", re.IGNORECASE)
_GLUED = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=\d)(?=[A-Z]{2})")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*[^\W_]*|[^\W_]+(?:'[^\W_]+)*|[,&/]")
_ABLE = re.compile(r"(?<=\w{3})[ai]bl$")  # ending of a stem: washable is what one can wash
_LONG = 3  # letters from which on a stem may lose its last one: assembl(y)
_AND, _OR = _set("and &"), _set("or nor /")
_SEPARATORS = _AND | _OR | {","}
_IS = _set("is are be can was")
_GAPS = _IS | _set("and & / to of for with in by a an the")
_TURNING = _IS | _set("made of for by in with on from against to the a an your")
_PARTICIPLE = re.compile(r"[aeiouy]\w*(ing|ed|[ai]ble|ant)$")
_OBJECT = re.compile(r"[aeiouy]\w*[ai]ble$")  # adjustable, not table
_GAP = 2  # most words between two words of an attribute
_ITEMS = 8  # most words and separators of a list

_VERBAL = _set("not never cannot avoid dont doesnt isnt cant wont")
_NOMINAL = _set("no without zero neither lacks lacking unlike 0 0g")
_PAIRS = frozenset(
    tuple(pair.split())
    for pair in (
        *("free of", "free from", "instead of", "rather than", "different from", "other than"),
        *("look like", "looks like", "feels like"),
    )
)
_DENYING = _VERBAL | _NOMINAL
_REACH = {True: 5, False: 2}  # most words between "not", or "no", and the denied word
_FAR = 30  # most words and separators of a list between them
_NOT_DENYING = _set("only just merely more matter doubt wonder worries in")  # not in use
_CONTAINING = _set("contain includ have us add made")
_MEANT = _set("need suitable recommended meant safe intended designed fit good use used")
_ENDS = _set(
    "but however yet though although while when after before during if unless because since so "
    "thanks until even then required needed necessary"
)  # a negation does not reach beyond these
_SMALL = _GAPS - _SEPARATORS
_OPENING = _SEPARATORS | _GAPS
_CLOSING = _SEPARATORS | _GAPS | _ENDS | _set("only too also inside included")  # not a noun
_PASSIVE = (
    "recommended included required needed necessary allowed suitable available permitted advised "
    "possible supported"
)
_REFUSED = _set(_PASSIVE)
_LABEL = _REFUSED | _set("or not option support type material style")  # after the name in a key
_KEYED = _set(": ? = - \u2013 \uff1a \uff1f")  # between a key and its value
_VALUE = re.compile(
    r"\s*(?:(?:no|n/a|false)(?=\s*(?:$|[,/]|\d))|none\b(?!\s+of\b)|no need\b"
    rf"|not (?:{_PASSIVE.replace(' ', '|')})\b)",
    re.IGNORECASE,
)  # values that deny their key
_NEXT = re.compile(r"\s*(?:No|NO)(?=\s+[A-Z])")  # a denying value before the next key
_ASKING = re.compile(r"\s*(?:\d+\.? *)?(?:whether|does|do|is|are|can|will|has)\b", re.IGNORECASE)
_ANSWER = re.compile(r"\s*(?:answer|a)?\s*", re.IGNORECASE)
_ITEM = 4  # most words of a value's item

_MATERIALS = _set("wood gold wool silk oat wheat")  # wooden, golden
_GRADED = _set(
    "high low long short soft hard fresh thick thin wide narrow slim larg small big fast quick "
    "smooth strong warm bright dark deep loose tight rich eas heav health fine great safe"
)  # stems of adjectives: "-er" is their comparative, not a tool or a person
_FIBERS = _set(
    "cotton polyester spandex elastane lycra nylon polyamide rayon viscose modal acrylic linen "
    "wool silk cashmere hemp bamboo"
)
_EDGED = {f"{part}{edge}": part for part in ("waist", "neck", "hem") for edge in ("band", "line")}
_INITIALS = _set(
    "ac dc dvd hdmi lcd led pu sd tv usb"
)  # they refer to the whole phrase: usb charging port
_STUFF = _set("mater ingred fabric")  # stems; the word before them specifies their sort
_PRAISE = _set("unique perfect great sexy simple")  # refers to the thing, not to a word between
_WOODS = _set(
    "oak pine rubber walnut birch beech ash maple cherry mahogany acacia teak mango cedar elm"
)
_DEGREES = _set("very super extra ultra medium highly so really")
_KEEPING = _set("leav keep make get turn")  # stems: keeps skin soft
_WHOSE = _set("your our their the my its")
_MEANS = _set("machine hand dishwasher microwave")  # means of washing, not the washed thing

_GENDERS = _set("men women boy girl kid children")
_VAGUE = _set("accessory supply product set kit tool care")
_USE = re.compile(r"\b(?:for|with|compatible)\b.*", re.IGNORECASE | re.DOTALL)
_SHARED_LEVELS = 2


class _Clause(NamedTuple):
    """Words, commas and links between two breaks of a text, and the key (stem) of each.

    For "fit type: regular" the words are "fit type"; `value` has the last word of each item after
    the colon, and `no` is whether the value denies the key, as in "box spring required: no".
    """

    words: tuple[str, ...]
    keys: tuple[str, ...]
    no: bool = False
    value: tuple[str, ...] = ()


class _Text(NamedTuple):
    """A text as clauses, with all their words and keys."""

    clauses: tuple[_Clause, ...]
    words: frozenset[str]
    keys: frozenset[str]


_YES, _NO, _REFUSES = "yes", "no", "refuses"  # a clause's statements about an attribute


class _Wanted(NamedTuple):
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
    said = [truth for text in texts for truth in _said(text, attribute)]
    if said:
        return said.count(_YES) > said.count(_REFUSES)
    return any(own == attribute or _YES in _said(own, attribute) for own in product.attributes)


def same_kind(target: Product, bought: Product) -> bool:
    """Whether a product is of the kind in a goal made for `target`.

    A shelf is a whole category. The product is of the kind if a level of its category has the name
    of the kind; or if it is listed under that name on the target's shelf or a neighbouring one; or
    if it is on the target's shelf and the shelf is for the kind. A product for other people (men,
    children, ...) than the name and the target's shelf say is not. A product that is listed under
    another name than the kind's must also have the kind in its title.
    """
    shelf, other = _levels(target.product_category), _levels(bought.product_category)
    if target.query == bought.query and shelf == other:
        return True
    whom = _GENDERS & _keys(bought.product_category)
    meant = _GENDERS & _keys(f"{target.product_category} {target.query}")
    if whom and meant and whom.isdisjoint(meant):
        return False
    if _named(target.query, other[:-1]):  # its own shelf is a subtype of the kind
        return True
    named = _named(target.query, other)
    if target.query != bought.query:
        here = named or (bool(shelf) and shelf == other and _is_for(shelf, target.query))
        return here and _called(bought.title, target.query, other[-1] if named else "")
    pairs = zip(shelf, other, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    shortest = min(len(shelf), len(other))
    return named or not shortest or shared >= max(_SHARED_LEVELS, shortest - 1)


@lru_cache(maxsize=1 << 16)
def _called(title: str, kind: str, shelf: str = "") -> bool:
    """Whether a title, if there is one, has a kind's name, or a word of its shelf's name.

    The purpose of a thing is not its kind: "makeup brushes for eye shadow".
    """
    words, places = _keys(title), _keys(shelf) - _GENDERS - _VAGUE
    if not words or places & words:
        return True
    own = _keys(_USE.sub("", title)) or words
    return any(name <= own for found in _names(kind) if (name := found - _GENDERS - _VAGUE))


def _is_for(shelf: tuple[str, ...], kind: str) -> bool:
    """Whether a shelf has a word of a kind's name, and is not for other people than the name."""
    place, name = _keys(" ".join(shelf[1:])), _keys(kind)
    whom, meant = place & _GENDERS, name & _GENDERS
    things = name - _GENDERS - _VAGUE
    return (not things or bool(things & place)) and (not (whom and meant) or bool(whom & meant))


@lru_cache(maxsize=1 << 14)
def _levels(category: str) -> tuple[str, ...]:
    """The levels of a category, the widest first."""
    return tuple(level for part in category.split("\u203a") if (level := part.strip()))


@lru_cache(maxsize=1 << 14)
def _named(kind: str, levels: tuple[str, ...]) -> bool:
    """Whether a level below the first has the kind's name; other levels may say for whom it is.

    If a kind has several names, "t-shirts & tanks", one is enough.
    """
    below = [_keys(level) for level in levels[1:]]
    everything = frozenset[str]().union(*below)
    return any(
        name <= everything and any(level <= name and level - _GENDERS - _VAGUE for level in below)
        for name in _names(kind)
        if name - _GENDERS - _VAGUE
    )


@lru_cache(maxsize=1 << 12)
def _names(kind: str) -> tuple[frozenset[str], ...]:
    """The words of a kind's name, and of each of its single names, each with its gender words."""
    whole = _keys(kind)
    return whole, *(_keys(part) | whole & _GENDERS for part in re.split(r",|&|\band\b", kind))


@lru_cache(maxsize=1 << 14)
def _keys(text: str) -> frozenset[str]:
    """The words of a name, each in the singular: beds are not bedding."""
    return frozenset(map(_singular, _words(text))) - _SEPARATORS - _AND


def _singular(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("s'")
    if word.endswith("ies") and len(word) > _LONG + 1:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=1 << 16)
def _said(text: str, attribute: str) -> tuple[str, ...]:
    """The statements of a text about an attribute, clause by clause."""
    wanted, read = _wanted(attribute), _read(text)
    if read.keys.isdisjoint(wanted.keys) and read.words.isdisjoint(wanted.cuts):
        return ()
    find = _has if wanted.body == wanted.words else _lacks
    return tuple(truth for clause in read.clauses for truth in find(clause, wanted))


@lru_cache(maxsize=1 << 14)
def _wanted(attribute: str) -> _Wanted:
    words = _words(attribute)
    noun, prefixed = words[1:] and words[-1] == "free", words[1:] and words[0] == "non"
    body = words[:-1] if noun else words[1:] if prefixed else words
    starts = [some for some in (words, body) if some]
    return _Wanted(
        words,
        body,
        noun=bool(noun),
        keys=frozenset(_key("".join(some[:end])) for some in starts for end in (1, 2)),
        cuts=frozenset(some[0][:cut] for some in starts for cut in range(2, len(some[0]))),
    )


@lru_cache(maxsize=1 << 13)
def _read(text: str) -> _Text:
    clauses = tuple(_clauses(text))
    every = frozenset[str]()
    return _Text(
        clauses,
        every.union(*(c.words for c in clauses), *(c.value for c in clauses)),
        every.union(*(c.keys for c in clauses), *(map(_key, c.value) for c in clauses)),
    )


def _clauses(text: str) -> Iterator[_Clause]:
    """The clauses of a text; a value that denies its key is not part of any clause."""
    pieces = _BREAK.split(_OPEN.sub(r"\1 ", text))
    parts, marks = pieces[::2], [*(mark.strip() for mark in pieces[1::2]), ""]
    for at, part in enumerate(parts):
        behind = at + 1
        if (
            behind < len(parts)
            and marks[at] in {"?", "\uff1f"}
            and _ANSWER.fullmatch(parts[behind])
        ):
            behind += 1
        value = parts[behind] if behind < len(parts) and marks[at] in _KEYED else ""
        no = _VALUE.match(value) or (marks[behind] == ":" and _NEXT.match(value) if value else None)
        if no:
            parts[behind] = value[no.end() :]
        asked = _ASKING.match(part) and value.strip().lower().startswith("no ")
        head, comma, key = part.rpartition(",")
        cut = bool(comma and (no or asked))
        if cut:
            yield from _clause(head)
        items = () if no or marks[at] != ":" else _items(value, marks[behind])
        yield from _clause(key if cut else part, no=bool(no or asked), value=items)


def _clause(part: str, *, no: bool = False, value: tuple[str, ...] = ()) -> Iterator[_Clause]:
    words = _words(part)
    if words:
        yield _Clause(words, tuple(map(_key, words)), no, value)


def _items(value: str, mark: str) -> tuple[str, ...]:
    """The last words of a value's items; the next key may be joined to the last item."""
    found = []
    for item in re.split(r"[,/&+]", value):
        words = _words(item)
        if _DENYING & set(words):
            return ()
        if 0 < len(words) <= _ITEM:
            found.append(words[-1])
    opening = re.match(r"\s*([A-Za-z]+)\s+[A-Z]", value)
    if opening and mark == ":":
        found.append(opening[1].lower())
    return tuple(found)


def _words(text: str) -> tuple[str, ...]:
    """Words, commas and links in lower case; "SoftSole" is split into two words."""
    text = _GLUED.sub(" ", text).lower().replace("\u2019", "'")
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=1 << 16)
def _key(word: str) -> str:
    """The common stem of a word's inflections."""
    word = word.removesuffix("'s")
    if word.endswith("ily"):
        word = word[:-3] + "y"
    word = _EDGED.get(word, word)
    if word.endswith("en") and word[:-2] in _MATERIALS:
        word = word[:-2]
    found = _ABLE.sub("", _graded(word) or stem(word))
    return found[:-1] if len(found) > _LONG and found[-1] in "iy" else found


def _graded(word: str) -> str:
    """The stem of the adjective of a comparative or superlative ("fresher", "highest"), or ""."""
    ending = "est" if word.endswith("est") else "er" if word.endswith("er") else ""
    base = word[: len(word) - len(ending)]
    if not ending or len(base) < _LONG:
        return ""
    found = stem(f"{base}ed")
    return found if ending == "est" or found.removesuffix("i") in _GRADED else ""


def _has(clause: _Clause, wanted: _Wanted) -> Iterator[str]:
    """For each mention of an attribute, whether it is affirmed."""
    for mention in _mentions(clause, wanted.words):
        if _keyed_no(clause, mention) or _refused(clause.words, mention):
            yield _REFUSES
            continue
        denied = clause.words[mention.end : mention.end + 1] == ("free",)
        denied = denied or _denied(clause.words, mention)
        if mention.sure or denied:
            yield _NO if denied else _YES


def _keyed_no(clause: _Clause, mention: _Mention) -> bool:
    """Whether a mention is in a key whose value is "no"."""
    return clause.no and _LABEL.issuperset(clause.words[mention.end :])


def _lacks(clause: _Clause, wanted: _Wanted) -> Iterator[str]:
    """For each mention of x in "x free" and "non x": whether it is missing, if that is stated."""
    words = clause.words
    for mention in _mentions(clause, wanted.words, lists=False):
        yield _refusal(clause, mention)
    for mention in _mentions(clause, wanted.body):
        start, end, _ = mention
        prefixed = words[max(start - 1, 0)] == "non"
        if prefixed or _freed(words, mention):
            if words[start : start + len(wanted.words)] != wanted.words:
                yield _refusal(
                    clause, _Mention(start - prefixed, end + (words[end : end + 1] == ("free",)))
                )
        elif wanted.noun and not _alone(words, mention):
            continue
        elif _denied(words, mention, missing=True, noun=wanted.noun) or _keyed_no(clause, mention):
            yield _YES


def _refusal(clause: _Clause, mention: _Mention) -> str:
    if _keyed_no(clause, mention) or _refused(clause.words, mention):
        return _REFUSES
    return _NO if _denied(clause.words, mention) else _YES


def _alone(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether a mention is its whole item: "no sugar", but not "no added sugar"."""
    start, end, _ = mention
    before, behind = words[start - 1] if start else ",", words[end] if end < len(words) else ","
    opens = before in _SEPARATORS or before in _NOMINAL or before in {"of", "from", "any", "all"}
    return (opens or _key(before) in _CONTAINING) and behind in _CLOSING


def _mentions(
    clause: _Clause, wanted: tuple[str, ...], *, lists: bool = True
) -> Iterator[_Mention]:
    """The places of an attribute's words, in sequence or in a list that shares one of them."""
    keys = tuple(map(_key, wanted))
    pair = len(keys) == 2 and lists  # noqa: PLR2004  a modifier and its noun
    if pair and clause.value:
        yield from _valued(clause, keys)
    for start in range(len(clause.words)):
        if pair and clause.keys[start] in keys:
            found = _turned(clause, start, wanted, keys[0]) if clause.keys[start] == keys[1] else 0
            found = found or _reordered(clause, start, wanted, keys)
            if found:
                yield _Mention(start, found)
        if clause.keys[start][:2] != keys[0][:2]:
            continue
        end = _phrase(clause, start, wanted, keys)
        if end:
            yield _Mention(start, end)
        elif pair and clause.keys[start] == keys[0] and _named_between(clause, start, keys):
            yield _Mention(start, start + 3)
        elif pair and clause.keys[start] == keys[0]:
            yield from _listed(clause, start, keys[1])


def _phrase(clause: _Clause, at: int, wanted: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """The end of the attribute's words that start at a place, 0 if they do not start there.

    A few small words may be between them, and compounds may be written as one or two words.
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
    """Whether a word may be inside an attribute: "to", a number, or a comma before a number."""
    number = words[at + (words[at] == ",") :][:1]
    return words[at] in _GAPS or (number != () and number[0][0].isdecimal())


def _turned(clause: _Clause, at: int, wanted: tuple[str, ...], modifier: str) -> int:
    """The end of an attribute in reverse order that starts with its last word at a place, or 0.

    "Sole of rubber", "mounted on the wall", "the height is adjustable"; a participle or an adverb
    needs no word between: "adjustable height", "installs easily".
    """
    end = at + 1
    while end < len(clause.words) and end - at <= _GAP + 1 and clause.words[end] in _TURNING:
        end += 1
    between, word = clause.words[at + 1 : end], clause.words[end : end + 1]
    if wanted[1].endswith("ed") and not clause.words[at].endswith(("ed", "s", "ing")):
        return 0  # a base for plants is not plant based
    if not word or modifier not in {clause.keys[end], _key(word[0].removesuffix("ly"))}:
        return 0
    alone = clause.words[end + 1 : end + 2] == () or clause.words[end + 1] in _CLOSING
    joined = alone and between and "to" not in between and not _PARTICIPLE.search(wanted[0])
    fits = joined or _IS & set(between) or _PARTICIPLE.search(wanted[1]) or word[0].endswith("ly")
    return end + 1 if fits else 0


def _valued(clause: _Clause, keys: tuple[str, ...]) -> Iterator[_Mention]:
    """An attribute whose noun is a key and whose modifier is the value: "finish: bronze"."""
    end = len(clause.words)
    end -= end > 1 and clause.words[-1] in {"type", "material", "style"}
    named = clause.keys[end - 1] == keys[1] and not clause.words[end - 1].endswith("ing")
    if named and clause.words[max(end - 2, 0)] not in _SMALL and keys[0] in map(_key, clause.value):
        yield _Mention(end - 1, len(clause.words))


def _reordered(clause: _Clause, at: int, wanted: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """The end of an attribute with its words in another order, from a place on, or 0.

    Only if there is no other meaning: fibers of a blend, a figure ("hd 1080p"), adjustable or
    supportive things ("adjustable seat height"), and results ("leaves breath fresh").
    """
    words, own = clause.words, clause.keys
    if set(wanted) <= _FIBERS:
        return _blend(words, at, *wanted)
    if own[at] == keys[1]:
        following = own[at + 1 : at + 2] == keys[:1]
        if following and any(word[0].isdecimal() and not word.isdecimal() for word in wanted):
            return at + 2
        if following and words[at] == f"{wanted[1]}ive":
            return at + 2
        able = _OBJECT.search(words[at]) and _OBJECT.search(wanted[1])
        if (
            able
            and wanted[0] not in _MEANS
            and own[at + 2 : at + 3] == keys[:1]
            and words[at + 1] not in _OPENING
        ):
            return at + 3
        before = at - (words[at - 1] in _WHOSE)
        if following and keys[0] in _GRADED and before and own[before - 1] in _KEEPING:
            return at + 2
    return 0


def _blend(words: tuple[str, ...], at: int, one: str, other: str) -> int:
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


def _named_between(clause: _Clause, start: int, keys: tuple[str, ...]) -> bool:
    """Whether a word between specifies the noun: "usb data cable", "soft tpu fabric"."""
    if clause.keys[start + 2 : start + 3] != keys[1:]:
        return False
    between = clause.words[start + 1]
    if between in _OPENING | _DENYING or between[0].isdecimal():
        return False
    kept = clause.words[start] in _INITIALS | _PRAISE or keys[1] in _STUFF
    return kept or (keys[1] == "wood" and between in _WOODS)


def _listed(clause: _Clause, start: int, noun: str) -> Iterator[_Mention]:
    """A modifier and its noun with a list between: "dry and damaged hair" has dry hair.

    A list after the modifier's own noun may share it or not: "artificial colors and flavors".
    """
    words, own = clause.words, 0
    if words[start + 1 : start + 2] == ("to",):
        yield from _doable(clause, start, noun)
    elif words[start + 2 : start + 3] == ("to",) and clause.keys[start + 3 : start + 4] == (noun,):
        yield _Mention(start, start + 4, sure=clause.keys[start] in _GRADED)  # an easy pan to clean
    for at in range(start + 1, min(start + 1 + _ITEMS, len(words))):
        separated, before = words[at] in _SEPARATORS, words[at - 1] in _SEPARATORS
        if words[at] in _SMALL:
            return
        treated = words[at].endswith("ed") and at + 1 < len(words) and clause.keys[at + 1] == noun
        before = before or (at > start + 1 and words[at - 1] in _DEGREES)
        if words[at] in _DEGREES or (not separated and not before and treated):
            continue  # "and very soft hair", "color-treated hair"
        if not separated and not before:  # two adjacent words
            if clause.keys[at] == noun and at > start + 1 and not own:
                yield _Mention(start, at + 1)
                return
            if at > start + 1:
                return
            own = at
        elif own and before and clause.keys[at] == noun:
            yield _Mention(start, at + 1, sure=False)
            return


def _doable(clause: _Clause, start: int, verb: str) -> Iterator[_Mention]:
    """A verb in a list after "to": "easy to store and carry"."""
    words = clause.words
    for at in range(start + 2, min(start + 2 + _ITEMS, len(words))):
        separated, before = words[at] in _SEPARATORS, words[at - 1] in _SEPARATORS
        if not separated and not before and at > start + 2 and words[at] != "to":
            return
        if before and clause.keys[at] == verb:
            behind = words[at + 1] if at + 1 < len(words) else ","
            if behind in _CLOSING or behind in _WHOSE or behind == "it":
                yield _Mention(start, at + 1)
            return


def _freed(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether "free" follows a mention, directly or at the end of its list."""
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
    """Whether a negation before or after a mention denies it.

    missing: the mention is the thing that must be missing. noun: it is a noun, which "do not" does
    not deny.
    """
    start = mention.start
    if _refused(words, mention):
        return True
    at = _negation(words, start)
    if at < 0:
        return False
    if noun and _verbal(words[at]) and not _CONTAINING & set(map(_key, words[at + 1 : start])):
        return False
    return _reaches(words, at, mention, missing=missing)


def _refused(words: tuple[str, ...], mention: _Mention) -> bool:
    """Whether a refusal follows a mention: "is not required", "not included"."""
    end = mention.end
    behind = words[end + (words[end : end + 1] != () and words[end] in _IS) :][:2]
    refused = len(behind) > 1 and _verbal(behind[0]) and behind[1] in _REFUSED
    return refused or behind == ("sold", "separately")


def _negation(words: tuple[str, ...], start: int) -> int:
    """The place of a negation before a mention and near enough to refer to it, else -1."""
    distance = 0
    for at in range(start - 1, max(-1, start - 1 - _FAR), -1):
        word, before = words[at], words[at - 1] if at else ""
        verbal, free = _verbal(word), words[at : at + 2] in _PAIRS
        if verbal or free or word in _NOMINAL or (word == "non" and not distance):
            return at if distance <= _REACH[verbal] + free else -1
        purpose = word == "for" and before not in _MEANT
        if (purpose or word in _ENDS) and not _verbal(before):  # except "not for", "not yet"
            return -1
        distance = 0 if word in _SEPARATORS else distance + 1
    return -1


def _verbal(word: str) -> bool:
    return word in _VERBAL or word.endswith("n't")


def _reaches(words: tuple[str, ...], at: int, mention: _Mention, *, missing: bool) -> bool:
    """Whether a negation reaches a mention after it: across "or", and in a list across commas.

    Across "and" only "free of" reaches it, and "no" and "without" if the mention must be missing.
    """
    start, end, _ = mention
    between = words[at + 1 : start]
    if words[at + 1] in _NOT_DENYING:
        return False
    through_and = words[at] == "free" or (missing and not _verbal(words[at]))
    if not through_and and _AND & set(between):
        return False
    if "," not in between or (missing and words[at] in {"free", "without"}):
        return True
    links = _OR | _AND if through_and else _OR
    if links & set(takewhile(lambda word: word != ",", reversed(between))):
        return True
    behind = words[end : end + _ITEMS]
    return bool(behind) and behind[0] in _SEPARATORS and bool(links & set(behind))
