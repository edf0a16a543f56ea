"""Any retriever as a server in the dialects of Search-R1 and verl-agent, on Starlette and uvicorn.

`POST /retrieve` answers both, `GET /health` tells that the server is up. Requests that come during
a search are searched for together in the next. Left out: encryption, passwords, further processes.
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
from agent_envs.retrieval.batches import Asked, Batches, refusal, stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from uvicorn import Server

    from agent_envs.retrieval.passages import Passage, Retriever

PATH = "/retrieve"
BODY = 16 * 1024 * 1024  # bytes of a request
QUERIES = 4_096  # of a request; Search-R1 asks for all of a step at once, 2,560 by default
QUERY = 4_096  # characters of one, as many as an action may have
TOPK = 100  # passages of one
PASSAGES = 65_536  # of an answer
GRACE = 10  # seconds that a search may still take when the server is to stop
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
    """Serve until SIGINT or SIGTERM, in the main thread; `ready` is told the address.

    A search under way is still answered then, other requests get HTTP 503.

    Args:
        retriever: Searches, in one thread.
        host: The name or number to listen at.
        port: To listen on; 0 takes a free one.
        topk: Passages a query where a request does not say.
        ready: Called once requests are answered.

    Raises:
        ImportError: The packages of the extra [search] are not installed.
        ValueError: `topk` or `port` is out of range. OSError: The port is taken.
    """
    with _listening(host, port) as listening, _server(retriever, topk) as server:
        # uvicorn passes on the signal that ended it; either shall end this call.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with suppress(KeyboardInterrupt):
                ready(_address(listening))
                server.run([listening])
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def serving(
    retriever: Retriever, host: str = "127.0.0.1", port: int = 0, *, topk: int = 3
) -> Iterator[str]:
    """A server in a thread of this process, while the context lasts; gives its address.

    Arguments and errors are those of `serve`.
    """
    with _listening(host, port) as listening, _server(retriever, topk) as server:
        thread = Thread(target=server.run, args=([listening],), name="retrieval-server")
        thread.start()
        try:
            yield _address(listening)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _server(retriever: Retriever, topk: int) -> Iterator[Server]:
    """A server that is not yet run, and the thread that searches for it."""
    if not 1 <= topk <= TOPK:
        raise ValueError(f"topk is a number of passages in 1..{TOPK}, got {topk}")
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
    """The addresses of the server."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

    async def retrieve(request: Request) -> Response:
        try:
            asked = read(await _body(request), topk)
            found = await asyncio.wrap_future(batches.ask(asked)) if asked.queries else []
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


async def _body(request: Request) -> bytes:
    """A request's body, which is no longer read once it is too long."""
    body = bytearray()
    length = int(request.headers.get("content-length", "0"))
    async with aclosing(request.stream()) as chunks:
        while length <= BODY and (chunk := await anext(chunks, b"")):
            body += chunk
            length = max(length, len(body))
    if length > BODY:
        raise refusal(413, f"a request has at most {BODY} bytes, got more; ask in several requests")
    return bytes(body)


def read(body: bytes, topk: int) -> Asked:
    """What a request of either dialect asks for; `topk` is for one that does not say.

    Raises:
        HTTPException: 400, the body is no JSON; 413, it asks for too much; 422, it is no question.
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
    return Asked(queries, k, scored)


def _queries(fields: dict[str, Any]) -> list[str]:
    queries = fields["queries"] if "queries" in fields else [fields["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise refusal(422, f"queries are a list of texts, a query is one, got {queries!r:.100}")
    if len(queries) > QUERIES:
        raise refusal(413, f"a request has at most {QUERIES} queries, got {len(queries)}")
    if (longest := max(map(len, queries), default=0)) > QUERY:
        raise refusal(413, f"a query has at most {QUERY} characters, got one of {longest}")
    return queries


def _item(passage: Passage, scored: bool) -> dict[str, Any]:
    document = {
        "id": passage.id,
        "contents": f"{passage.heading}\n{passage.text}",
        "title": passage.title,
        "text": passage.text,
    }
    return {"document": document, "score": float(passage.score)} if scored else document


def _json(content: Any, status: int = 200, headers: Any = None) -> Response:
    """An answer in ASCII, which carries every text, and with all digits of every number."""
    from starlette.responses import Response

    return Response(json.dumps(content), status, headers, "application/json")


def _address(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, marked as TCP: asyncio sends at once (TCP_NODELAY) only on such."""
    if not 0 <= port <= _LAST_PORT:
        raise ValueError(f"a port is a number in 0..{_LAST_PORT}, 0 for a free one, got {port}")
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
            error.errno, f"port {port} is taken: stop who has it, give another, or 0 for a free one"
        ) from error
    return listening
