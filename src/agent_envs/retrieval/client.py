"""A retriever that queries a server, with the API of Search-R1 or of verl-agent.

Caching is done by `Cached`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from agent_envs.assets import require
from agent_envs.net.web import (
    BadAnswerError,
    NoAnswerError,
    ServerError,
    check_url,
    count_tries,
    pause,
    process,
    read_retry_after,
)
from agent_envs.panels import one_of
from agent_envs.retrieval.passages import Passage, check_search, parse_passage

_log = logging.getLogger(__name__)
VARIABLE = "AGENT_ENVS_RETRIEVAL_TOKEN"
"""Environment variable of the token that the server asks for and the client sends."""
APIS = ("auto", "queries", "query")
_LARGEST = 1 << 26  # bytes of an answer
_OK, _OTHER_API, _TOO_MANY, _SERVER_ERROR = 200, 422, 429, 500


class RetrievalError(ServerError):
    """A server gave no passages; the message has its address, the reason and the number of tries.

    `status` is the status of its HTTP answer, 0 without an answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _Reply(NamedTuple):
    """The result of one try: the answer's status (0 if the connection failed) and its text."""

    status: int
    data: bytes
    wait: float = 0.0  # seconds of `Retry-After`

    @property
    def is_passing(self) -> bool:
        """Whether another try may succeed."""
        return self.status in {0, _TOO_MANY} or self.status >= _SERVER_ERROR

    def __str__(self) -> str:
        said = self.data[:300].decode(errors="replace")
        return f"HTTP {self.status}, {said!r}" if self.status else said


class Http:
    """Passages from the server at `url`, with retries.

    A failed connection, a time-out, HTTP 429 and 5xx are retried with exponential back-off, or
    after the time in `Retry-After`, `retries` times, and then until it has waited `outage` seconds.
    Other statuses are not retried. An answer has at most 64 MiB.

    Args:
        url: The server's address; the default path is `/retrieve`.
        api: The form of a request: "queries" (Search-R1, verl: all queries in one request),
            "query" (verl-agent, SkyRL: one query per request), or "auto": "queries" until the
            server refuses it with HTTP 422, then "query".
        timeout: Seconds for a whole answer, from the DNS look-up to the last byte.
        retries: Further tries of a request, at least.
        outage: Seconds to wait, between tries, for a server that is away or overloaded, such as one
            that is started again.

    Raises:
        ImportError: The packages of the extra [search] are not installed.
        ValueError: An invalid address or api.
    """

    waits = True

    def __init__(
        self,
        url: str,
        *,
        api: str = "auto",
        timeout: float = 30.0,
        retries: int = 3,
        outage: float = 60.0,
    ) -> None:
        one_of("api", api, APIS)
        example, advice = (
            "http://127.0.0.1:8000/retrieve",
            f"put the server's token into ${VARIABLE}",
        )
        parts = check_url(url, rule="url must be", example=example, advice=advice)
        require("httpx2", "search")
        self.url = url if parts.path.strip("/") else parts._replace(path="/retrieve").geturl()
        self.api = api
        self.timeout = timeout
        self.retries = retries
        self.outage = outage

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query, in the server's order; an empty list is allowed.

        Raises:
            RetrievalError: The server does not answer, refuses, or its answer is invalid.
            TypeError: One text instead of a list of texts.
            ValueError: `k` below 1.
        """
        check_search(queries, k)
        if not queries:
            return []
        if self.api != "query":
            try:
                found = self._ask({"queries": list(queries)}, len(queries), k)
            except RetrievalError as error:
                if self.api != "auto" or error.status != _OTHER_API:
                    raise
            else:
                self.api = "queries"
                return found
        found = [self._ask({"query": query}, 1, k)[0] for query in queries]
        self.api = "query"
        return found

    def _ask(self, fields: dict[str, Any], queries: int, k: int) -> list[list[Passage]]:
        data = self._post(json.dumps({**fields, "topk": k, "return_scores": True}).encode())
        try:
            lists = _read_lists(json.loads(data), queries)
            return [[read_passage(item) for item in found[:k]] for found in lists]
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = f"{error}, in {data[:100]!r}"
            raise RetrievalError(f"{self.url} gave no valid answer: {reason}", _OK) from error

    def _post(self, body: bytes) -> bytes:
        """The server's answer, after as many tries as allowed."""
        waited = 0.0
        for tried in count(1):
            reply = self._try(body)
            if reply.status == _OK:
                break
            if (tried > self.retries and waited >= self.outage) or not reply.is_passing:
                lasted = f" and {waited:.0f} s of waiting" if waited else ""
                reason = f"no passages in {count_tries(tried)}{lasted}: {reply}"
                raise RetrievalError(f"{self.url} gave {reason}", reply.status)
            if tried == self.retries + 1:
                _log.warning("%s: %s; waiting up to %g s", self.url, reply, self.outage)
            waited += pause(tried, reply.wait)
        return reply.data

    def _try(self, body: bytes) -> _Reply:
        here = process()
        token = os.environ.get(VARIABLE, "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = here.request(
            "POST", self.url, body, headers, seconds=self.timeout, largest=_LARGEST
        )
        try:
            reply = here.run(request)
        except NoAnswerError as error:
            return _Reply(0, str(error).encode())
        except BadAnswerError as error:
            raise RetrievalError(f"{self.url} gave no passages: {error}") from error
        return _Reply(reply.status, reply.data, read_retry_after(reply.headers.get("retry-after")))


def read_passage(item: Any) -> Passage:
    """The passage of `{"document": ..., "score": ...}` or of a bare document.

    Raises:
        TypeError, ValueError: Another form.
        OverflowError: The score is too large for a float.
    """
    fields = item if isinstance(item, dict) else {}
    document, score = fields.get("document", item), fields.get("score", 0.0)
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise TypeError(f"a score must be a number, got {score!r:.60}")
    return parse_passage(document)._replace(score=float(score))


def _read_lists(answer: Any, queries: int) -> list[list[Any]]:
    """The items for each query in an answer."""
    lists = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(lists, list) or not all(isinstance(found, list) for found in lists):
        raise ValueError("there are no lists of passages as 'result'")
    if len(lists) != queries:
        raise ValueError(f"there are {len(lists)} lists of passages for {queries} queries")
    return lists
