"""A session of a server with OpenEnv's protocol: messages over a WebSocket, and pages over HTTP.

Left out: asyncio, and MCP sessions. `agent-envs serve` is a server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from agent_envs.assets import require
from agent_envs.imports import message_of
from agent_envs.net.web import ServerError, check_url, find_proxy

LARGEST = 1 << 26
"""Bytes of a message."""


class LostError(ServerError):
    """A session that has ended."""


class RefusedError(ServerError):
    """An error that the server answers with, `code` as in OpenEnv's protocol."""

    def __init__(self, url: str, said: str, code: str) -> None:
        super().__init__(f"{url}: {said}")
        self.said, self.code = said, code


class Connection:
    """One session of an OpenEnv server.

    Args:
        url: address of the server.
        token: the server's token, "" for none.
        timeout: seconds to wait for an answer.

    Raises:
        ValueError: the address is none, or has a password.
        ServerError: there is no server.
    """

    def __init__(self, url: str, token: str, timeout: float) -> None:
        rule, example = "the address of an OpenEnv server must be", "http://127.0.0.1:8000"
        check_url(url, rule=rule, example=example, advice="give token=, or set $AGENT_ENVS_TOKEN")
        self.url, self.timeout, self._proxy = url.rstrip("/"), timeout, find_proxy(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = require("websockets.sync.client", "openenv")
        self._lost = require("websockets.exceptions", "openenv").WebSocketException
        self._opened = ExitStack()
        try:
            self._socket = self._opened.enter_context(
                client.connect(
                    f"ws{self.url.removeprefix('http')}/ws",
                    additional_headers=self._headers,
                    compression=None,
                    proxy=self._proxy or None,
                    max_size=LARGEST,
                    open_timeout=timeout,
                    close_timeout=2,
                )
            )
        except (OSError, ValueError, self._lost) as error:
            said = f"no server at {url}: {message_of(error)}"
            raise ServerError(f"{said}; start it: agent-envs serve, if it is ours") from error

    def send(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a message: observation, reward and done.

        Raises:
            LostError: no answer in time, or the session has ended.
            RefusedError: the answer is an error.
            ServerError: the answer is none of OpenEnv's protocol.
        """
        try:
            with suppress(self._lost):  # the server may have said why
                self._socket.send(json.dumps({"type": kind, "data": data}))
            text = self._socket.recv(timeout=self.timeout)
        except (self._lost, TimeoutError) as error:
            self.close()
            said = message_of(error)
            if isinstance(error, TimeoutError):
                said = f"no answer to {kind} within {self.timeout:g} s, which timeout= raises"
            raise LostError(f"{self.url} ended the session: {said}; connect again") from error
        try:
            answer = json.loads(text)
            given: dict[str, Any] = answer["data"]
            if answer["type"] == "error":
                said = message_of(Exception(given["message"]))
                raise RefusedError(self.url, said, given.get("code", ""))
            float(given["reward"] or 0)
            dict(given["observation"])
        except (ValueError, TypeError, KeyError) as error:
            said = f"{self.url} answers {kind} with {text!r:.100}, not as OpenEnv's protocol does"
            raise ServerError(f"{said}: {message_of(error)}") from error
        return given

    def read_page(self, path: str, asked: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a page, to which `asked` is posted if it is given."""
        body = None if asked is None else json.dumps(asked).encode()
        headers = self._headers | {"Content-Type": "application/json"}
        request = Request(f"{self.url}{path}", body, headers)  # noqa: S310
        proxies = dict.fromkeys(("http", "https"), self._proxy) if self._proxy else {}
        try:
            with build_opener(ProxyHandler(proxies)).open(request, timeout=self.timeout) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                said = f"{error}: {error.read(200).decode(errors='replace')}"
            raise ServerError(f"{self.url}{path}: {said}") from error
        except (URLError, TimeoutError, ValueError) as error:
            raise ServerError(f"{self.url}{path}: {message_of(error)}") from error

    def close(self) -> None:
        """End the session."""
        self._opened.close()
