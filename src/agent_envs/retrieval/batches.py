"""Searches for many clients of a server: one search at a time, for all waiting requests."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from itertools import islice
from threading import Condition, Thread
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.exceptions import HTTPException

    from agent_envs.retrieval.passages import Passage, Retriever

_log = logging.getLogger(__name__)


class SearchRequest(NamedTuple):
    """The fields of a search request; `scored`: return each document with its score."""

    queries: list[str]
    k: int
    scored: bool


class _Waiting(NamedTuple):
    asked: SearchRequest
    found: Future[list[list[Passage]]]


class Batches:
    """Searches in one thread, in one batch for all requests since the last search began.

    Args:
        retriever: The retriever; no other thread calls it.
        stopping: Whether the server is stopping; from then on no search starts.
    """

    def __init__(self, retriever: Retriever, stopping: Callable[[], bool]) -> None:
        self.retriever = retriever
        self.stopping = stopping
        self._waiting: list[_Waiting] = []
        self._closed = False
        self._change = Condition()
        self._thread = Thread(target=self._work, name="retrieval-search", daemon=True)
        self._thread.start()

    def ask(self, asked: SearchRequest) -> Future[list[list[Passage]]]:
        """The passages of a request, or HTTP error 500, or 503 when the server is stopping."""
        request = _Waiting(asked, Future())
        with self._change:
            self._waiting.append(request)
            self._change.notify()
        return request.found

    def close(self) -> None:
        """End the thread; if it hangs in a search, it ends with the process."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while requests := self._next():
            # Requests that were cancelled in the meantime are skipped.
            asked = [one for one in requests if one.found.set_running_or_notify_cancel()]
            for k in sorted({one.asked.k for one in asked}):
                self._search([one for one in asked if one.asked.k == k], k)

    def _next(self) -> list[_Waiting]:
        """Wait for requests and return all of them; [] when closed."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed)
            requests, self._waiting = self._waiting, []
            return requests

    def _search(self, requests: list[_Waiting], k: int) -> None:
        """Answer requests together; if that fails, each alone, so that only faulty ones fail."""
        if self.stopping():
            for one in requests:
                one.found.set_exception(stopped())
            return
        try:
            found = iter(self._found([query for one in requests for query in one.asked.queries], k))
        except BaseException as error:  # noqa: BLE001 - also a model's panics: the thread must live
            if len(requests) > 1:
                for one in requests:
                    self._search([one], k)
                return
            _log.warning("a search raised", exc_info=error)
            told = f"the retriever raised {type(error).__name__}: {error}"
            requests[0].found.set_exception(refusal(500, told))
            return
        for one in requests:
            one.found.set_result(list(islice(found, len(one.asked.queries))))

    def _found(self, queries: list[str], k: int) -> list[list[Passage]]:
        found = self.retriever.search(queries, k)
        if len(found) != len(queries):
            raise ValueError(f"got {len(found)} lists of passages for {len(queries)} queries")
        return found


def refusal(status: int, detail: str) -> HTTPException:
    """The error that Starlette answers with this status and detail."""
    from starlette.exceptions import HTTPException

    return HTTPException(status, detail)


def stopped() -> HTTPException:
    """The error for requests that arrive while the server is stopping."""
    return refusal(503, "the server is stopping; ask again once it is back")
