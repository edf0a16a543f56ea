"""A running interpreter: the world asks it and gets one answer; between turns it is stopped.

The interpreter is not trusted. An answer counts only if it returns the token of the question, which
did not exist before; bytes that are there when none are due end the interpreter.
"""

from __future__ import annotations

import os
import secrets
import time
import weakref
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest.ends import End
from agent_envs.appworld.guest.wire import TOKEN, parsed, receive, send
from agent_envs.appworld.sandbox import SandboxError, Warden

if TYPE_CHECKING:
    import socket

TOO_LONG = 'Response status code is 413:\n{"message": "The response is too long; ask for less."}'
_MALFORMED = "it sent what is no call"
_NOT_DUE = "it sent a message that was not asked for"
_STARTING = 60.0  # seconds that an interpreter may take to start


class EndedError(Exception):
    """The process ended."""

    def __init__(self, end: End) -> None:
        super().__init__(str(end))
        self.outside = end.outside


class NonsenseError(Exception):
    """The process sent no answer, or an answer to nothing."""

    def __init__(self, why: str = _MALFORMED) -> None:
        super().__init__(why)


class Process:
    """A running interpreter; it ends with this object at the latest.

    Args:
        by: the warden that forks it.
        opening: its time and seed.

    Attributes:
        owner: The process that started it; forks of that must not use it.

    Raises:
        SandboxError: It does not start.
    """

    def __init__(self, by: Warden, opening: dict[str, str]) -> None:
        self._warden, self.owner = by, os.getpid()
        self._rests, self._end = False, End(0)
        self.channel, self.number = by.start(opening)
        self._finalizer = weakref.finalize(self, _forget, self.owner, by, self.channel, self.number)
        try:
            told = self._answer(bytes(TOKEN), time.monotonic() + _STARTING)
        except (EndedError, NonsenseError, TimeoutError) as error:
            self.end()
            raise SandboxError(
                f"an interpreter ended as it started, before any code ran ({error})"
            ) from error
        if "refused" in told:
            self.end()
            raise SandboxError(f"this machine refused an interpreter its limits: {told['refused']}")

    def ask(self, told: dict[str, Any], deadline: float) -> Any:
        """Tell the process something: its answer, before a time on the monotonic clock.

        Raises:
            EndedError: It ended.
            NonsenseError: It sent something else.
            TimeoutError: It is late.
        """
        token = secrets.token_bytes(TOKEN)
        try:
            _tell(self.channel, told, token, deadline)
        except ConnectionError as error:
            raise EndedError(self.end()) from error
        return self._answer(token, deadline)

    def _answer(self, token: bytes, deadline: float) -> Any:
        try:
            returned, body = receive(self.channel, deadline)
            if returned != token:
                raise NonsenseError(_NOT_DUE)
            return parsed(body)
        except ValueError as error:
            raise NonsenseError from error
        except EOFError as error:
            raise EndedError(self.end()) from error

    def wake(self) -> None:
        """Let it run, if it rests; if it ended, `ask` raises."""
        if self._rests:
            self._warden.wake(self.number)
            self._rests = False

    def rest(self) -> None:
        """Stop it until `wake`.

        Raises:
            EndedError: It ended after its last answer.
            NonsenseError: It sent more.
        """
        if not self._warden.rest(self.number):
            raise EndedError(self.end())
        self._rests = True
        self.channel.settimeout(0)
        try:
            self.channel.recv(1)  # also the end of the connection: the process is there
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        raise NonsenseError(_NOT_DUE)

    def end(self) -> End:
        """End it: how it ended, also if it had already ended."""
        if self._finalizer.detach() is not None:  # once: its number can become another's
            self._end = self._warden.end(self.number)
            self.channel.close()
        return self._end


def _tell(channel: socket.socket, told: dict[str, Any], token: bytes, deadline: float) -> None:
    try:
        send(channel, told, token, deadline)
    except ValueError:
        send(channel, {"error": TOO_LONG}, token, deadline)


def _forget(owner: int, by: Warden, channel: socket.socket, number: int) -> None:
    channel.close()
    if owner == os.getpid():  # not a fork's copy of the object
        by.forget(number)
