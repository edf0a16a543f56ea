"""Any retriever as a server with the APIs of Search-R1 and verl-agent, on Starlette and uvicorn.

`POST /retrieve` accepts both, `GET /health` reports that the server is up. Requests that wait are
searched for together and in equal shares; one whose client left is dropped.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.assets import require
from agent_envs.net import connections
from agent_envs.net.connections import STOPPING, Guard, RefusalError
from agent_envs.retrieval.client import VARIABLE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from agent_envs.retrieval.passages import Passage, Retriever

PATH = "/retrieve"
BODY = 16 * 1024 * 1024  # bytes of a request
QUERIES = 4_096  # per request; Search-R1 sends all of a step at once, 2,560 by default
QUERY = 4_096  # characters of a query, the length limit of an action; the rest is cut off
TOPK = 100  # passages of a query
PASSAGES = 65_536  # of an answer
TARGET = 0.05  # seconds of a search
FIRST, LARGEST = 64, 4_096  # queries of the first search, and of any
_log = logging.getLogger(__name__)


def serve(
    retriever: Retriever,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    topk: int = 3,
    token: str = "",
    public: bool = False,
    ready: Callable[[str], object] = print,
) -> None:
    """Serve until SIGINT or SIGTERM, in the main thread.

    On a signal the running search is still answered; other requests get HTTP 503.

    Args:
        retriever: The retriever; it is called in one thread.
        host: Host name or address to listen on.
        port: Port to listen on; 0 takes a free one.
        topk: Passages per query if a request does not specify it.
        token: Token that clients must send; "" for none.
        public: Allow other machines to connect without a token.
        ready: Called with the address once the server accepts requests.

    Raises:
        ImportError: The packages of the extra [search] are not installed.
        ValueError: `topk`, `token` or `port` is not allowed, or other machines could connect
            without a token.
        OSError: There is no such host, or the port is taken.
    """
    with _open_guard(retriever, topk, token) as guard:
        connections.serve(guard, host, port, public=public, ready=lambda url: ready(url + PATH))


@contextmanager
def serving(
    retriever: Retriever, port: int = 0, *, topk: int = 3, token: str = ""
) -> Iterator[str]:
    """A server in a thread of this process for the duration of the context; yields its address.

    It listens on 127.0.0.1. Arguments and errors are as in `serve`.
    """
    with _open_guard(retriever, topk, token) as guard, connections.serving(guard, port) as url:
        yield url + PATH


@contextmanager
def _open_guard(retriever: Retriever, topk: int, token: str) -> Iterator[Guard]:
    """The application, and the thread for its searches."""
    if not 1 <= topk <= TOPK:
        raise ValueError(f"topk, a number of passages, must be in 1..{TOPK}, got {topk}")
    require("starlette", "search")
    batches = Batches(retriever, lambda: guard.is_stopping)
    guard = Guard(build_application(batches, topk), largest=BODY, token=token, variable=VARIABLE)
    try:
        yield guard
    finally:
        batches.close()


def build_application(batches: Batches, topk: int) -> ASGIApp:
    """The pages of the server."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import Response

        content: Any = {"status": "ok"}
        page = scope["path"].rstrip("/")
        if (scope["method"], page) == ("POST", PATH):
            search = read_request((await receive())["body"], topk)
            found = await _await_client(receive, batches.ask(search)) if search.queries else []
            content = {"result": [[_describe(p, search.scored) for p in one] for one in found]}
        elif page != "/health":
            raise RefusalError(404, f"the pages are POST {PATH} and GET /health")
        # ASCII, which can contain every text, with all digits of every number
        await Response(json.dumps(content), media_type="application/json")(scope, receive, send)

    return answer


async def _await_client(receive: Receive, found: Future[Any]) -> Any:
    """The result; it is cancelled when the client leaves."""

    async def wait_for_leaving() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answer, leaving = asyncio.wrap_future(found), asyncio.ensure_future(wait_for_leaving())
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise RefusalError(400, "the client left")
        return answer.result()
    finally:
        answer.cancel()
        leaving.cancel()


def read_request(body: bytes, topk: int) -> SearchRequest:
    """The search request in a body of either API; `topk` is the default.

    Raises:
        RefusalError: 400, the body is not JSON; 413, it is too large; 422, a wrong field.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusalError(400, f"a request is JSON, got {body[:60]!r}: {error}") from error
    if not isinstance(fields, dict) or ("queries" in fields) == ("query" in fields):
        raise RefusalError(422, f"give 'queries', a list, or 'query', a text, got {fields!r:.90}")
    k = topk if fields.get("topk") in (None, 0) else fields["topk"]
    if type(k) is not int or not 1 <= k <= TOPK:
        raise RefusalError(422, f"topk is in 1..{TOPK}, or 0 or null for {topk}, got {k!r:.60}")
    scored = fields.get("return_scores", False)
    if not isinstance(scored, bool):
        raise RefusalError(422, f"return_scores is true or false, got {scored!r:.60}")
    queries = fields["queries"] if "queries" in fields else [fields["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise RefusalError(422, f"queries is a list of texts, query is one, got {queries!r:.90}")
    if len(queries) > QUERIES:
        raise RefusalError(413, f"a request has at most {QUERIES} queries, got {len(queries)}")
    if len(queries) * k > PASSAGES:
        wanted = f"{k} for each of {len(queries)}"
        raise RefusalError(413, f"an answer has at most {PASSAGES} passages, not {wanted} queries")
    return SearchRequest([query[:QUERY] for query in queries], k, scored)


def _describe(passage: Passage, scored: bool) -> dict[str, Any]:
    document = {
        "id": passage.id,
        "contents": f"{passage.heading}\n{passage.text}",
        "title": passage.title,
        "text": passage.text,
    }
    return {"document": document, "score": float(passage.score)} if scored else document


class SearchRequest(NamedTuple):
    """The fields of a search request; `scored`: return each document with its score."""

    queries: list[str]
    k: int
    scored: bool


class Waiting:
    """A request that waits: what is still to search, and what was found."""

    def __init__(self, request: SearchRequest) -> None:
        self.request = request
        self.answer: Future[list[list[Passage]]] = Future()
        self.found: list[list[Passage]] = []

    def next(self, count: int) -> list[str]:
        """The next queries, at most `count`."""
        return self.request.queries[len(self.found) :][:count]

    def add(self, found: list[list[Passage]]) -> None:
        """Note what was found for them, and answer if that was all, unless the client has left."""
        self.found += found
        whole = len(self.found) == len(self.request.queries)
        if whole and self.answer.set_running_or_notify_cancel():
            self.answer.set_result(self.found)

    def fail(self, error: RefusalError) -> None:
        """Answer with an error, unless the client has left."""
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


class Part(NamedTuple):
    """Some queries of a request."""

    waiting: Waiting
    queries: list[str]


class Batches:
    """Searches in one thread, for all waiting requests at the same time.

    A search has equally many queries of each request, so that no request waits for all of a long
    one. It is as large as takes about `TARGET` seconds. What was cancelled is left out of the next.

    Args:
        retriever: The retriever; no other thread calls it.
        is_stopping: Whether the server is stopping; from then on no search starts.
    """

    def __init__(self, retriever: Retriever, is_stopping: Callable[[], bool]) -> None:
        self.retriever, self.is_stopping = retriever, is_stopping
        self._waiting: list[Waiting] = []
        self._size = FIRST
        self._closed = False
        self._change = Condition()
        self._thread = Thread(target=self._work, name="retrieval-search", daemon=True)
        self._thread.start()

    def ask(self, request: SearchRequest) -> Future[list[list[Passage]]]:
        """The passages of a request, or HTTP error 500, or 503 when the server is stopping.

        A request whose future is cancelled is not searched for any further.
        """
        waiting = Waiting(request)
        with self._change:
            self._waiting.append(waiting)
            self._change.notify()
        return waiting.answer

    def close(self) -> None:
        """End the thread; if it hangs in a search, it ends with the process."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while requests := self._next():
            parts = share_search(requests, self._size)
            began = monotonic()
            for k in sorted({part.waiting.request.k for part in parts}):
                self._search([part for part in parts if part.waiting.request.k == k], k)
            queries, seconds = sum(len(part.queries) for part in parts), monotonic() - began
            if seconds > 2 * TARGET:
                self._size = max(self._size // 2, 1)
            elif seconds < TARGET / 2 and queries >= self._size:
                self._size = min(2 * self._size, LARGEST)

    def _next(self) -> list[Waiting]:
        """Wait for requests and return all that are not done; [] when closed."""
        with self._change:
            self._waiting = [one for one in self._waiting if not one.answer.done()]
            self._change.wait_for(lambda: self._waiting or self._closed)
            return [] if self._closed else list(self._waiting)

    def _find(self, queries: list[str], k: int) -> list[list[Passage]]:
        found = self.retriever.search(queries, k)
        if len(found) != len(queries):
            raise ValueError(f"got {len(found)} lists of passages for {len(queries)} queries")
        return found

    def _search(self, parts: list[Part], k: int) -> None:
        """Answer parts together; if that fails, each alone, so that only faulty ones fail."""
        if self.is_stopping():
            for part in parts:
                part.waiting.fail(RefusalError(*STOPPING))
            return
        queries = [query for part in parts for query in part.queries]
        try:
            lists = iter(self._find(queries, k))
        except BaseException as error:  # noqa: BLE001 - also a model's panics: the thread must live
            if len(parts) > 1:
                for part in parts:
                    self._search([part], k)
                return
            _log.warning("a search raised", exc_info=error)
            detail = f"the retriever raised {type(error).__name__}: {error}"
            parts[0].waiting.fail(RefusalError(500, detail))
            return
        for part in parts:
            part.waiting.add(list(islice(lists, len(part.queries))))


def share_search(requests: Sequence[Waiting], size: int) -> list[Part]:
    """About `size` queries, equally many of each request, in the order in which they came.

    Requests with fewer leave their rest to the others. Each gets at least one.
    """
    left, parts = size, []
    for number, one in enumerate(sorted(requests, key=lambda one: len(one.next(size)))):
        queries = one.next(max(left // (len(requests) - number), 1))
        left -= len(queries)
        parts.append(Part(one, queries))
    place = {id(one): at for at, one in enumerate(requests)}
    return sorted(parts, key=lambda part: place[id(part.waiting)])
