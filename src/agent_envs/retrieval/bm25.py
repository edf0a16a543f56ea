"""BM25 by the package bm25s, with the same order of results on every machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from agent_envs.assets import require
from agent_envs.retrieval.passages import Passage, check_search, fold_letters, pick_best

_WORDS = re.compile(r"\w+").findall


class BM25:
    """Lucene's BM25 over the words of titles and texts.

    Words are lower-cased, stripped of diacritics (`fold_letters`) and stemmed (Snowball's English);
    there are no stop words. Passages of equal score are in the corpus's order; passages without any
    word of the query are never returned.

    Args:
        passages: The corpus, at least one passage.
        k1: Weight of a word's further occurrences, at least 0.
        b: Strength of the length normalisation, in [0, 1].

    Raises:
        ImportError: The packages of the extra [search] are not installed.
    """

    def __init__(self, passages: Sequence[Passage], *, k1: float = 1.5, b: float = 0.75) -> None:
        bm25s = require("bm25s", "search")
        self._stem = lru_cache(2**18)(require("Stemmer", "search").Stemmer("english").stemWord)
        self.passages, self.k1, self.b = passages, k1, b
        self._terms: dict[str, int] = {}
        documents = [
            [self._terms.setdefault(word, len(self._terms)) for word in self._split_words(text)]
            for text in (passage.document for passage in passages)
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
        check_search(queries, k)
        return [self._search_one(query, k) for query in queries]

    def _search_one(self, query: str, k: int) -> list[Passage]:
        terms = [self._terms[word] for word in self._split_words(query) if word in self._terms]
        if not terms:
            return []
        return pick_best(self.passages, self._index.get_scores_from_ids(terms), k, above=0.0)

    def _split_words(self, text: str) -> list[str]:
        """The stemmed words of a text, in lower case without diacritics."""
        return [self._stem(word) for word in _WORDS(fold_letters(text))]

    def __deepcopy__(self, memo: dict[int, Any]) -> BM25:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(BM25, self.passages, k1=self.k1, b=self.b), ()
