"""The server of environments, passages and the shop: who may ask, and what connections may cost.

It runs in the main thread with `serve`, or in a thread of its own with `serving`. Web pages of
others can't use it, also not with a name of theirs for this machine. Left out: encryption, which
needs a proxy, and more processes.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal

from agent_envs.assets import require

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn import Server

MOST = 512  # connections at the same time, besides those of sessions
WAIT = 30  # seconds in which a request must arrive whole, and until the next one begins
GRACE = 10  # seconds that running requests may still take when the server stops
STOPPING = (503, "the server is stopping; ask again once it is back")
_TOKEN = 16  # characters
_LAST_PORT = 65_535
_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 120_000}
# a host without a sign of life is given up after 2 minutes, as is one that takes no data


class RefusalError(Exception):
    """A refused request: the status, the detail and the headers of its answer."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status_code, self.detail, self.headers = status, detail, headers


class Guard:
    """Passes requests that are allowed on to an ASGI application, each with its whole body.

    Args:
        app: The application.
        largest: Bytes of a request's body.
        token: Token that every caller must send as `Authorization: Bearer TOKEN`, except to
            `/health`; "" for none.
        variable: Environment variable of the token, for errors.

    Attributes:
        most: Connections at the same time; at most a third of the open files.
        frame: Bytes of a WebSocket message that are read; 0 for no WebSockets.
        lifespan: "on" if the application is told when the server starts and ends, else "off".
        is_stopping: Whether the server is stopping.
        ended: Set when it has ended.

    Raises:
        ValueError: The token is too short or not printable ASCII.
    """

    is_stopping = False
    lifespan: Literal["on", "off"] = "off"

    def __init__(self, app: ASGIApp, *, largest: int, token: str = "", variable: str = "") -> None:
        if token and (len(token) < _TOKEN or not token.isascii() or not token.isprintable()):
            raise ValueError(
                f"a token has at least {_TOKEN} printable ASCII characters; make one with: "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        self.app, self.largest, self.most, self.frame = app, largest, MOST, 0
        self.ended = Event()
        self.token, self.variable = token, variable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on, one request."""
        try:
            self.check_caller(scope)
            passed = await self._read_body(scope, receive)

            async def receive_body() -> Message:
                return passed.pop() if passed else await receive()

            if passed[0]["type"] != "http.disconnect":
                await self.app(scope, receive_body, send)
        except (RefusalError, asyncio.CancelledError) as error:
            from starlette.responses import JSONResponse

            # cancelled: it took longer than GRACE
            told = error if isinstance(error, RefusalError) else RefusalError(*STOPPING)
            answer = JSONResponse({"detail": told.detail}, told.status_code, told.headers)
            await answer(scope, receive, send)

    def check_caller(self, scope: Scope) -> None:
        """Check the headers of a request or a WebSocket.

        Raises:
            RefusalError: 403, another site's page or name for this machine; 401, a wrong token;
                503, the server is stopping.
        """

        def read(name: bytes) -> list[str]:
            return [value.decode("latin-1") for key, value in scope["headers"] if key == name]

        if self.is_stopping:
            raise RefusalError(*STOPPING)
        host, origins, given = ", ".join(read(b"host")), read(b"origin"), read(b"authorization")
        is_here = _is_loopback((scope.get("server") or ("",))[0])
        if is_here and not _is_own_name(host):
            raise RefusalError(
                403,
                "on this machine the server answers requests for 127.0.0.1 and localhost only, got "
                f"the header Host {host!r:.100}; use one of these, also in a proxy",
            )
        if origins and not (is_here and origins == [f"http://{host}"]):
            raise RefusalError(
                403, "requests of other web pages (by the header Origin) are refused; use a client"
            )
        scheme, _, sent = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
        is_known = hmac.compare_digest(sent.strip().encode(), self.token.encode())
        if (
            self.token
            and scope["path"] != "/health"
            and not (scheme.lower() == "bearer" and is_known)
        ):
            raise RefusalError(
                401,
                f"{'a wrong token' if given else 'no token'}: send the server's token as the "
                'header {"Authorization": "Bearer TOKEN"}',
                {"WWW-Authenticate": "Bearer"},
            )

    async def _read_body(self, scope: Scope, receive: Receive) -> list[Message]:
        """The whole body as a message, or that the client left; reading stops at one too long."""
        body = bytearray()
        message: Message = {"more_body": True}
        length = int(dict(scope["headers"]).get(b"content-length", 0))
        while message.get("more_body") and length <= self.largest:
            message = await receive()
            body += message.get("body", b"")
            length = max(length, len(body))
        if length > self.largest:
            raise RefusalError(413, f"a request has at most {self.largest} bytes")
        return [{**message, "body": bytes(body)}]


def serve(
    guard: Guard, host: str, port: int, *, public: bool, ready: Callable[[str], object]
) -> None:
    """Serve until SIGINT or SIGTERM; called in the main thread.

    A request that still runs some seconds later ends with the process.

    Args:
        guard: The application.
        host: Host name or address to listen on.
        port: Port to listen on; 0 takes a free one.
        public: Allow other machines to connect without a token.
        ready: Called with the address once the server accepts connections.

    Raises:
        ImportError: uvicorn is not installed.
        ValueError: Other machines could connect without a token, or the port is out of range.
        OSError: There is no such host, or the port is taken.
    """
    with stop_on_signal(), serving(guard, port, host=host, public=public) as url:
        ready(url)
        guard.ended.wait()


@contextmanager
def serving(
    guard: Guard, port: int = 0, *, host: str = "127.0.0.1", public: bool = False
) -> Iterator[str]:
    """A server in a thread of this process for the duration of the context; yields its address.

    Arguments and errors are as in `serve`.
    """
    server = _make_server(guard)
    with listen(host, port) as listening:
        address, port, *_ = listening.getsockname()
        if not (guard.token or public or _is_loopback(address)):
            raise ValueError(
                f"host {host!r} lets other machines connect, so set a token in ${guard.variable}, "
                "or listen on 127.0.0.1; --public serves without a token"
            )

        def run() -> None:
            try:
                server.run([listening])
            finally:
                guard.ended.set()

        thread = Thread(target=run, name="server", daemon=True)
        thread.start()
        try:
            # that of all addresses is none to ask
            address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104
            yield f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        finally:
            guard.is_stopping = server.should_exit = True
            thread.join()


@contextmanager
def stop_on_signal() -> Iterator[None]:
    """End the context at SIGINT or SIGTERM, without an error."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _OneByOne(socket.socket):
    """Accepts one connection in a turn of asyncio's loop, which else accepts all that wait.

    So each makes room for the next, and the process does not run out of files.
    """

    is_next = False

    def accept(self) -> tuple[socket.socket, Any]:
        self.is_next = not self.is_next
        if not self.is_next:
            raise BlockingIOError
        return super().accept()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, marked as TCP: only on such a socket asyncio sets TCP_NODELAY.

    The kernel ends accepted connections to hosts that are gone without closing them. It asks the
    host, not the client, which may compute for minutes.

    Raises:
        ValueError: `port` is out of range.
        OSError: There is no such host, or the port is taken.
    """
    if not 0 <= port <= _LAST_PORT:
        raise ValueError(f"port must be in 0..{_LAST_PORT}, 0 for a free one, got {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"no host {host!r:.100} to listen on: {error}; give an address") from error
    family, kind, _, _, address = found[0]
    listening = _OneByOne(family, kind, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):  # not on every system
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    try:
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        remedy = "give another port, or an address of this machine"
        if error.errno == errno.EADDRINUSE:
            remedy = "stop that process, or give another port, 0 for a free one"
        reason = f"{host:.100}, port {port}: {error.strerror}; {remedy}"
        raise OSError(error.errno, reason) from error
    return listening


def _is_loopback(address: str) -> bool:
    with suppress(ValueError):  # a name
        number = ip_address(address)
        return (getattr(number, "ipv4_mapped", None) or number).is_loopback
    return False


def _is_own_name(host: str) -> bool:
    """Whether a header Host names this machine; another site may map its own name to 127.0.0.1."""
    name = re.sub(r":\d*$", "", host.lower()).strip("[]")
    return name in {"localhost", socket.gethostname().lower()} or _is_loopback(name)


def _make_server(guard: Guard) -> Server:
    require("uvicorn", "search")
    from uvicorn import Config, Server

    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 3 * guard.most
    most = min(guard.most, files // 3)  # twice as many leave files for environments
    return Server(
        Config(
            guard,
            log_config=None,
            access_log=False,
            lifespan=guard.lifespan,
            proxy_headers=False,
            server_header=False,
            http=_make_protocol(guard, most),
            ws="websockets-sansio" if guard.frame else "none",
            ws_max_size=guard.frame,
            ws_per_message_deflate=False,  # memory, and messages that expand
            ws_ping_interval=None,  # a client whose event loop waits for a model does not answer
            limit_concurrency=2 * most,  # and none of them waits for a request
            timeout_keep_alive=WAIT,
            timeout_graceful_shutdown=GRACE,
        )
    )


def _make_protocol(guard: Guard, most: int) -> type[asyncio.Protocol]:
    """HTTP of uvicorn for `most` connections, of which those that wait for a request end."""
    from h11 import IDLE, SEND_BODY
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        """A connection that ends `WAIT` seconds after it began to wait for a whole request.

        If there are too many, the one that has waited longest makes room for a new one.
        """

        late: TimerHandle

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.late = _end_later(guard, self)
            _make_room(self.connections, most)

        def connection_lost(self, exc: Exception | None) -> None:
            self.late.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.conn.their_state is IDLE and not self.conn.trailing_data[0]:
                self._wait_again()  # a request begins
            super().data_received(data)
            if not self._is_waiting():
                self.late.cancel()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._is_waiting():
                self._wait_again()

        def _is_waiting(self) -> bool:
            is_upgraded = self.transport.get_protocol() is not self  # to a WebSocket
            return self.conn.their_state in {IDLE, SEND_BODY} and not is_upgraded

        def _wait_again(self) -> None:
            self.late.cancel()
            self.late = _end_later(guard, self)

    return Connection


def _end_later(guard: Guard, connection: Any) -> TimerHandle:
    """End a connection that waits too long for a request; before `GRACE` when the server stops."""
    wait = GRACE / 2 if guard.is_stopping else WAIT
    later: TimerHandle = connection.loop.call_later(wait, connection.transport.abort)
    return later


def _make_room(connections: set[Any], most: int) -> None:
    """Of too many connections end the one that has waited longest for a request.

    The newest waits, too; it is the one that ends only if there are twice too many.
    """
    waiting = [one for one in connections if hasattr(one, "late") and not one.late.cancelled()]
    if len(connections) > (most if len(waiting) > 1 else 2 * most):
        oldest = min(waiting, key=lambda one: one.late.when())
        connections.discard(oldest)
        oldest.transport.abort()
