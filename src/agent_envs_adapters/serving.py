"""Runs the server of environments: sockets, signals, and connections that say nothing.

In the main thread with `serve`, or in a thread of its own with `serving`. Left out: several
processes; start several servers instead.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from threading import Thread
from typing import TYPE_CHECKING, Any

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent_envs.retrieval.server import address_of, listen
from agent_envs_adapters.gate import WHOLE

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from agent_envs_adapters.gate import Gate

VARIABLE = "AGENT_ENVS_TOKEN"
"""Environment variable of the command's token."""
HEAD = 30.0
"""Seconds in which the head of a request must arrive, else its connection is closed."""
_GRACE = 5  # seconds that running steps may still take when the server stops
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
"""A host without a sign of life is asked after 60 s, 3 times: it is given up after 2 minutes."""
_UNANSWERED = 120_000  # milliseconds until data that a host does not take end its connection


def serve(
    app: Gate,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    public: bool = False,
    ready: Callable[[str], object] = print,
) -> None:
    """Serve until SIGINT or SIGTERM, in the main thread.

    Then sessions and their environments are closed; a step that still runs after some seconds ends
    with the process.

    Args:
        app: What `openenv.make_app` made.
        host: Host name or address to listen on.
        port: Port to listen on; 0 takes a free one.
        public: Allow other machines to connect without a token.
        ready: Called with the address once the server accepts connections.

    Raises:
        ValueError: Other machines could connect without a token, or the port is out of range.
        OSError: There is no such host, or the port is taken.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # uvicorn raises the signal that ended it again; both signals end this call.
        with listen(host, port) as listening, suppress(KeyboardInterrupt):
            if not (app.token or public or ip_address(listening.getsockname()[0]).is_loopback):
                raise ValueError(
                    f"host {host!r} lets other machines connect, so set a token in ${VARIABLE}, or "
                    "listen on 127.0.0.1; --public serves without a token"
                )
            give_up_silent(listening)
            ready(address_of(listening))
            _server(app).run([listening])
    except socket.gaierror as error:
        raise OSError(f"no host {host!r:.100} to listen on: {error}; give an address") from error
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def serving(app: Gate, port: int = 0) -> Iterator[str]:
    """A server in a thread of this process for the duration of the context; yields its address.

    It listens on 127.0.0.1. Errors are as in `serve`.
    """
    server = _server(app)
    with listen("127.0.0.1", port) as listening:
        give_up_silent(listening)
        thread = Thread(target=server.run, args=([listening],), name="openenv-server")
        thread.start()
        try:
            yield address_of(listening)
        finally:
            server.should_exit = True
            thread.join()


def give_up_silent(listening: socket.socket) -> None:
    """Let the kernel end connections to hosts that are gone without closing them.

    It asks the host, not the client, which may compute for minutes. Accepted sockets inherit this.
    """
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE.items(), ("TCP_USER_TIMEOUT", _UNANSWERED)):
        if hasattr(socket, name):  # not on every system
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _server(app: Gate) -> Server:
    return Server(
        Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            workers=1,
            http=_Http,
            ws="websockets-sansio",
            ws_max_size=WHOLE * app.limits.message,
            ws_per_message_deflate=False,  # memory, and messages that expand
            ws_ping_interval=None,  # a client whose event loop waits for a model does not answer
            limit_concurrency=2 * app.limits.sessions + 32,
            timeout_graceful_shutdown=_GRACE,
        )
    )


class _Http(H11Protocol):
    """HTTP of uvicorn that gives up connections on which no request arrives."""

    _late: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_answering():
            self._stop_waiting()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering():
            self._start_waiting()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_waiting(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(HEAD, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
