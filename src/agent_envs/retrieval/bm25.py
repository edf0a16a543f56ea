"""BM25 by the package bm25s, with the same order of results on every machine."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from agent_envs.assets import require
from agent_envs.retrieval.passages import Passage, best, check

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS = re.compile(r"\w+").findall


class BM25:
    """Lucene's BM25 over the words of titles and texts.

    Words are lower-cased, stripped of diacritics and stemmed (Snowball's English); there are no
    stop words. Passages of equal score are in the corpus's order; passages without any word of the
    query are never returned.

    Args:
        passages: The corpus.
        k1: Weight of a word's further occurrences, at least 0.
        b: Strength of the length normalisation, in [0, 1].

    Raises:
        ImportError: The packages of the extra [search] are not installed.
        ValueError: There is no passage, or `k1` or `b` is out of range.
    """

    def __init__(self, passages: Sequence[Passage], *, k1: float = 1.5, b: float = 0.75) -> None:
        if not passages:
            raise ValueError("BM25 needs at least one passage, got none")
        if k1 < 0 or not 0 <= b <= 1:
            raise ValueError(f"k1 must be at least 0 and b in [0, 1], got k1={k1} and b={b}")
        bm25s = require("bm25s", "search")
        self._stem = lru_cache(2**18)(require("Stemmer", "search").Stemmer("english").stemWord)
        self.passages, self.k1, self.b = passages, k1, b
        self._terms: dict[str, int] = {}
        documents = [
            [self._terms.setdefault(word, len(self._terms)) for word in self._words(passage)]
            for passage in (f"{passage.title}\n{passage.text}" for passage in passages)
        ]
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        if self._terms:
            tokens = bm25s.tokenization.Tokenized(ids=documents, vocab=self._terms)
            self._index.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query, best first; fewer if fewer share a word with it.

        Raises:
            ValueError: `k` below 1.
        """
        check(queries, k)
        return [self._found(query, k) for query in queries]

    def _found(self, query: str, k: int) -> list[Passage]:
        terms = [self._terms[word] for word in self._words(query) if word in self._terms]
        if not terms:
            return []
        scores = self._index.get_scores_from_ids(terms)
        return best(self.passages, scores, k, above=0.0)

    def _words(self, text: str) -> list[str]:
        return [self._stem(word) for word in _WORDS(_folded(text))]

    def __deepcopy__(self, memo: dict[int, Any]) -> BM25:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(BM25, self.passages, k1=self.k1, b=self.b), ()


def _folded(text: str) -> str:
    """Lower case without diacritics."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text)
    return "".join(c for c in plain if not unicodedata.combining(c)).lower()
