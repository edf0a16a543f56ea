"""Searches for many clients of a server: one at a time, fair to all waiting requests."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from itertools import islice
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.exceptions import HTTPException

    from agent_envs.retrieval.passages import Passage, Retriever

TARGET = 0.05  # seconds of a search
FIRST, LARGEST = 64, 4_096  # queries of the first search, and of any
_log = logging.getLogger(__name__)


class SearchRequest(NamedTuple):
    """The fields of a search request; `scored`: return each document with its score."""

    queries: list[str]
    k: int
    scored: bool


class Waiting:
    """A request that waits: what is still to search, and what was found."""

    def __init__(self, asked: SearchRequest) -> None:
        self.asked = asked
        self.answer: Future[list[list[Passage]]] = Future()
        self.found: list[list[Passage]] = []

    def next(self, count: int) -> list[str]:
        """The next queries, at most `count`."""
        return self.asked.queries[len(self.found) :][:count]

    def add(self, found: list[list[Passage]]) -> None:
        """Note what was found for them, and answer if that was all."""
        self.found += found
        if len(self.found) == len(self.asked.queries):
            self.end(self.found)

    def end(self, result: list[list[Passage]] | HTTPException) -> None:
        """Answer, unless the client has left."""
        if not self.answer.set_running_or_notify_cancel():
            return
        if isinstance(result, list):
            self.answer.set_result(result)
        else:
            self.answer.set_exception(result)


class Part(NamedTuple):
    """Some queries of a request."""

    of: Waiting
    queries: list[str]


class Batches:
    """Searches in one thread, for all waiting requests at the same time.

    A search has equally many queries of each request, so that no request waits for all of a long
    one. It is as large as takes about `TARGET` seconds. What was cancelled is left out of the next.

    Args:
        retriever: The retriever; no other thread calls it.
        stopping: Whether the server is stopping; from then on no search starts.
    """

    def __init__(self, retriever: Retriever, stopping: Callable[[], bool]) -> None:
        self.retriever = retriever
        self.stopping = stopping
        self._waiting: list[Waiting] = []
        self._size = FIRST
        self._closed = False
        self._change = Condition()
        self._thread = Thread(target=self._work, name="retrieval-search", daemon=True)
        self._thread.start()

    def ask(self, asked: SearchRequest) -> Future[list[list[Passage]]]:
        """The passages of a request, or HTTP error 500, or 503 when the server is stopping.

        A request whose future is cancelled is not searched for any further.
        """
        request = Waiting(asked)
        with self._change:
            self._waiting.append(request)
            self._change.notify()
        return request.answer

    def close(self) -> None:
        """End the thread; if it hangs in a search, it ends with the process."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while requests := self._next():
            parts = shares(requests, self._size)
            began = monotonic()
            for k in sorted({one.of.asked.k for one in parts}):
                self._search([one for one in parts if one.of.asked.k == k], k)
            self._adapt(sum(len(one.queries) for one in parts), monotonic() - began)

    def _next(self) -> list[Waiting]:
        """Wait for requests and return all that are not done; [] when closed."""
        with self._change:
            self._waiting = [one for one in self._waiting if not one.answer.done()]
            self._change.wait_for(lambda: self._waiting or self._closed)
            return [] if self._closed else list(self._waiting)

    def _adapt(self, queries: int, seconds: float) -> None:
        """Let the next search be larger or smaller, if this one was whole."""
        if seconds > 2 * TARGET:
            self._size = max(self._size // 2, 1)
        elif seconds < TARGET / 2 and queries >= self._size:
            self._size = min(2 * self._size, LARGEST)

    def _search(self, parts: list[Part], k: int) -> None:
        """Answer parts together; if that fails, each alone, so that only faulty ones fail."""
        if self.stopping():
            for one in parts:
                one.of.end(stopped())
            return
        try:
            found = iter(self._found([query for one in parts for query in one.queries], k))
        except BaseException as error:  # noqa: BLE001 - also a model's panics: the thread must live
            if len(parts) > 1:
                for one in parts:
                    self._search([one], k)
                return
            _log.warning("a search raised", exc_info=error)
            told = f"the retriever raised {type(error).__name__}: {error}"
            parts[0].of.end(refusal(500, told))
            return
        for one in parts:
            one.of.add(list(islice(found, len(one.queries))))

    def _found(self, queries: list[str], k: int) -> list[list[Passage]]:
        found = self.retriever.search(queries, k)
        if len(found) != len(queries):
            raise ValueError(f"got {len(found)} lists of passages for {len(queries)} queries")
        return found


def shares(requests: Sequence[Waiting], size: int) -> list[Part]:
    """About `size` queries, equally many of each request, in the order in which they came.

    Requests with fewer leave their rest to the others. Each gets at least one.
    """
    left, parts = size, []
    for number, one in enumerate(sorted(requests, key=lambda one: len(one.next(size)))):
        queries = one.next(max(left // (len(requests) - number), 1))
        left -= len(queries)
        parts.append(Part(one, queries))
    place = {id(one): at for at, one in enumerate(requests)}
    return sorted(parts, key=lambda part: place[id(part.of)])


def refusal(status: int, detail: str) -> HTTPException:
    """The error that Starlette answers with this status and detail."""
    from starlette.exceptions import HTTPException

    return HTTPException(status, detail)


def stopped() -> HTTPException:
    """The error for requests that arrive while the server is stopping."""
    return refusal(503, "the server is stopping; ask again once it is back")
