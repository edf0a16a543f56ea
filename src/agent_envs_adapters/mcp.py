"""MCP: any client plays an environment over stdin and stdout or HTTP, each session its own.

A session is one of the handshake protocol, up to 2025-11-25. The protocol 2026-07-28 has no
sessions over HTTP; its clients are told so, and begin with the handshake. Left out: streams of
server messages (GET), which an environment has none of. `agent_envs.net.connections` runs the
server.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from agent_envs import __version__
from agent_envs.imports import describe_error, message_of
from agent_envs.machine import explain_error
from agent_envs.net.connections import Guard, RefusalError
from agent_envs.toolset import Call, Calls, CallThread, Toolset
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.gate import LIMITS, VARIABLE, Limits
from trainer.options import STRICT

with use_peer("mcp", "2.2", "2.3"):
    from mcp.server.connection import Connection
    from mcp.server.lowlevel import Server
    from mcp.server.runner import serve_loop
    from mcp.server.session import ServerSession
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import (
        CallToolRequestParams,
        CallToolResult,
        DiscoverResult,
        ListToolsResult,
        PaginatedRequestParams,
        RequestParams,
        TextContent,
        Tool,
    )
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    list(Server("name", version="1", on_list_tools=None, on_call_tool=None).middleware)
    check_attributes(Connection, "protocol_version", "state", "exit_stack")
    check_attributes(ServerSession, "_connection")
    check_call(serve_loop, None, None, None, lifespan_state={})
    check_call(
        Server.streamable_http_app,
        None,
        json_response=True,
        max_request_body_size=1,
        session_idle_timeout=1.0,
        max_sessions=1,
        transport_security=None,
    )

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from starlette.types import Receive, Scope, Send

START = "start_episode"
"""The tool that starts an episode."""
META = "agent-envs/episode"
"""Key of a result's `_meta`, which clients do not show to the model: the episode and the turn."""
_LATE = 1.0  # seconds that a request waits for one before it
_log = logging.getLogger(__name__)


class Start(BaseModel):
    """The arguments of `start_episode`."""

    model_config = STRICT
    task: int | Annotated[str, Field(max_length=255)] | None = Field(
        None, description="Number or id of a task; without it the seed draws one."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the episode."
    )


class Order:
    """Begins the requests of a session by their numbers.

    Requests that a client sends at the same time over HTTP arrive in any order. Clients count them.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._is_counted, self._begun = True, asyncio.Condition()

    async def begin(self, number: int) -> bool:
        """Wait for the requests before this one; False if one after it was begun."""
        async with self._begun:
            if self._is_counted:
                try:
                    async with asyncio.timeout(_LATE):
                        await self._begun.wait_for(
                            lambda: self._last is None or number <= self._last + 1
                        )
                except TimeoutError:  # one is lost, or the client does not count
                    self._is_counted = False
            last = number if self._last is None else self._last
            self._last = max(number, last)
            self._begun.notify_all()
        return number >= last


class Player:
    """One session: its environment, and its calls one after another in a thread.

    Args:
        make: makes the environment's tools, at the first call.
    """

    def __init__(self, make: Callable[[], Toolset]) -> None:
        self._make, self._thread = make, CallThread()
        self._toolset: Toolset | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """The result of a call, after those before; an error of the environment is one line."""
        return await asyncio.wrap_future(self._thread.submit(lambda: self._answer(name, arguments)))

    async def close(self) -> None:
        """Close the environment after the call that runs; mcp waits 5 s for it."""
        closing = self._thread.submit(self._close)
        self._thread.close()
        await asyncio.shield(asyncio.wrap_future(closing))

    def _close(self) -> None:
        if self._toolset is not None:
            self._toolset.close()

    def _answer(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            return self._start(arguments) if name == START else self._play(name, arguments)
        except ValidationError as error:
            return _say(f"{name}: {explain_error(error)}", is_error=True)
        except Exception as error:  # noqa: BLE001 - of an environment; the server goes on
            if name == START and isinstance(error, ValueError):  # no such task
                return _say(message_of(error), is_error=True)
            _log.exception("%.60s failed", name)
            said = f"{describe_error(error)}; {START} starts another episode"
            return _say(f"the call failed on the server: {said}", is_error=True)

    def _start(self, arguments: dict[str, Any]) -> CallToolResult:
        given = Start.model_validate(arguments)
        self._toolset = self._toolset or self._make()
        said = self._toolset.start(task=given.task, seed=given.seed)
        return _say(said, asdict(self._toolset.episode))

    def _play(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        if self._toolset is None:
            return _say(f"no episode has been started: call {START} first", is_error=True)
        episode = self._toolset.episode
        before = len(episode.turns)
        said = self._toolset.call(name, arguments)
        return _say(said, asdict(replace(episode, turns=episode.turns[before:])))


def _say(text: str, episode: dict[str, Any] | None = None, *, is_error: bool = False) -> Any:
    return CallToolResult(
        content=[TextContent(text=text)], is_error=is_error, _meta=episode and {META: episode}
    )


def read_episode(results: Iterable[CallToolResult]) -> Calls:
    """The turns that a client's results of one episode report, as `Toolset.episode` has them.

    Args:
        results: from that of `start_episode` on.

    Raises:
        ValueError: no result is of an episode.
    """
    told: list[dict[str, Any]] = [one.meta[META] for one in results if one.meta]
    if not told:
        raise ValueError(f"no result has {META!r} in its meta; give those from {START} on")
    turns = [Call(**turn) for one in told for turn in one["turns"]]
    return Calls(**{**told[-1], "turns": turns})


def make_server(name: str, make: Callable[[], Toolset]) -> Server[Any]:
    """The MCP server of an environment.

    Args:
        name: of the environment.
        make: makes an environment's tools; called once here, and for each session.

    Raises:
        ValueError: a tool is named `start_episode`.
    """
    toolset = make()
    tools = [
        Tool(name=one.name, description=one.description, input_schema=one.schema)
        for one in toolset.tools.values()
    ]
    toolset.close()
    if START in toolset.tools:
        raise ValueError(f"{START} starts episodes; give the verb of {name} another name")
    about = "Start an episode, before all else and after each end. Returns the task and the scene."
    tools.insert(0, Tool(name=START, description=about, input_schema=Start.model_json_schema()))

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[Any], given: CallToolRequestParams
    ) -> CallToolResult:
        connection = context.session._connection  # noqa: SLF001 - what a session keeps is only here
        if connection.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            said = f"protocol {connection.protocol_version} has no sessions; begin with initialize"
            return _say(said, is_error=True)
        if "player" not in connection.state:
            connection.state["player"] = Player(make)
            connection.exit_stack.push_async_callback(connection.state["player"].close)
        player: Player = connection.state["player"]
        return await player.call(given.name, given.arguments or {})

    async def keep_order(context: ServerRequestContext[Any], answer: Any) -> Any:
        order = context.session._connection.state.setdefault("order", Order())  # noqa: SLF001
        number = context.request_id
        in_order = not isinstance(number, int) or await order.begin(number)
        if context.method == "tools/call" and not in_order:
            said = "nothing was done: a call after this one came before it; over HTTP await each"
            return _say(said, is_error=True)
        return await answer(context)

    async def discover(_: Any, __: RequestParams) -> DiscoverResult:
        capabilities = server.get_capabilities()
        return DiscoverResult(
            supported_versions=[*HANDSHAKE_PROTOCOL_VERSIONS], capabilities=capabilities
        )

    server = Server(name, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
    server.add_request_handler("server/discover", RequestParams, discover)
    server.middleware.append(keep_order)
    return server


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout until it closes stdin; a signal ends the process."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)  # asyncio would wait for a step that hangs

    async def run() -> None:
        async with stdio_server() as (read, write):
            await serve_loop(server, read, write, lifespan_state={})

    asyncio.run(run())


class Gate(Guard):
    """The ASGI application of a server; clients send their messages to `/mcp`.

    Args:
        server: of `make_server`.
        limits: Limits on sessions, messages and idle time.
        token: Token that callers must send; "" for none.

    Raises:
        ValueError: A token that is too short.
    """

    lifespan = "on"

    def __init__(self, server: Server[Any], *, limits: Limits = LIMITS, token: str = "") -> None:
        super().__init__(self._answer, largest=limits.message, token=token, variable=VARIABLE)
        self.mcp = server.streamable_http_app(
            json_response=True,
            max_request_body_size=limits.message,
            session_idle_timeout=limits.idle,
            max_sessions=limits.sessions,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )  # the guard checks callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on, one request."""
        if scope["type"] == "lifespan":
            await self.mcp(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            allowed = {"Allow": "POST, DELETE"}
            raise RefusalError(405, "this server sends no messages of its own; use POST", allowed)
        await self.mcp(scope, receive, send)
