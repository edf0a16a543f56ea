"""One episode's interpreter: runs code in the sandbox, and can be rebuilt from what it was told.

It keeps each piece of code with the replies that its calls got. A copy, a pickle, or one whose
process ended, runs these pieces again with the same replies before it goes on, so that variables
are as they were and the world sees no call twice.
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest.wire import receive, send
from agent_envs.appworld.sandbox import SandboxError, Warden, warden

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    Reply = dict[str, Any]
    Answer = Callable[[str, str, dict[str, Any]], Reply]

NO_CODE = "No code available to execute."
TIMED_OUT = (
    "Execution failed. Traceback:\nException: Execution timed out after {:g} seconds.\n"
    "Its variables are lost, those of the code before it are kept."
)
DIED = (
    "Execution failed. Traceback:\nException: The interpreter ended while the code ran ({}).\n"
    "Its variables are lost, those of the code before it are kept."
)
TOO_LONG = 'Response status code is 413:\n{"message": "The response is too long; ask for less."}'
MALFORMED = "it sent what is no call"
_TRIES = 2
_KEY = 32  # characters of a key; an interpreter may send anything


class _Ended(Exception):
    """The process is gone; `outside` when neither its code nor a limit explains the signal."""

    def __init__(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.outside = code in (-signal.SIGKILL, -signal.SIGTERM)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        super().__init__(how)


class _NonsenseError(Exception):
    """What the process sent is neither a call nor an output."""


class Interpreter:
    """Runs the code of one episode in a process of its own, which starts when first needed.

    Args:
        now: the time that its clocks show, in ISO form.
        seed: of its random numbers.
        timeout: seconds that one piece of code may take, calls included.
        sandbox: see `sandbox.warden`.

    Attributes:
        journal: The code that ran, each with the replies that its calls got.
        key: Key of all that later code can find; equal for equal variables.
    """

    def __init__(self, now: str, seed: str, *, timeout: float, sandbox: str = "strict") -> None:
        self.opening = {"now": now, "seed": seed}
        self.timeout = timeout
        self.sandbox = sandbox
        self.journal: list[tuple[str, list[Reply]]] = []
        self.key = ""
        self._variables: str | None = ""
        self._process: _Process | None = None

    def execute(self, code: str, answer: Answer) -> str:
        """What running `code` prints; `answer` replies to its calls.

        A process killed from outside is the machine's fault: the code runs once more, with the
        replies that it had. If it is killed again, or ends in any other way, that is the code's.

        Raises:
            SandboxError: No interpreter can be had, or what ran before cannot be run again.
        """
        if not code.strip():
            return NO_CODE
        replies: list[Reply] = []
        for tried in range(1, _TRIES + 1):
            try:
                output = self._run(code, answer, replies)
            except TimeoutError:
                self.close()
                return TIMED_OUT.format(self.timeout)
            except _Ended as ended:
                if ended.outside and tried < _TRIES:
                    continue
                return DIED.format(ended)
            except _NonsenseError:
                self.close()
                return DIED.format(MALFORMED)
            except BaseException:
                self.close()
                raise
            self.journal.append((code, replies))
            self.key = self._key(code, replies)
            return output
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the process; the next `execute` makes another that knows the same."""
        if self._process is not None and self._process.owner == os.getpid():
            self._process.end()
        self._process = None

    def _key(self, code: str, replies: list[Reply]) -> str:
        """The key after code that ran: that of the variables.

        Where they cannot be read it is made of the key before, the code and its replies.
        """
        if self._variables is not None:
            return self._variables
        text = repr((self.key, code, replies)).encode("utf-8", "backslashreplace")
        return blake2b(text, digest_size=16).hexdigest()

    def _run(self, code: str, answer: Answer, replies: list[Reply]) -> str:
        if self._process is None or self._process.owner != os.getpid():
            self._process = self._rebuilt()
        return self._converse(self._process, code, answer, replies)

    def _rebuilt(self) -> _Process:
        """A new process in which all code so far has run."""
        process = self._new()
        for code, replies in self.journal:
            try:
                self._converse(process, code, _nothing_new, list(replies))
            except (_Ended, _NonsenseError, TimeoutError) as error:
                process.end()
                raise SandboxError(
                    f"code that ran before did not run again: {error!r}; the machine may be short "
                    "of memory or time"
                ) from error
        return process

    def _new(self) -> _Process:
        try:
            return _Process(warden(self.sandbox), self.opening)
        except SandboxError:  # once more, with another warden if it was this one's end
            return _Process(warden(self.sandbox), self.opening)

    def _converse(self, process: _Process, code: str, answer: Answer, replies: list[Reply]) -> str:
        """Run `code`; its first calls get `replies`, further ones `answer`, which joins them."""
        deadline, done = time.monotonic() + self.timeout, 0
        told: dict[str, Any] = {"code": code}
        while True:
            message = self._exchange(process, told, deadline)
            if isinstance(message, str):
                return message
            if done == len(replies):
                replies.append(answer(*message))
            told = replies[done]
            done += 1

    def _exchange(
        self, process: _Process, told: dict[str, Any], deadline: float
    ) -> str | tuple[str, str, dict[str, Any]]:
        """What the process says next: its output, or a call."""
        try:
            _tell(process.channel, told, deadline)
            message = receive(process.channel, deadline)
        except ValueError as error:
            raise _NonsenseError from error
        except (EOFError, ConnectionError) as error:
            if self._process is process:
                self._process = None
            raise _Ended(process.end()) from error
        try:
            if "output" in message:
                key = message["variables"]
                self._variables = None if key is None else str(key)[:_KEY]
                return str(message["output"])
            app, api, given = message["call"]
            return str(app), str(api), dict(given)
        except (KeyError, TypeError, ValueError) as error:
            raise _NonsenseError from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None, "journal": list(self.journal)}


class _Process:
    """An interpreter that runs; it ends with this object at the latest.

    Attributes:
        owner: The process that started it; one forked from that must not speak to it.
    """

    def __init__(self, by: Warden, opening: dict[str, str]) -> None:
        self._warden, self.owner = by, os.getpid()
        self.channel, self.number = by.start()
        self._finalizer = weakref.finalize(self, _hang_up, self.channel)
        send(self.channel, opening)

    def end(self) -> int:
        """End it: its wait status."""
        self._finalizer()
        return self._warden.end(self.number)


def _tell(channel: socket.socket, told: dict[str, Any], deadline: float) -> None:
    try:
        send(channel, told, deadline)
    except ValueError:
        send(channel, {"error": TOO_LONG}, deadline)


def _hang_up(channel: socket.socket) -> None:
    channel.close()


def _nothing_new(app: str, api: str, _: dict[str, Any]) -> Reply:
    raise SandboxError(f"code that ran before now calls apis.{app}.{api}, which it did not then")
