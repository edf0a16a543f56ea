"""One episode's interpreter: runs code in the sandbox, and can be rebuilt from its journal.

The journal has each piece of code with the replies to its calls. A copy, a pickle, or an
interpreter whose process ended, runs these pieces again with the recorded replies before it
continues. So variables are restored, and the world gets no call twice.

The process is not trusted. It is stopped between turns. An answer counts only if it returns the
token of the question, which did not exist before; bytes that are there when none are due end it.
What its code costs this process is counted in an `Account`, and what is too much fails the agent.
"""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agent_envs.appworld.guest.ends import End
from agent_envs.appworld.guest.wire import (
    CALL,
    LONGEST,
    TOKEN,
    LateError,
    encode,
    parse,
    receive,
    send,
)
from agent_envs.appworld.sandbox import SandboxError, Warden, start_warden

if TYPE_CHECKING:
    import socket

    Reply = dict[str, Any]
    Answer = Callable[[str, str, dict[str, Any]], Reply]

Value = TypeVar("Value")
NO_CODE = "No code available to execute."
TIMED_OUT = (
    "Execution failed. Traceback:\nException: Execution timed out after {:g} seconds.\n"
    "Its variables are lost, those of the code before it are kept."
)
DIED = (
    "Execution failed. Traceback:\nException: The interpreter ended while the code ran ({}).\n"
    "Its variables are lost, those of the code before it are kept."
)
LOST = (
    "Execution failed. Traceback:\nException: The interpreter ended before, and earlier code could "
    "not be run again ({}).\nThe task has failed."
)
TOO_LONG = 'Response status code is 413:\n{"message": "The response is too long; ask for less."}'
KEPT = 16 * 2**20  # bytes of an episode's code, calls and replies
_CALLS = 2000  # calls of one turn; a session answers fewer
_MALFORMED = "it sent what is no call"
_NOT_DUE = "it sent a message that was not asked for"
_STARTING = 60.0  # seconds that a process may take to start
_GRACE = 2.0  # seconds by which a step may exceed its time limit if earlier code runs again
_KEY = 32  # characters of a key; the interpreter is not trusted to send one


class EndedError(Exception):
    """The process ended or sent nonsense; the message has the reason.

    Attributes:
        outside: Whether a signal from outside ended it, which is the machine's fault.
    """

    def __init__(self, reason: End | str) -> None:
        super().__init__(str(reason))
        self.outside = isinstance(reason, End) and reason.outside


class _LostError(Exception):
    """Earlier code did not run again; the message has the reason."""


@dataclass
class Account:
    """What the code of an episode may still cost this process.

    Attributes:
        kept: Bytes of code, calls and replies, which stay in the journal or in the world.
        seconds: Seconds that code may run in this step, also earlier code that runs again.
    """

    kept: int = KEPT
    seconds: float = 0.0

    def keep(self, size: int) -> None:
        """Take bytes from the account.

        Raises:
            EndedError: It has not so many.
        """
        self.kept -= size
        if self.kept < 0:
            most = f"{KEPT >> 20} MiB of code, calls and replies"
            raise EndedError(f"the episode has used its {most}")


class _Result(NamedTuple):
    """What the process sends at the end of a piece of code; nothing of this is to be trusted.

    Attributes:
        output: The text that it printed, and its failure.
        failed: Whether it failed.
        variables: The key of the variables; None if they cannot be read.
        meddles: Whether the process said, before the code ran, that it might change the process.
    """

    output: str
    failed: bool
    variables: str | None
    meddles: bool


class Interpreter:
    """Runs the code of one episode in its own process, which starts on first use.

    Args:
        now: the time of its clocks, in ISO form.
        seed: seed of its random numbers.
        timeout: time limit of one piece of code in seconds, including its calls.
        sandbox: see `sandbox.start_warden`.

    Attributes:
        journal: The pieces of code that ran, each with the replies to its calls, as JSON.
        account: What further code may cost.
        lost: Whether the episode cannot go on, since earlier code did not run again.
        failure: How the last code failed, "error" or "timeout"; "" if it did not.
        key: Key of the state that later code can observe; equal for equal variables.
    """

    def __init__(self, now: str, seed: str, *, timeout: float, sandbox: str = "strict") -> None:
        self.opening = {"now": now, "seed": seed}
        self.timeout = timeout
        self.sandbox = sandbox
        self.journal: list[tuple[str, list[bytes]]] = []
        self.account = Account()
        self.key, self.lost, self.failure = "", False, ""
        self._meddled = False  # no key of variables is believed from then on
        self._process: Process | None = None

    def execute(self, code: str, answer: Answer) -> str:
        """Run `code` and return its output; `answer` replies to its calls.

        Code that takes longer than `timeout` is ended, and so is earlier code that runs again and
        takes `_GRACE` longer than that. A process that is killed from outside is the machine's
        fault: the code runs once more, with the recorded replies. A second kill, or any other end,
        is the fault of the code, and so is earlier code that ends or hangs an interpreter when it
        runs again: the episode is `lost`.

        Raises:
            SandboxError: No interpreter can be started.
        """
        self.failure = "error" if code.strip() else ""
        if self.lost:
            return LOST.format("see above")
        if not code.strip():
            return NO_CODE
        replies: list[bytes] = []
        self.account.seconds = self.timeout + _GRACE
        try:
            self.account.keep(len(code))
            result = self._try_twice(lambda: self._run(code, answer, replies))
        except LateError:
            self.failure = "timeout"
            return TIMED_OUT.format(self.timeout)
        except EndedError as error:
            return DIED.format(error)
        except _LostError as error:
            self.lost = True
            return LOST.format(error)
        self.journal.append((code, replies))
        self._meddled |= result.meddles
        self.key = self._make_key(code, replies, result)
        self.failure = "error" if result.failed else ""
        return result.output

    def close(self) -> None:
        """End the process; the next `execute` starts another with the same state."""
        if self._process is not None and self._process.owner == os.getpid():
            self._process.end()
        self._process = None

    def _try_twice(self, work: Callable[[], Value]) -> Value:
        """Do some work, again if a signal from outside ended the process; failures end it."""
        again = False
        while True:
            try:
                return work()
            except BaseException as error:
                self.close()
                if again or not (isinstance(error, EndedError) and error.outside):
                    raise
                again = True

    def _make_key(self, code: str, replies: list[bytes], result: _Result) -> str:
        """The key after an execution: that of the variables.

        If they cannot be read, or code might have changed the process that reads them, it is made
        of the previous key, the code and its replies.
        """
        if result.variables is not None and not self._meddled:
            return result.variables
        text = repr((self.key, code, replies)).encode("utf-8", "backslashreplace")
        return blake2b(text, digest_size=16).hexdigest()

    def _run(self, code: str, answer: Answer, replies: list[bytes]) -> _Result:
        process = self._process
        if process is None or process.owner != os.getpid():
            try:
                process = self._try_twice(self._rebuild)
            except (EndedError, LateError) as error:
                raise _LostError(str(error)) from error
        return self._converse(process, code, answer, replies, self.timeout)

    def _rebuild(self) -> Process:
        """A new process in which all code so far has run."""
        try:
            process = Process(start_warden(self.sandbox), self.opening)
        except SandboxError:  # once more; with another warden if this one has ended
            process = Process(start_warden(self.sandbox), self.opening)
        self._process = process
        for code, replies in self.journal:
            self._converse(process, code, _refuse_call, list(replies), self.account.seconds)
        return process

    def _converse(
        self, process: Process, code: str, answer: Answer, replies: list[bytes], seconds: float
    ) -> _Result:
        """Run `code`; its first calls get `replies`, further calls `answer`, which are appended.

        The process runs only here, for at most so many seconds.
        """
        began, done, meddles = time.monotonic(), 0, False
        deadline = began + min(seconds, self.account.seconds)
        body = encode({"code": code}, LONGEST)
        process.wake()
        try:
            while True:
                message = process.ask(body, deadline)
                sent = _read_message(message)
                if isinstance(sent, _Result):
                    process.rest()
                    return sent._replace(meddles=meddles)
                if sent is None:
                    meddles, body = True, b"{}"
                    continue
                if done == len(replies):
                    self.account.keep(len(message))
                    replies.append(_encode_reply(answer(*sent)))
                    self.account.keep(len(replies[-1]))
                body = replies[done]
                done += 1
                if done > _CALLS:
                    raise EndedError(f"it made more than {_CALLS} calls")
        finally:
            self.account.seconds -= time.monotonic() - began

    def __getstate__(self) -> dict[str, Any]:
        own = {"_process": None, "journal": list(self.journal), "account": replace(self.account)}
        return {**self.__dict__, **own}


def _encode_reply(reply: Reply) -> bytes:
    try:
        return encode(reply, LONGEST)
    except ValueError:
        return encode({"error": TOO_LONG}, LONGEST)


def _read_message(body: bytes) -> _Result | tuple[str, str, dict[str, Any]] | None:
    """A message of the process: its result, a call, or None if it says that the code meddles.

    Raises:
        EndedError: It is none of these.
    """
    try:
        message = parse(body)
        if "output" in message:
            key = message["variables"]
            known = None if key is None else str(key)[:_KEY]
            failed = bool(message.get("failed"))
            return _Result(str(message["output"]), failed, known, meddles=False)
        if "meddles" in message:
            return None
        app, api, given = message["call"]
        return str(app), str(api), dict(given)
    except (KeyError, TypeError, ValueError) as error:
        raise EndedError(_MALFORMED) from error


def _refuse_call(app: str, api: str, _: dict[str, Any]) -> Reply:
    raise EndedError(f"it now calls apis.{app}.{api}")


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
            answer = parse(self._receive_answer(bytes(TOKEN), time.monotonic() + _STARTING))
        except (EndedError, LateError) as error:
            self.end()
            when = "as it started, before any code ran"
            raise SandboxError(f"an interpreter ended {when} ({error})") from error
        if "refused" in answer:
            self.end()
            raise SandboxError(
                f"this machine refused an interpreter its limits: {answer['refused']}"
            )

    def ask(self, body: bytes, deadline: float) -> bytes:
        """Send the JSON of a message: that of its answer, before a time on the monotonic clock.

        Raises:
            EndedError: It ended, or sent something else.
            LateError: It is late.
        """
        token = secrets.token_bytes(TOKEN)
        try:
            send(self.channel, body, token, deadline)
        except ConnectionError as error:
            raise EndedError(self.end()) from error
        return self._receive_answer(token, deadline)

    def _receive_answer(self, token: bytes, deadline: float) -> bytes:
        try:
            returned, body = receive(self.channel, CALL, deadline)
        except ValueError as error:
            raise EndedError(_MALFORMED) from error
        except EOFError as error:
            raise EndedError(self.end()) from error
        if returned != token:
            raise EndedError(_NOT_DUE)
        return body

    def wake(self) -> None:
        """Let it run, if it rests; if it ended, `ask` raises."""
        if self._rests:
            self._warden.wake(self.number)
            self._rests = False

    def rest(self) -> None:
        """Stop it until `wake`.

        Raises:
            EndedError: It ended after its last answer, or sent more.
        """
        ended = self._warden.rest(self.number)
        if ended is not None:
            self._finish(ended)
            raise EndedError(ended)
        self._rests = True
        self.channel.settimeout(0)
        try:
            self.channel.recv(1)  # also the end of the connection: the process is there
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        raise EndedError(_NOT_DUE)

    def end(self) -> End:
        """End it: how it ended, also if it had already ended."""
        if self._finalizer.alive:
            self._finish(self._warden.end(self.number))
        return self._end

    def _finish(self, end: End) -> None:
        """Note its end, once: its number can become another's."""
        self._finalizer.detach()
        self._end = end
        self.channel.close()


def _forget(owner: int, by: Warden, channel: socket.socket, number: int) -> None:
    channel.close()
    if owner == os.getpid():  # not a fork's copy of the object
        by.forget(number)
