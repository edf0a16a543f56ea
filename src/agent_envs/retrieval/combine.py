"""Retrievers that combine, cache or replace others: fused, cached, scripted."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset
from agent_envs.retrieval.passages import Passage, Retriever, check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_RANK = 60  # Cormack et al.'s constant
_TABLE = "CREATE TABLE IF NOT EXISTS found (query, k, passages, UNIQUE (query, k))"
_LOOK = "SELECT passages FROM found WHERE query = ? AND k = ?"
_KEEP = "INSERT OR REPLACE INTO found VALUES (?, ?, ?)"


class Hybrid:
    """Reciprocal rank fusion: a passage scores the sum of 1 / (60 + its rank) over retrievers.

    Equal scores keep the order in which the retrievers found them (Cormack, Clarke & Büttcher,
    SIGIR 2009).

    Args:
        retrievers: Of the same corpus.
        depth: Passages to request from each of them, at least.

    Raises:
        ValueError: No retrievers, or `depth` below 1.
    """

    def __init__(self, *retrievers: Retriever, depth: int = 20) -> None:
        if not retrievers:
            raise ValueError("Hybrid needs retrievers to fuse, got none")
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self.retrievers, self.depth = retrievers, depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query by their fused score.

        Raises:
            ValueError: `k` below 1.
        """
        check(queries, k)
        found = [r.search(queries, max(k, self.depth)) for r in self.retrievers]
        return [fused(lists)[:k] for lists in zip(*found, strict=True)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Hybrid:
        return self


def fused(lists: Sequence[Sequence[Passage]]) -> list[Passage]:
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
        ValueError: `size` below 1.
        BadAsset: `file` is not such a database.
    """

    def __init__(
        self, retriever: Retriever, *, size: int = 100_000, file: Path | None = None
    ) -> None:
        if size < 1:
            raise ValueError(f"size, the number of cached queries, must be >= 1, got {size}")
        self.retriever, self.size, self.file = retriever, size, file
        self._kept: OrderedDict[tuple[str, int], list[Passage]] = OrderedDict()
        self._stored([], 0)  # refuses an invalid file before the first search

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
        check(queries, k)
        wanted = dict.fromkeys(queries)
        seen = {query: self._kept.get((query, k)) for query in wanted}  # threads may share it
        known = {query: passages for query, passages in seen.items() if passages is not None}
        if len(known) < len(wanted):
            known |= self._stored([query for query in wanted if query not in known], k)
        fresh = [query for query in wanted if query not in known]
        if fresh:
            answers = dict(zip(fresh, self.retriever.search(fresh, k), strict=True))
            self._store(answers, k)
            known |= answers
        for query in wanted:
            self._kept.pop((query, k), None)
            self._kept[query, k] = known[query]
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return [list(known[query]) for query in queries]

    def _stored(self, queries: list[str], k: int) -> dict[str, list[Passage]]:
        """The cached passages of these queries in the file."""
        if self.file is None:
            return {}
        found = {}
        with self._database() as database:
            for query in queries:
                row = database.execute(_LOOK, (query, k)).fetchone()
                if row:
                    found[query] = [Passage(*values) for values in json.loads(row[0])]
        return found

    def _store(self, answers: Mapping[str, list[Passage]], k: int) -> None:
        if self.file is not None:
            with self._database() as database:
                rows = [(query, k, json.dumps(found)) for query, found in answers.items()]
                database.executemany(_KEEP, rows)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
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
        check(queries, k)
        self.asked.extend(queries)
        return [list(self.found.get(query, self.default)[:k]) for query in queries]
