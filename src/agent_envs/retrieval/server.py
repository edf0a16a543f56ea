"""Any retriever as a server with the APIs of Search-R1 and verl-agent, on Starlette and uvicorn.

`POST /retrieve` accepts both, `GET /health` reports that the server is up. Requests that wait are
searched for together and in equal shares; one whose client left is dropped. Not supported:
encryption, passwords, more processes.
"""

from __future__ import annotations

import asyncio
import errno
import json
import signal
import socket
from contextlib import aclosing, contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from agent_envs.assets import require
from agent_envs.retrieval.batches import Batches, SearchRequest, refusal, stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from uvicorn import Server

    from agent_envs.retrieval.passages import Passage, Retriever

PATH = "/retrieve"
BODY = 16 * 1024 * 1024  # bytes of a request
QUERIES = 4_096  # per request; Search-R1 sends all of a step at once, 2,560 by default
QUERY = 4_096  # characters of a query, the length limit of an action; the rest is cut off
TOPK = 100  # passages of a query
PASSAGES = 65_536  # of an answer
GRACE = 10  # seconds that a running search may still take when the server stops
_KEEP_ALIVE = 60  # seconds that a client may be silent between requests
_LAST_PORT = 65_535


def serve(
    retriever: Retriever,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    topk: int = 3,
    ready: Callable[[str], object] = print,
) -> None:
    """Serve until SIGINT or SIGTERM, in the main thread.

    On a signal the running search is still answered; other requests get HTTP 503.

    Args:
        retriever: The retriever; it is called in one thread.
        host: Host name or address to listen on.
        port: Port to listen on; 0 takes a free one.
        topk: Passages per query if a request does not specify it.
        ready: Called with the address once the server accepts requests.

    Raises:
        ImportError: The packages of the extra [search] are not installed.
        ValueError: `topk` or `port` is out of range.
        OSError: The port is taken.
    """
    with listen(host, port) as listening, _server(retriever, topk) as server:
        # uvicorn raises the signal that ended it again; both signals end this call.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with suppress(KeyboardInterrupt):
                ready(address_of(listening) + PATH)
                server.run([listening])
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def serving(
    retriever: Retriever, host: str = "127.0.0.1", port: int = 0, *, topk: int = 3
) -> Iterator[str]:
    """A server in a thread of this process for the duration of the context; yields its address.

    Arguments and errors are as in `serve`.
    """
    with listen(host, port) as listening, _server(retriever, topk) as server:
        thread = Thread(target=server.run, args=([listening],), name="retrieval-server")
        thread.start()
        try:
            yield address_of(listening) + PATH
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _server(retriever: Retriever, topk: int) -> Iterator[Server]:
    """A server that is not yet running, and the thread for its searches."""
    if not 1 <= topk <= TOPK:
        raise ValueError(f"topk, a number of passages, must be in 1..{TOPK}, got {topk}")
    require("starlette", "search")
    require("uvicorn", "search")
    from uvicorn import Config, Server

    batches = Batches(retriever, lambda: server.should_exit)
    config = Config(
        _application(batches, topk),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        workers=1,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    server = Server(config)
    try:
        yield server
    finally:
        server.should_exit = True
        batches.close()


def _application(batches: Batches, topk: int) -> Starlette:
    """The routes of the server."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

    async def retrieve(request: Request) -> Response:
        try:
            asked = read(await _body(request), topk)
            found = await _unless_left(request, batches.ask(asked)) if asked.queries else []
        except asyncio.CancelledError:  # it took longer than GRACE
            raise stopped() from None
        return _json({"result": [[_item(one, asked.scored) for one in of] for of in found]})

    async def health(_: Request) -> Response:
        if batches.stopping():
            raise stopped()
        return _json({"status": "ok"})

    async def refuse(_: Request, error: Any) -> Response:
        return _json({"detail": error.detail}, error.status_code, error.headers)

    async def gone(*_: object) -> Response:
        return _json({"detail": "the client left before its request was read"}, 400)

    return Starlette(
        routes=[Route(PATH, retrieve, methods=["POST"]), Route("/health", health)],
        exception_handlers={HTTPException: refuse, ClientDisconnect: gone},
    )


async def _unless_left(request: Request, found: Future[Any]) -> Any:
    """The result; it is cancelled when the client leaves, and raises `ClientDisconnect`."""
    from starlette.requests import ClientDisconnect

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, leaving = asyncio.wrap_future(found), asyncio.ensure_future(left())
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        leaving.cancel()


async def _body(request: Request) -> bytes:
    """A request's body; reading stops once it is too long."""
    body = bytearray()
    length = int(request.headers.get("content-length", "0"))
    async with aclosing(request.stream()) as chunks:
        while length <= BODY and (chunk := await anext(chunks, b"")):
            body += chunk
            length = max(length, len(body))
    if length > BODY:
        raise refusal(413, f"a request has at most {BODY} bytes, got more; ask in several requests")
    return bytes(body)


def read(body: bytes, topk: int) -> SearchRequest:
    """The search request in a body of either API; `topk` is the default.

    Raises:
        HTTPException: 400, the body is not JSON; 413, it is too large; 422, a wrong field.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise refusal(400, f"a request is JSON, got {body[:60]!r}: {error}") from error
    if not isinstance(fields, dict) or ("queries" in fields) == ("query" in fields):
        raise refusal(
            422, f"give either 'queries', a list, or 'query', a text, got {fields!r:.100}"
        )
    k = topk if fields.get("topk") in (None, 0) else fields["topk"]
    if type(k) is not int or not 1 <= k <= TOPK:
        raise refusal(422, f"topk is in 1..{TOPK}, or 0 or null for {topk}, got {k!r:.60}")
    scored = fields.get("return_scores", False)
    if not isinstance(scored, bool):
        raise refusal(422, f"return_scores is true or false, got {scored!r:.60}")
    queries = _queries(fields)
    if len(queries) * k > PASSAGES:
        asked = f"{k} for each of {len(queries)} queries"
        raise refusal(413, f"an answer has at most {PASSAGES} passages, got a request for {asked}")
    return SearchRequest(queries, k, scored)


def _queries(fields: dict[str, Any]) -> list[str]:
    queries = fields["queries"] if "queries" in fields else [fields["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise refusal(422, f"queries are a list of texts, a query is one, got {queries!r:.100}")
    if len(queries) > QUERIES:
        raise refusal(413, f"a request has at most {QUERIES} queries, got {len(queries)}")
    return [query[:QUERY] for query in queries]


def _item(passage: Passage, scored: bool) -> dict[str, Any]:
    document = {
        "id": passage.id,
        "contents": f"{passage.heading}\n{passage.text}",
        "title": passage.title,
        "text": passage.text,
    }
    return {"document": document, "score": float(passage.score)} if scored else document


def _json(content: Any, status: int = 200, headers: Any = None) -> Response:
    """An ASCII answer, which can contain every text, with all digits of every number."""
    from starlette.responses import Response

    return Response(json.dumps(content), status, headers, "application/json")


def address_of(listening: socket.socket) -> str:
    """The address of a listening socket, such as http://127.0.0.1:8000."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, marked as TCP: only on such a socket asyncio sets TCP_NODELAY.

    Raises:
        ValueError: `port` is out of range.
        OSError: The port is taken.
    """
    if not 0 <= port <= _LAST_PORT:
        raise ValueError(f"port must be in 0..{_LAST_PORT}, 0 for a free one, got {port}")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, _, _, address = found[0]
    listening = socket.socket(family, kind, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(
            error.errno, f"port {port} is in use: stop that process, give another port, or 0"
        ) from error
    return listening
