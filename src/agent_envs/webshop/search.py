"""The search of the public WebShop: Lucene's English analyzer, and BM25 with Lucene's scores.

The analyzer is that of Anserini 0.22.1 (Lucene 9.5): word boundaries of the standard tokenizer (UAX
#29 and emoji, Unicode 12.1), possessives removed, lower case, 33 stop words removed, and the last
version of Porter's stemmer. BM25 is computed in float32: k1 0.9, b 0.4, document lengths in one
byte, ties by id. A query is a bag of words. Not supported: other languages, positions, operators,
fields, updates.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
LONGEST = 255  # most UTF-16 units of a token
_SHORT = LONGEST // 2  # so many characters never have more than LONGEST units
_WIDE = "\U00010000"  # the first character with two units


class _Classes(dict[int, str]):
    """The word-break class of each code point, computed on first use.

    L letter, P letter that is an emoji, H Hebrew letter, N digit, 0 ASCII digit, K Katakana, E
    joiner of words, m n q s d characters inside a word or number, I R single characters, C c
    complex scripts, Y emoji, M skin tone, G half of a flag, # base of a key cap, k key cap, X
    extender, Z joiner of emoji, F f presentation, T t tags, o other. c, M, Z, F, f, k, T and t
    extend like X.
    """

    def __init__(self) -> None:
        table = Path(__file__).with_name("word_breaks.txt").read_text(encoding="ascii")
        ranges = []
        for line in table.splitlines():
            name, *spans = line.split(" ")
            for span in spans:
                first, _, last = span.partition("-")
                ranges.append((int(first, 16), int(last or first, 16), name))
        ranges.sort()
        self._firsts = [first for first, _, _ in ranges]
        self._ranges = ranges

    def __missing__(self, code: int) -> str:
        first, last, name = self._ranges[bisect_right(self._firsts, code) - 1]
        found = self[code] = name if first <= code <= last else "o"
        return found


def _build_patterns() -> tuple[str, ...]:
    """Patterns of tokens in a string of classes: words, emoji, others. The longest match counts."""
    extended, plain = "[XfFkZTtcM]*", "[XkZTtcM]*"
    letter, hebrew, digit, kana, joiner, quote, double = (
        kind + extended for kind in ("[LPH]", "H", "[N0]", "K", "E", "s", "d")
    )
    inside_word, inside_number = f"[mqs]{extended}", f"[nqs]{extended}"
    piece = (
        f"(?:{hebrew}{double}{hebrew}|{hebrew}{quote}|{letter}(?:{inside_word}{letter})*"
        f"|{digit}(?:{inside_number}{digit})*)"
    )
    core = f"(?:{kana}(?:(?:{joiner})*{kana})*|{piece}+)"
    word = f"(?:{joiner})*+{core}(?:(?:{joiner})+{core})*(?:{joiner})*"
    one = f"(?:[YP]{plain}F?|M{plain})"
    joined = f"(?:(?<=Z)|Z+(?=[YP])|Z(?=M)){one}"
    emoji = f"(?:Z*+(?=[YP])|(?=M)){one}(?:T+t|(?:{joined})+)?"
    rest = f"#{plain}F?k{plain}|G{extended}G{extended}|(?:[Cc]{extended})+|[IR]{extended}"
    return word, emoji, rest


_STOPPED = frozenset(STOP_WORDS.split())
_CLASSES = _Classes()
_KINDS = [re.compile(kind) for kind in _build_patterns()]
_TOKENS = re.compile("|".join((*_build_patterns(), "(E+|Z+)")))  # the last is not a token
_LOWER = {"\u0130": "i"}  # all others have one letter in lower case


def extract_terms(text: str) -> list[str]:
    """The index terms of a text, in order."""
    return [word for start, end in _find_spans(text) if (word := _normalize(text[start:end]))]


def _find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each token of a text."""
    classes = text.translate(_CLASSES)
    at, more = 0, True
    while more:
        more = False
        for match in _TOKENS.finditer(classes, at):
            start, end = match.span()
            if match[1]:
                continue
            if end - start <= _SHORT and classes[start] != "P":
                yield start, end
                continue
            more = True  # a token of two kinds, or one that is too long
            at = yield from _split_mixed(text, classes, start, end)
            break


def _split_mixed(
    text: str, classes: str, at: int, end: int
) -> Generator[tuple[int, int], None, int]:
    """The longest tokens of one kind from a place to an end; returns the end of the last one."""
    while at < end:
        window = _end_window(text, at)
        longest = max(
            found.end() if (found := kind.match(classes, at, window)) else 0 for kind in _KINDS
        )
        if longest:
            yield at, longest
        at = longest or at + 1
    return at


def _end_window(text: str, start: int) -> int:
    """The end of the characters from `start` on that fit into a token."""
    part = text[start : start + LONGEST]
    if part.isascii() or max(part) < _WIDE:
        return start + len(part)
    units = 0
    for place, char in enumerate(part):
        units += 1 + (char >= _WIDE)
        if units > LONGEST:
            return start + place
    return start + len(part)


@lru_cache(maxsize=1 << 17)
def _normalize(token: str) -> str:
    """The index term of a token; "" for a stop word."""
    if token[-2:-1] in {"'", "\u2019", "\uff07"} and token[-1] in "sS":
        token = token[:-2]
    if token.isascii():
        token = token.lower()
    else:
        token = "".join(_LOWER.get(char) or char.lower() for char in token)
    if token in _STOPPED:
        return ""
    if token.isascii() or max(token) < _WIDE:
        return stem(token)
    units = memoryview(token.encode("utf-16")[2:]).cast("H")  # the stemmer counts UTF-16 units
    return stem("".join(map(chr, units))).encode("utf-16", "surrogatepass").decode("utf-16")


_STEPS_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize",
    "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEPS_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEPS_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion",
    "ou", "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip
_SHORTEST = 2  # words up to this length are not stemmed
_VOWELS = frozenset("aeiou")


def stem(word: str) -> str:
    """Porter's stem of a lower-case word, with his later rules bli -> ble and logi -> log."""
    if len(word) <= _SHORTEST:
        return word
    word = _strip_plural(word)
    word = _strip_past(word)
    if word.endswith("y") and "v" in _spell_shape(word[:-1]):
        word = word[:-1] + "i"
    word = _swap_ending(_swap_ending(word, _STEPS_2), _STEPS_3)
    return _strip_e(_drop_suffix(word))


def _spell_shape(part: str) -> str:
    """Each letter as c (consonant) or v (vowel); y is a vowel after a consonant."""
    shape = ""
    for char in part:
        vowel = char in _VOWELS or (char == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _count_measure(part: str) -> int:
    """Porter's measure: how often a consonant follows a vowel."""
    return _spell_shape(part).count("vc")


def _is_short(part: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, with the last not w, x or y."""
    return _spell_shape(part).endswith("cvc") and part[-1] not in "wxy"


def _strip_plural(word: str) -> str:
    if not word.endswith("s"):
        return word
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word if word.endswith("ss") else word[:-1]


def _strip_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _count_measure(word[:-3]) > 0 else word
    ending = next((e for e in ("ed", "ing") if word.endswith(e)), "")
    part = word[: len(word) - len(ending)]
    if not ending or "v" not in _spell_shape(part):
        return word
    if part.endswith(("at", "bl", "iz")):
        return part + "e"
    if part[-2:-1] == part[-1:] and _spell_shape(part).endswith("c"):
        return part if part[-1] in "lsz" else part[:-1]
    return part + "e" if _count_measure(part) == 1 and _is_short(part) else part


def _swap_ending(word: str, steps: dict[str, str]) -> str:
    """The word with its longest ending in `steps` replaced, if a stem is left before it."""
    for length in range(min(7, len(word)), 2, -1):
        ending = word[-length:]
        if ending in steps:
            part = word[:-length]
            return part + steps[ending] if _count_measure(part) > 0 else word
    return word


def _drop_suffix(word: str) -> str:
    ending = max((e for e in _STEPS_4 if word.endswith(e)), key=len, default="")
    if not ending:
        return word
    kept = 1 if ending in {"sion", "tion"} else 0
    part = word[: len(word) - len(ending) + kept]
    return part if _count_measure(part) > 1 else word


def _strip_e(word: str) -> str:
    if word.endswith("e"):
        count = _count_measure(word[:-1])
        if count > 1 or (count == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _count_measure(word) > 1:
        word = word[:-1]
    return word


K1, B = np.float32(0.9), np.float32(0.4)
MOST = 50  # results of a search
KEPT = 4096  # queries whose results are cached
_EXACT = 24  # lengths that one byte stores exactly


class Index:
    """An inverted index: term t has postings `starts[t]:starts[t + 1]`.

    Attributes:
        search: `search(query)` returns the places of at most 50 documents that share a word with
            the query, best first. Results are cached.
    """

    def __init__(self, documents: Iterable[str], ids: Sequence[str]) -> None:
        order = sorted(range(len(ids)), key=ids.__getitem__)
        self._place = np.array(order, dtype=np.int32)  # place of the document with each rank by id
        rank = np.empty(len(ids), dtype=np.int32)
        rank[self._place] = np.arange(len(ids), dtype=np.int32)
        self._terms: dict[str, int] = {}
        terms: list[int] = []  # of each posting its term, and how often the document has it
        times: list[int] = []
        sizes, lengths = np.zeros((2, len(ids)), dtype=np.int64)
        for place, document in enumerate(documents):
            counted = Counter(extract_terms(document))
            terms += [self._terms.setdefault(word, len(self._terms)) for word in counted]
            times += counted.values()
            sizes[place], lengths[rank[place]] = len(counted), counted.total()
        docs, term = np.repeat(rank, sizes), np.array(terms, dtype=np.int32)
        by_term = np.lexsort((docs, term))
        self._docs = docs[by_term]
        count = np.bincount(term, minlength=len(self._terms))
        self._starts = np.concatenate([[0], np.cumsum(count)])
        total = int(np.count_nonzero(lengths))
        idf = [math.log(1 + (total - n + 0.5) / (n + 0.5)) for n in count.tolist()]
        self._idf = np.array(idf, dtype=np.float32)
        often = np.array(times, dtype=np.float32)[by_term]
        self._damp = np.float32(1) + often * _norm_lengths(lengths)[self._docs]
        self.search = lru_cache(maxsize=KEPT)(lambda query: tuple(self.scores(query)[0].tolist()))

    def scores(self, query: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Places and scores of the documents that share a word with the query, best first."""
        total = np.zeros(len(self._place))
        for word, times in Counter(extract_terms(query)).items():
            term = self._terms.get(word)
            if term is None:
                continue
            here = slice(self._starts[term], self._starts[term + 1])
            weight = np.float32(times) * self._idf[term]
            total[self._docs[here]] += weight - weight / self._damp[here]
        found = np.flatnonzero(total)
        score = total[found].astype(np.float32)
        if len(found) > MOST:
            best = score >= np.partition(score, -MOST)[-MOST]
            found, score = found[best], score[best]
        first = np.argsort(-score, kind="stable")[:MOST]
        return self._place[found[first]], score[first]


def _norm_lengths(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 / (k1 (1 - b + b length / mean length)) of each document: [D] -> [D]."""
    mean = np.float32(lengths.sum() / max(1, np.count_nonzero(lengths)))
    kept = np.array([_round_length(n) for n in lengths.tolist()], dtype=np.float32)
    norm: NDArray[np.float32] = np.float32(1) / (
        K1 * ((np.float32(1) - B) + B * kept / max(mean, np.float32(1)))
    )
    return norm


def _round_length(length: int) -> int:
    """A length after rounding by Lucene's byte: exact to 40, then with four significant bits."""
    rest = length - _EXACT
    lost = max(0, rest.bit_length() - 4) if rest > 0 else 0
    return _EXACT + (rest >> lost << lost) if rest > 0 else length
