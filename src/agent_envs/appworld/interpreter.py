"""One episode's interpreter: runs code in the sandbox, and can be rebuilt from its journal.

The journal has each piece of code with the replies to its calls. A copy, a pickle, or an
interpreter whose process ended, runs these pieces again with the recorded replies before it
continues. So variables are restored, and the world gets no call twice.
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
LOST = (
    "Execution failed. Traceback:\nException: The interpreter ended before, and earlier code could "
    "not be run again ({}).\nThe task has failed."
)
MALFORMED = "it sent what is no call"
_TRIES = 2
_AGAIN = 5  # earlier code may take this many times its time limit when it runs again,
_GRACE = 10.0  # and these seconds: the machine may be busier than before
_KEY = 32  # characters of a key; the interpreter is not trusted to send one


class _Ended(Exception):
    """The process ended; `outside` if neither its code nor a limit explains the signal."""

    def __init__(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.outside = code in (-signal.SIGKILL, -signal.SIGTERM)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        super().__init__(how)


class _NonsenseError(Exception):
    """The process sent neither a call nor an output."""


class _LostError(Exception):
    """Earlier code did not run again; the message has the reason."""


class Interpreter:
    """Runs the code of one episode in its own process, which starts on first use.

    Args:
        now: the time of its clocks, in ISO form.
        seed: seed of its random numbers.
        timeout: time limit of one piece of code in seconds, including its calls.
        sandbox: see `sandbox.warden`.

    Attributes:
        journal: The pieces of code that ran, each with the replies to its calls.
        lost: Whether the episode cannot go on, since earlier code did not run again.
        key: Key of the state that later code can observe; equal for equal variables.
    """

    def __init__(self, now: str, seed: str, *, timeout: float, sandbox: str = "strict") -> None:
        self.opening = {"now": now, "seed": seed}
        self.timeout = timeout
        self.sandbox = sandbox
        self.journal: list[tuple[str, list[Reply]]] = []
        self.key, self.lost = "", False
        self._variables: str | None = ""
        self._process: _Process | None = None

    def execute(self, code: str, answer: Answer) -> str:
        """Run `code` and return its output; `answer` replies to its calls.

        A process that is killed from outside is the machine's fault: the code runs once more, with
        the recorded replies. A second kill, or any other end, is the fault of the code, and so is
        earlier code that ends or hangs an interpreter when it runs again: the episode is `lost`.

        Raises:
            SandboxError: No interpreter can be started.
        """
        if self.lost:
            return LOST.format("see above")
        if not code.strip():
            return NO_CODE
        replies: list[Reply] = []
        for tried in range(1, _TRIES + 1):
            try:
                output = self._run(code, answer, replies)
            except (_Ended, _LostError, _NonsenseError, TimeoutError) as error:
                if isinstance(error, _Ended) and error.outside and tried < _TRIES:
                    continue
                self.close()
                return self._failed(error)
            except BaseException:
                self.close()
                raise
            self.journal.append((code, replies))
            self.key = self._key(code, replies)
            return output
        raise AssertionError("unreachable")

    def _failed(self, error: Exception) -> str:
        """The output of code that ended its process, in one of the ways."""
        if isinstance(error, TimeoutError):
            return TIMED_OUT.format(self.timeout)
        if isinstance(error, _LostError):
            self.lost = True
            return LOST.format(error)
        return DIED.format(error)

    def close(self) -> None:
        """End the process; the next `execute` starts another with the same state."""
        if self._process is not None and self._process.owner == os.getpid():
            self._process.end()
        self._process = None

    def _key(self, code: str, replies: list[Reply]) -> str:
        """The key after an execution: that of the variables.

        If they cannot be read, it is made of the previous key, the code and its replies.
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
        for tried in range(1, _TRIES + 1):
            process = self._new()
            try:
                for code, replies in self.journal:
                    self._converse(process, code, _nothing_new, list(replies), again=True)
            except (_Ended, _NonsenseError, _LostError, TimeoutError) as error:
                process.end()
                if isinstance(error, _Ended) and error.outside and tried < _TRIES:
                    continue
                raise _LostError(str(error) or type(error).__name__) from error
            return process
        raise AssertionError("unreachable")

    def _new(self) -> _Process:
        try:
            return _Process(warden(self.sandbox), self.opening)
        except SandboxError:  # once more; with another warden if this one has ended
            return _Process(warden(self.sandbox), self.opening)

    def _converse(
        self,
        process: _Process,
        code: str,
        answer: Answer,
        replies: list[Reply],
        *,
        again: bool = False,
    ) -> str:
        """Run `code`; its first calls get `replies`, further calls `answer`, which are appended."""
        limit = _AGAIN * self.timeout + _GRACE if again else self.timeout
        deadline, done = time.monotonic() + limit, 0
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
        """The next message of the process: its output, or a call."""
        try:
            _tell(process.channel, told, deadline)
            message = receive(process.channel, deadline)
        except ValueError as error:
            raise _NonsenseError(MALFORMED) from error
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
            raise _NonsenseError(MALFORMED) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None, "journal": list(self.journal)}


class _Process:
    """A running interpreter; it ends with this object at the latest.

    Attributes:
        owner: The process that started it; forks of that must not use it.
    """

    def __init__(self, by: Warden, opening: dict[str, str]) -> None:
        self._warden, self.owner = by, os.getpid()
        self.channel, self.number = by.start()
        self._finalizer = weakref.finalize(self, _hang_up, self.channel)
        try:
            send(self.channel, opening)
        except OSError as error:
            raise SandboxError(f"the interpreter ended as it started: {error}") from error

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
    raise _LostError(f"it now calls apis.{app}.{api}")
