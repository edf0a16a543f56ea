"""Messages between a world and its interpreter: four bytes of length, a token, and JSON.

Each message of the world has a new random token, and the answer must return it. So the interpreter
cannot send an answer before it was asked. Tokens are no part of messages, and are never stored.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

LONGEST = 4_000_000  # bytes of a message
TOKEN = 16  # bytes
_HEAD = 4 + TOKEN


def send(channel: socket.socket, message: Any, token: bytes, deadline: float | None = None) -> None:
    """Send `message`, before `deadline` on the monotonic clock if one is given.

    Raises:
        TypeError, ValueError: It is not JSON, or too long.
        OSError: The socket is closed.
        TimeoutError: The other side does not read.
    """
    body = json.dumps(message).encode()
    if len(body) > LONGEST:
        raise ValueError(f"a message of {len(body)} bytes is longer than {LONGEST}")
    _wait_until(channel, deadline)
    channel.sendall(len(body).to_bytes(4, "big") + token + body)


def receive(channel: socket.socket, deadline: float | None = None) -> tuple[bytes, bytes]:
    """The token and the JSON of the next message, before `deadline` if one is given.

    Raises:
        EOFError: The other side closed the socket.
        TimeoutError: It is late.
        ValueError: The data is not one message.
    """
    data, wanted = bytearray(), _HEAD
    while len(data) < wanted:
        data += _receive_part(channel, deadline)
        if len(data) >= _HEAD:
            size = int.from_bytes(data[:4], "big")
            if size > LONGEST:
                raise ValueError(f"a message of {size} bytes is longer than {LONGEST}")
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
    _wait_until(channel, deadline)
    try:
        part = channel.recv(65_536)
    except ConnectionError as error:
        raise EOFError("the connection broke") from error
    if not part:
        raise EOFError("the other side is gone")
    return part


def _wait_until(channel: socket.socket, deadline: float | None) -> None:
    if deadline is not None:
        channel.settimeout(max(deadline - time.monotonic(), 1e-6))
