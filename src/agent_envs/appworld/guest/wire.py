"""Messages between a world and its interpreter: JSON after a length of four bytes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

LONGEST = 4_000_000  # bytes of a message


def send(channel: socket.socket, message: Any, deadline: float | None = None) -> None:
    """Send `message`, before `deadline` on the monotonic clock if one is given.

    Raises:
        TypeError, ValueError: It is not JSON, or too long. OSError: The socket is closed.
        TimeoutError: The other side does not read.
    """
    body = json.dumps(message).encode()
    if len(body) > LONGEST:
        raise ValueError(f"a message of {len(body)} bytes is longer than {LONGEST}")
    _wait_until(channel, deadline)
    channel.sendall(len(body).to_bytes(4, "big") + body)


def receive(channel: socket.socket, deadline: float | None = None) -> Any:
    """The next message, before `deadline` on the monotonic clock if one is given.

    Raises:
        EOFError: The other side closed the socket. TimeoutError: It is late.
        ValueError: The data is not a message.
    """
    size = int.from_bytes(_exactly(channel, 4, deadline), "big")
    if size > LONGEST:
        raise ValueError(f"a message of {size} bytes is longer than {LONGEST}")
    try:
        return json.loads(_exactly(channel, size, deadline))
    except RecursionError as error:
        raise ValueError("a message is nested too deeply") from error


def _exactly(channel: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = []
    while size:
        _wait_until(channel, deadline)
        try:
            part = channel.recv(min(size, 65_536))
        except ConnectionError as error:
            raise EOFError("the connection broke") from error
        if not part:
            raise EOFError("the other side is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _wait_until(channel: socket.socket, deadline: float | None) -> None:
    if deadline is not None:
        channel.settimeout(max(deadline - time.monotonic(), 1e-6))
