"""`open_retriever`: retrievers by name; and those that fuse, cache or replace others."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset
from agent_envs.options import require_methods
from agent_envs.panels import one_of
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.client import Http
from agent_envs.retrieval.dense import E5, Dense, Encoder
from agent_envs.retrieval.passages import Passage, Retriever, check_search

if TYPE_CHECKING:
    from agent_envs.retrieval.passages import Corpus

NAMES = ("bm25", "dense", "hybrid")
MODEL = "AGENT_ENVS_DENSE_MODEL"
"""The environment variable with the default encoder."""
_CACHED = 10_000  # queries
_RANK = 60  # Cormack et al.'s constant
_TABLE = "CREATE TABLE IF NOT EXISTS found (query, k, passages, UNIQUE (query, k))"
_LOOK = "SELECT passages FROM found WHERE query = ? AND k = ?"
_KEEP = "INSERT OR REPLACE INTO found VALUES (?, ?, ?)"


def open_retriever(
    named: str | Retriever, corpus: Corpus | None, *, model: str = "", index: str = "flat"
) -> Retriever:
    """A retriever by name ("bm25", "dense", "hybrid") or by the URL of a server.

    It caches the results of 10,000 queries. A retriever object is returned unchanged.

    Args:
        named: The name, URL or retriever.
        corpus: The corpus that "bm25", "dense" and "hybrid" search.
        model: The encoder of "dense" and "hybrid", a sentence-transformers path or name; "" for
            `$AGENT_ENVS_DENSE_MODEL`. Models with "e5" in their name get E5's prefixes.
        index: The kind of dense index, or a folder that `agent-envs retrieval index` wrote.

    Raises:
        ValueError: An unknown name, no corpus to search, or no model.
        TypeError: Neither a name nor a retriever.
    """
    if not isinstance(named, str):
        require_methods("retriever", named, "search")
        return named
    if "://" in named:
        return Cached(Http(named), size=_CACHED)
    one_of("retriever", named, NAMES)
    if corpus is None:
        raise ValueError(f"retriever {named!r} needs a corpus.jsonl in the data folder, or a URL")
    return _share_retriever(named, corpus, model or default_model(), index)


def default_model() -> str:
    """The value of `$AGENT_ENVS_DENSE_MODEL`, or ""."""
    return os.environ.get(MODEL, "")


def open_encoder(model: str) -> Encoder:
    """The encoder with that path or name, with E5's prefixes if its name contains "e5".

    "" is the encoder of `$AGENT_ENVS_DENSE_MODEL`.

    Raises:
        ValueError: An empty name, and the variable is not set.
    """
    model = model or default_model()
    if not model:
        raise ValueError(
            "dense retrieval needs an encoder: give model= (`agent-envs retrieval` has --model), "
            f"or set ${MODEL}"
        )
    prefixes = E5 if "e5" in Path(model).name.lower() else ("", "")
    return Encoder(model, prefixes=prefixes)


class Hybrid:
    """Reciprocal rank fusion: a passage scores the sum of 1 / (60 + its rank) over retrievers.

    Equal scores keep the order in which the retrievers found them (Cormack, Clarke & Büttcher,
    SIGIR 2009).

    Args:
        retrievers: Of the same corpus.
        depth: Passages to request from each of them, at least.
    """

    def __init__(self, *retrievers: Retriever, depth: int = 20) -> None:
        self.retrievers, self.depth = retrievers, depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query by their fused score.

        Raises:
            ValueError: `k` below 1.
        """
        check_search(queries, k)
        found = [r.search(queries, max(k, self.depth)) for r in self.retrievers]
        return [fuse_lists(lists)[:k] for lists in zip(*found, strict=True)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Hybrid:
        return self


def fuse_lists(lists: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The passages of several lists, each best first, by the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for found in lists:
        for rank, passage in enumerate(found, 1):
            passages.setdefault(passage.id, passage)
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (_RANK + rank)
    order = sorted(scores, key=lambda key: -scores[key])
    return [passages[key]._replace(score=scores[key]) for key in order]


class Cached:
    """Caches the results of a retriever: the latest queries in memory, all of them in a file.

    The file is an SQLite database that several processes may share. It does not identify the
    retriever: use one file per retriever.

    Args:
        retriever: Gets all queries that are not cached, in one call.
        size: Number of queries cached in memory.
        file: Database for all queries, if given.

    Raises:
        BadAsset: `file` is not such a database.
    """

    def __init__(
        self, retriever: Retriever, *, size: int = 100_000, file: Path | None = None
    ) -> None:
        self.retriever, self.size, self.file = retriever, size, file
        self._passages: OrderedDict[tuple[str, int], list[Passage]] = OrderedDict()
        if file is not None:  # refuses an invalid file before the first search
            with self._open_database():
                pass

    @property
    def waits(self) -> bool:
        """Whether the retriever waits for a server."""
        return bool(getattr(self.retriever, "waits", False))

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The passages of each query, cached or from the retriever.

        Raises:
            ValueError: `k` below 1.
            OSError: The file cannot be written.
        """
        check_search(queries, k)
        wanted = dict.fromkeys(queries)
        cached = {query: self._passages.get((query, k)) for query in wanted}  # threads may share it
        known = {query: passages for query, passages in cached.items() if passages is not None}
        known |= self._load_passages([query for query in wanted if query not in known], k)
        fresh = [query for query in wanted if query not in known]
        if fresh:
            answers = dict(zip(fresh, self.retriever.search(fresh, k), strict=True))
            self._save_passages(answers, k)
            known |= answers
        for query in wanted:
            self._passages.pop((query, k), None)
            self._passages[query, k] = known[query]
        while len(self._passages) > self.size:
            self._passages.popitem(last=False)
        return [list(known[query]) for query in queries]

    def _load_passages(self, queries: list[str], k: int) -> dict[str, list[Passage]]:
        """The cached passages of these queries in the file."""
        if self.file is None or not queries:
            return {}
        with self._open_database() as database:
            rows = {query: database.execute(_LOOK, (query, k)).fetchone() for query in queries}
        return {
            query: [Passage(*values) for values in json.loads(row[0])]
            for query, row in rows.items()
            if row
        }

    def _save_passages(self, answers: Mapping[str, list[Passage]], k: int) -> None:
        if self.file is not None:
            with self._open_database() as database:
                rows = [(query, k, json.dumps(found)) for query, found in answers.items()]
                database.executemany(_KEEP, rows)

    @contextmanager
    def _open_database(self) -> Iterator[sqlite3.Connection]:
        """A new connection for one transaction, so that no process or thread blocks another."""
        try:
            with closing(sqlite3.connect(str(self.file), timeout=60)) as database, database:
                database.execute(_TABLE)
                yield database
        except sqlite3.OperationalError as error:
            raise OSError(f"the cache {self.file} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise BadAsset(f"{self.file} is not a retrieval cache: {error}; remove it") from error

    def __deepcopy__(self, memo: dict[int, Any]) -> Cached:
        return self


class Scripted:
    """Returns given passages by query, for tests; `default` for any other query.

    Attributes:
        asked: The queries so far.
    """

    def __init__(
        self, found: Mapping[str, Sequence[Passage]], default: Sequence[Passage] = ()
    ) -> None:
        self.found, self.default = found, default
        self.asked: list[str] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The first `k` of the given passages of each query.

        Raises:
            ValueError: `k` below 1.
        """
        check_search(queries, k)
        self.asked.extend(queries)
        return [list(self.found.get(query, self.default)[:k]) for query in queries]


class SharedRetriever(Cached):
    """A retriever made by name; a copy of it in the same process is the same object."""

    def __init__(self, retriever: Retriever, arguments: tuple[str, Corpus, str, str]) -> None:
        super().__init__(retriever, size=_CACHED)
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _share_retriever, self._arguments


@lru_cache(maxsize=8)
def _share_retriever(name: str, corpus: Corpus, model: str, index: str) -> SharedRetriever:
    retriever: Retriever
    if name == "bm25":
        retriever = BM25(corpus)
    else:
        encoder, folder = open_encoder(model), Path(index)
        load = folder.is_dir()
        retriever = Dense.load(folder, corpus, encoder) if load else Dense(corpus, encoder, index)
        if name == "hybrid":
            retriever = Hybrid(BM25(corpus), retriever)
    return SharedRetriever(retriever, (name, corpus, model, index))
