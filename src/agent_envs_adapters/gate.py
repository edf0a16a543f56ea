"""The gate of an environment server: who may connect, and which messages pass.

ASGI middleware around OpenEnv's application, which checks neither callers nor sizes and ends a
session at malformed JSON. Messages are checked before OpenEnv parses them; a refusal names the
remedy and leaves the session open. Left out: encryption, which needs a proxy.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn

from agent_envs.panels import nearest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Message, Receive, Send], Awaitable[None]]

FIELDS: dict[str, dict[str, type]] = {
    "reset": {
        "seed": int,
        "episode_id": str,
        "split": str,
        "index": int,
        "task_id": str,
        "fork": str,
    },
    "step": {"reply": str, "stop": bool, "metadata": dict},
    "state": {},
    "close": {},
}
"""The messages of a session and the fields of their data."""
PAGES = ("/health", "/schema", "/metadata", "/openapi.json", "/list_environments")
TASK_PAGES = {
    "splits": "GET",
    **dict.fromkeys(("tasks", "num_tasks", "task", "task_range"), "POST"),
}
WHOLE = 4
"""A message is refused if longer than its limit; longer than this many limits, it is not read."""
_log = logging.getLogger(__name__)
_LARGEST = 2**63 - 1
_NAME = 255  # characters of an id
_TOKEN = 16  # characters
_AGAIN = 1013  # WebSocket: try again later
_POLICY = 1008  # WebSocket: policy violation
_GONE = 1006  # WebSocket: no close was received


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        sessions: Sessions at the same time.
        message: Bytes of a message.
        idle: Seconds that a client may wait between messages.

    Raises:
        ValueError: A limit is not positive.
    """

    sessions: int = 64
    message: int = 256 * 1024
    idle: float = 600.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < _LARGEST:
                raise ValueError(f"the limit {name} must be positive, got {value}")


LIMITS = Limits()
"""Those of a server that is given none."""


class Refused(Exception):
    """A caller or message is refused.

    code: Error code of OpenEnv's protocol. status: HTTP status.
    """

    def __init__(self, why: str, code: str = "VALIDATION_ERROR", status: int = 422) -> None:
        super().__init__(why)
        self.code, self.status = code, status

    @property
    def frame(self) -> Message:
        """The error as a message of a session."""
        data = {"message": str(self), "code": self.code}
        return {"type": "websocket.send", "text": json.dumps({"type": "error", "data": data})}


class Gate:
    """Passes what is allowed on to an application of OpenEnv.

    Args:
        app: The application.
        name: Id of the environment in the paths of its tasks.
        limits: Limits on sessions, messages and idle time.
        token: Token that every caller must send as `Authorization: Bearer TOKEN`; "" for none.

    Attributes:
        sessions: Number of open sessions.
        token: Whether callers need a token.

    Raises:
        ValueError: The token is too short or not printable ASCII.
    """

    def __init__(self, app: Application, name: str, *, limits: Limits, token: str = "") -> None:
        if token and (len(token) < _TOKEN or not token.isascii() or not token.isprintable()):
            raise ValueError(
                f"a token has at least {_TOKEN} printable ASCII characters; make one with: "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        self.app, self.name, self.limits = app, name, limits
        self.sessions = 0
        self.token = bool(token)
        self._token = token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, or pass on, one connection or request."""
        if scope["type"] == "websocket":
            await self._run_session(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer_request(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _run_session(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # the connect
        try:
            self._check_caller(scope)
            self._check_room(scope)
        except Refused as refusal:  # accepted first, because clients hide why they were rejected
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
            await self.app(scope, next_message, send_open)
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
                if message["type"] == "websocket.receive":
                    check(message.get("text"), self.limits.message)
            except TimeoutError:
                idle = Refused(
                    f"the session was closed after {self.limits.idle:g} s without a message; "
                    "connect again and reset, or start the server with a longer --idle",
                    "SESSION_ERROR",
                )
                await send(idle.frame)
                return _make_end(_POLICY)
            except Refused as refusal:
                await send(refusal.frame)
            else:
                return message

    async def _answer_request(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] != "/health":
                self._check_caller(scope)
            if scope["path"] == "/mcp":  # OpenEnv's validator posts there
                await _send_answer(send, 200, _NO_TOOLS)
                return
            self._check_path(scope["method"], scope["path"])
            body = await self._read_body(receive)
        except Refused as refusal:
            await _send_answer(send, refusal.status, {"detail": str(refusal)})
            return
        passed = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_body() -> Message:
            return passed.pop() if passed else await receive()

        await self.app(scope, receive_body, send)

    def _check_caller(self, scope: Message) -> None:
        if any(name == b"origin" for name, _ in scope["headers"]):
            raise Refused(
                "requests of web pages (with the header Origin) are refused; use a client",
                "SESSION_ERROR",
                403,
            )
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, sent = given[0].strip().partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if self._token and not (
            scheme.lower() == b"bearer" and hmac.compare_digest(sent.strip(), self._token)
        ):
            raise Refused(
                f"{'a wrong token' if given else 'no token'}: send the server's token as the "
                'header {"Authorization": "Bearer TOKEN"}',
                "SESSION_ERROR",
                401,
            )

    def _check_room(self, scope: Message) -> None:
        if scope["path"] != "/ws" or scope["query_string"]:
            raise Refused(
                "sessions are at /ws, without a query; to continue another session, send reset "
                "with its id as fork",
                "SESSION_ERROR",
            )
        if self.sessions >= self.limits.sessions:
            raise Refused(
                f"all {self.limits.sessions} sessions are in use; close one, or start the server "
                "with more --sessions",
                "CAPACITY_REACHED",
            )

    def _check_path(self, method: str, path: str) -> None:
        name, _, page = path[1:].rpartition("/")
        if name and page in TASK_PAGES:
            if name.lower() != self.name.lower():
                raise Refused(f"this server has {self.name}, got {name!r:.{_NAME}}", status=404)
            wanted = TASK_PAGES[page]
        elif path in PAGES:
            wanted = "GET"
        else:
            pages = [*PAGES, *(f"/{self.name}/{page}" for page in TASK_PAGES)]
            raise Refused(
                f"there is no {path!r:.{_NAME}}; sessions are played over the WebSocket /ws, "
                f"the pages are {', '.join(pages)}",
                status=404,
            )
        if method != wanted:
            raise Refused(f"{path} is read with {wanted}, got {method:.20}", status=405)

    async def _read_body(self, receive: Receive) -> bytes:
        body, more = b"", True
        try:
            async with asyncio.timeout(self.limits.idle):
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.limits.message:
                        most = self.limits.message
                        raise Refused(f"a request has at most {most} bytes", status=413)
            if body:
                given = json.loads(body, parse_constant=_refuse_constant)
                json.dumps(given, ensure_ascii=False).encode()
        except TimeoutError:
            late = f"the request did not end within {self.limits.idle:g} s"
            raise Refused(late, status=408) from None
        except UnicodeEncodeError:
            odd = "the request has an unpaired surrogate, which is no text"
            raise Refused(odd, status=400) from None
        except (ValueError, RecursionError) as error:
            raise Refused(f"a request is JSON, got {body!r:.60}: {error}", status=400) from None
        return body


def _make_end(code: int) -> Message:
    return {"type": "websocket.disconnect", "code": code}


def check(text: str | None, limit: int) -> None:
    """Check a message of a session, at most `limit` bytes.

    Raises:
        Refused: Its size, JSON, type, fields or values; the message says what is allowed.
    """
    if text is None:
        raise Refused("messages are JSON text, got a binary one", "INVALID_JSON")
    kind, data = _parse_message(text, limit)
    known = FIELDS[kind]
    _check_names(f"the data of {kind}", data, known)
    for name, value in data.items():
        if value is not None or kind != "reset":
            _check_value(name, value, known[name])
    if kind == "step" and ("reply" in data) == data.get("stop", False):
        raise Refused(
            'a step needs the model\'s reply: {"type": "step", "data": {"reply": "..."}}, or '
            '"stop": true alone'
        )


def _parse_message(text: str, limit: int) -> tuple[str, dict[str, Any]]:
    """The type of a message and its data, of which only the form is checked."""
    if len(text) > limit or len(text.encode()) > limit:
        raise Refused(
            f"a message has at most {limit} bytes, got more; shorten the reply, or start the "
            "server with a larger --message"
        )
    try:
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"a message is JSON, got {text!r:.60}: {error}", "INVALID_JSON") from None
    kind = message.get("type") if isinstance(message, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS:
        raise Refused(
            f"a message is an object whose type is one of {', '.join(FIELDS)}, got {message!r:.60}",
            "UNKNOWN_TYPE",
        )
    _check_names(f"a {kind} message", message, ("type", "data") if FIELDS[kind] else ("type",))
    data = message.get("data", {})
    if not isinstance(data, dict):
        raise Refused(f"the data of a message is an object, got {data!r:.60}")
    return kind, data


def _check_names(what: str, given: dict[str, Any], known: Any) -> None:
    for name in given:
        if name not in known:
            raise Refused(
                f"{what} has no {name!r:.60}{nearest(name, known)}; it has {', '.join(known)}"
            )


def _check_value(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = {int: "an integer", str: "text", bool: "true or false", dict: "an object"}[kind]
        raise Refused(f"{name} is {wanted}, got {value!r:.60}")
    if isinstance(value, int) and not 0 <= value <= _LARGEST:
        raise Refused(f"{name} must lie in 0..2**63-1, got {value!r:.60}")
    if isinstance(value, str):
        if name != "reply" and len(value) > _NAME:
            raise Refused(f"{name} has at most {_NAME} characters, got {len(value)}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused(f"{name} has an unpaired surrogate, which is no text") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


async def _send_answer(send: Send, status: int, content: Any) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_NO_TOOLS = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32601, "message": "no MCP tools here; play over the WebSocket /ws"},
}
