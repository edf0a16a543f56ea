"""Messages between a world and its interpreter: four bytes of length, a token, and JSON.

Each message of the world has a new random token, and the answer must return it. So the interpreter
cannot send an answer before it was asked. Tokens are no part of messages, and are never stored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

LONGEST = 4_000_000  # bytes of a message of the world
CALL = 1_000_000  # bytes of a message of its interpreter
TOKEN = 16  # bytes
_HEAD = 4 + TOKEN


class LateError(Exception):
    """The other side is late."""


@contextmanager
def limit_time(channel: socket.socket, deadline: float | None) -> Iterator[None]:
    """Limit the time of one use of the socket, by a time on the monotonic clock.

    Raises:
        LateError: It took longer. A TimeoutError before that is a signal handler's, and is raised.
    """
    if deadline is not None:
        channel.settimeout(max(deadline - time.monotonic(), 1e-6))
    try:
        yield
    except TimeoutError as error:
        if deadline is None or time.monotonic() < deadline:
            raise
        raise LateError("timed out") from error


def encode(message: Any, longest: int) -> bytes:
    """The JSON of a message.

    Raises:
        TypeError, ValueError: It is not JSON, or has more than `longest` bytes.
    """
    body = json.dumps(message).encode()
    if len(body) > longest:
        raise ValueError(f"a message of {len(body)} bytes is longer than {longest}")
    return body


def send(channel: socket.socket, body: bytes, token: bytes, deadline: float | None = None) -> None:
    """Send the JSON of a message, before `deadline` if one is given.

    Raises:
        OSError: The socket is closed.
        LateError: The other side does not read.
    """
    with limit_time(channel, deadline):
        channel.sendall(len(body).to_bytes(4, "big") + token + body)


def receive(
    channel: socket.socket, longest: int, deadline: float | None = None
) -> tuple[bytes, bytes]:
    """The token and the JSON of the next message, before `deadline` if one is given.

    Raises:
        EOFError: The other side closed the socket.
        LateError: It is late.
        ValueError: The data is not one message of at most `longest` bytes.
    """
    data, wanted = bytearray(), _HEAD
    while len(data) < wanted:
        data += _receive_part(channel, deadline)
        if len(data) >= _HEAD:
            size = int.from_bytes(data[:4], "big")
            if size > longest:
                raise ValueError(f"a message of {size} bytes is longer than {longest}")
            wanted = _HEAD + size
    if len(data) > wanted:
        raise ValueError("there is more than one message")
    return bytes(data[4:_HEAD]), bytes(data[_HEAD:])


def parse(body: bytes) -> Any:
    """The message of its JSON.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return json.loads(body)
    except RecursionError as error:
        raise ValueError("a message is nested too deeply") from error


def _receive_part(channel: socket.socket, deadline: float | None) -> bytes:
    try:
        with limit_time(channel, deadline):
            part = channel.recv(65_536)
    except ConnectionError as error:
        raise EOFError("the connection broke") from error
    if not part:
        raise EOFError("the other side is gone")
    return part
