"""The gate of an environment server: who may connect, and which messages pass.

ASGI middleware around OpenEnv's application, which checks neither callers nor sizes and ends a
session at malformed JSON. Messages are checked before OpenEnv parses them; a refusal names the
remedy and leaves the session open. `agent_envs.net.connections` checks callers and runs the server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import pydantic.dataclasses
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator
from starlette.responses import JSONResponse

from agent_envs.machine import explain_error
from agent_envs.net.connections import Guard, RefusalError
from trainer.options import STRICT, AboveZero, Positive

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGES = ("/health", "/schema", "/metadata", "/openapi.json", "/list_environments")
TASK_PAGES = ("splits", "tasks", "num_tasks", "task", "task_range")
WHOLE = 4
"""A message is refused if longer than its limit; longer than this many limits, it is not read."""
VARIABLE = "AGENT_ENVS_TOKEN"
"""Environment variable of the command's token."""
_log = logging.getLogger(__name__)
_AGAIN = 1013  # WebSocket: try again later
_POLICY = 1008  # WebSocket: policy violation
_GONE = 1006  # WebSocket: no close was received
_CODES = {
    "json_invalid": "INVALID_JSON",
    "union_tag_invalid": "UNKNOWN_TYPE",
    "union_tag_not_found": "UNKNOWN_TYPE",
}
"""Error codes of OpenEnv's protocol by pydantic's type of an error."""

_Number = Annotated[int, Field(ge=0, lt=2**63)]
_Name = Annotated[str, Field(max_length=255)]


class _Form(BaseModel):
    model_config = STRICT


class _Task(_Form):
    seed: _Number | None = None
    episode_id: _Name | None = None
    split: _Name | None = None
    index: _Number | None = None
    task_id: _Name | None = None
    fork: _Name | None = None


class _Turn(_Form):
    reply: str = ""
    stop: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if ("reply" in self.model_fields_set) == self.stop:
            raise ValueError(
                'a step needs the model\'s reply: {"type": "step", "data": {"reply": "..."}}, or '
                '"stop": true alone'
            )
        return self


class _Reset(_Form):
    type: Literal["reset"]
    data: _Task = _Task()


class _Step(_Form):
    type: Literal["step"]
    data: _Turn


class _Plain(_Form):
    type: Literal["state", "close"]


_MESSAGE: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Reset | _Step | _Plain, Field(discriminator="type")]
)
"""A message of a session."""


@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)
class Limits:
    """Limits of a server.

    Attributes:
        sessions: Sessions at the same time.
        message: Bytes of a message.
        idle: Seconds that a client may wait between messages.
    """

    sessions: Positive = 64
    message: Positive = 256 * 1024
    idle: AboveZero = 600.0


LIMITS = Limits()
"""Those of a server that is given none."""


@dataclass(frozen=True)
class Refusal:
    """Why a session or message is refused.

    Attributes:
        why: One line for the caller.
        code: Error code of OpenEnv's protocol.
    """

    why: str
    code: str = "VALIDATION_ERROR"

    @property
    def frame(self) -> Message:
        """The error as a message of a session."""
        data = {"message": self.why, "code": self.code}
        return {"type": "websocket.send", "text": json.dumps({"type": "error", "data": data})}


class Gate(Guard):
    """Passes what is allowed on to an application of OpenEnv.

    Args:
        app: The application.
        name: Id of the environment in the paths of its tasks.
        limits: Limits on sessions, messages and idle time.
        token: Token that every caller must send; "" for none.

    Attributes:
        sessions: Number of open sessions.

    Raises:
        ValueError: The token is too short or not printable ASCII.
    """

    def __init__(self, app: ASGIApp, name: str, *, limits: Limits, token: str = "") -> None:
        super().__init__(self._answer_page, largest=limits.message, token=token, variable=VARIABLE)
        self.most += 2 * limits.sessions
        self.frame = WHOLE * limits.message
        self.openenv, self.limits = app, limits
        self.pages = [*PAGES, *(f"/{name}/{page}" for page in TASK_PAGES)]
        self.sessions = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on, one connection or request."""
        if scope["type"] == "websocket":
            await self._run_session(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _answer_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in self.pages:
            await self.openenv(scope, receive, send)
        elif path == "/mcp":  # OpenEnv's validator posts there
            await JSONResponse(_NO_TOOLS)(scope, receive, send)
        else:
            raise RefusalError(
                404,
                f"there is no {path!r:.255}; sessions are played over the WebSocket /ws, the pages "
                f"are {', '.join(self.pages)}",
            )

    async def _run_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the connect
        if refusal := self._judge_session(scope):
            # accepted first, because clients hide why they were rejected
            await send({"type": "websocket.accept"})
            await send(refusal.frame)
            code = _AGAIN if refusal.code == "CAPACITY_REACHED" else _POLICY
            await send({"type": "websocket.close", "code": code, "reason": refusal.code})
            return
        self.sessions += 1
        passed = [{"type": "websocket.connect"}]
        gone = False  # or it has not read for the limit on idle time

        async def send_open(message: Message) -> None:
            nonlocal gone
            if not gone:  # OpenEnv goes on to the next message, which ends the session
                try:
                    async with asyncio.timeout(self.limits.idle):
                        await send(message)
                except OSError:  # a TimeoutError, too
                    gone = True

        async def next_message() -> Message:
            if passed:
                return passed.pop()
            return _make_end(_GONE) if gone else await self._receive_allowed(receive, send_open)

        try:
            await self.openenv(scope, next_message, send_open)
        except asyncio.CancelledError:  # the server stops, and a step still runs
            _log.warning("the server stopped during a step; it ends with the process")
        finally:
            self.sessions -= 1

    async def _receive_allowed(self, receive: Receive, send: Send) -> Message:
        """The next message that may pass, or the end of the session."""
        while True:
            try:
                async with asyncio.timeout(self.limits.idle):
                    message = await receive()
            except TimeoutError:
                idle = Refusal(
                    f"the session was closed after {self.limits.idle:g} s without a message; "
                    "connect again and reset, or start the server with a longer --idle",
                    "SESSION_ERROR",
                )
                await send(idle.frame)
                return _make_end(_POLICY)
            if message["type"] != "websocket.receive":
                return message
            if (refusal := judge_message(message.get("text"), self.limits.message)) is None:
                return message
            await send(refusal.frame)

    def _judge_session(self, scope: Scope) -> Refusal | None:
        try:
            self.check_caller(scope)
        except RefusalError as error:
            return Refusal(error.detail, "SESSION_ERROR")
        if scope["path"] != "/ws" or scope["query_string"]:
            return Refusal(
                "sessions are at /ws, without a query; to continue another session, send reset "
                "with its id as fork",
                "SESSION_ERROR",
            )
        if self.sessions >= self.limits.sessions:
            return Refusal(
                f"all {self.limits.sessions} sessions are in use; close one, or start the server "
                "with more --sessions",
                "CAPACITY_REACHED",
            )
        return None


def judge_message(text: str | None, limit: int) -> Refusal | None:
    """Why a message of a session, at most `limit` bytes, is refused; None if it may pass."""
    if text is None:
        return Refusal("messages are JSON text, got a binary one", "INVALID_JSON")
    if len(text) > limit or len(text.encode()) > limit:
        return Refusal(
            f"a message has at most {limit} bytes, got more; shorten the reply, or start the "
            "server with a larger --message"
        )
    try:
        _MESSAGE.validate_json(text)
    except ValidationError as error:
        kind = error.errors()[0]["type"]
        return Refusal(f"{explain_error(error):.300}", _CODES.get(kind, "VALIDATION_ERROR"))
    return None


def _make_end(code: int) -> Message:
    return {"type": "websocket.disconnect", "code": code}


_NO_TOOLS = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32601, "message": "no MCP tools here; play over the WebSocket /ws"},
}
