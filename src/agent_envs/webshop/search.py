"""BM25 over a fixed set of documents, with Lucene's scores.

Computed in float32 like Lucene: k1 0.9, b 0.4, document lengths in one byte, ties by id. A query is
a bag of words. Not supported: operators, fields, updates.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from agent_envs.webshop.analysis import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

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
        self._terms, term, doc, times, lengths = _postings(documents, rank)
        by_term = np.argsort(term, kind="stable")
        self._docs = doc[by_term]
        count = np.bincount(term, minlength=len(self._terms))
        self._starts = np.concatenate([[0], np.cumsum(count)])
        self._idf = _idf(count, int(np.count_nonzero(lengths)))
        self._damp = np.float32(1) + times[by_term] * _norm(lengths)[self._docs]
        self.search = lru_cache(maxsize=KEPT)(self._search)

    def scores(self, query: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Places and scores of the documents that share a word with the query, best first."""
        total = np.zeros(len(self._place))
        for word, times in Counter(words(query)).items():
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

    def _search(self, query: str) -> tuple[int, ...]:
        return tuple(self.scores(query)[0].tolist())


def _postings(
    documents: Iterable[str], rank: NDArray[np.int32]
) -> tuple[
    dict[str, int], NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]
]:
    """Terms; for each posting its term, its document's rank and its count; lengths [D]."""
    terms: dict[str, int] = {}
    term: list[int] = []
    times: list[int] = []
    sizes = np.zeros(len(rank), dtype=np.int64)
    lengths = np.zeros(len(rank), dtype=np.int64)
    for place, document in enumerate(documents):
        counted = Counter(words(document))
        term += [terms.setdefault(word, len(terms)) for word in counted]
        times += counted.values()
        sizes[place], lengths[rank[place]] = len(counted), counted.total()
    doc = np.repeat(rank, sizes)
    by_doc = np.argsort(doc, kind="stable")
    return (
        terms,
        np.array(term, dtype=np.int32)[by_doc],
        doc[by_doc],
        np.array(times, dtype=np.float32)[by_doc],
        lengths,
    )


def _idf(count: NDArray[np.int64], documents: int) -> NDArray[np.float32]:
    """Inverse document frequency of each term: document counts [T] -> [T]."""
    values = [math.log(1 + (documents - n + 0.5) / (n + 0.5)) for n in count.tolist()]
    return np.array(values, dtype=np.float32)


def _norm(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 / (k1 (1 - b + b length / mean length)) of each document: [D] -> [D]."""
    mean = np.float32(lengths.sum() / max(1, np.count_nonzero(lengths)))
    kept = np.array([_in_a_byte(n) for n in lengths.tolist()], dtype=np.float32)
    norm: NDArray[np.float32] = np.float32(1) / (
        K1 * ((np.float32(1) - B) + B * kept / max(mean, np.float32(1)))
    )
    return norm


def _in_a_byte(length: int) -> int:
    """A length after rounding by Lucene's byte: exact to 40, then with four significant bits."""
    rest = length - _EXACT
    lost = max(0, rest.bit_length() - 4) if rest > 0 else 0
    return _EXACT + (rest >> lost << lost) if rest > 0 else length
