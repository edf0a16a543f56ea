"""One episode's interpreter: runs code in the sandbox, and can be rebuilt from its journal.

The journal has each piece of code with the replies to its calls. A copy, a pickle, or an
interpreter whose process ended, runs these pieces again with the recorded replies before it
continues. So variables are restored, and the world gets no call twice.
"""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.appworld.process import EndedError, NonsenseError, Process
from agent_envs.appworld.sandbox import SandboxError, warden

if TYPE_CHECKING:
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
LOST = (
    "Execution failed. Traceback:\nException: The interpreter ended before, and earlier code could "
    "not be run again ({}).\nThe task has failed."
)
_TRIES = 2
_AGAIN = 5  # earlier code may take this many times its time limit when it runs again,
_GRACE = 10.0  # and these seconds: the machine may be busier than before
_KEY = 32  # characters of a key; the interpreter is not trusted to send one


class _LostError(Exception):
    """Earlier code did not run again; the message has the reason."""


class _Result(NamedTuple):
    """What the process tells at the end of a piece of code; nothing of this is to be trusted.

    Attributes:
        output: The text that it printed, and its failure.
        variables: The key of the variables; None if they cannot be read.
        meddles: Whether the process said, before the code ran, that it might change the process.
    """

    output: str
    variables: str | None
    meddles: bool


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
        self._meddled = False  # no key of variables is believed from then on
        self._process: Process | None = None

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
                result = self._run(code, answer, replies)
            except (EndedError, NonsenseError, _LostError, TimeoutError) as error:
                self.close()
                if isinstance(error, EndedError) and error.outside and tried < _TRIES:
                    continue
                return self._failed(error)
            except BaseException:
                self.close()
                raise
            self.journal.append((code, replies))
            self._meddled |= result.meddles
            self.key = self._key(code, replies, result)
            return result.output
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

    def _key(self, code: str, replies: list[Reply], result: _Result) -> str:
        """The key after an execution: that of the variables.

        If they cannot be read, or code might have changed the process that reads them, it is made
        of the previous key, the code and its replies.
        """
        if result.variables is not None and not self._meddled:
            return result.variables
        text = repr((self.key, code, replies)).encode("utf-8", "backslashreplace")
        return blake2b(text, digest_size=16).hexdigest()

    def _run(self, code: str, answer: Answer, replies: list[Reply]) -> _Result:
        if self._process is None or self._process.owner != os.getpid():
            self._process = self._rebuilt()
        return self._converse(self._process, code, answer, replies)

    def _rebuilt(self) -> Process:
        """A new process in which all code so far has run."""
        for tried in range(1, _TRIES + 1):
            process = self._new()
            try:
                for code, replies in self.journal:
                    self._converse(process, code, _nothing_new, list(replies), again=True)
            except (EndedError, NonsenseError, _LostError, TimeoutError) as error:
                process.end()
                if isinstance(error, EndedError) and error.outside and tried < _TRIES:
                    continue
                raise _LostError(str(error) or type(error).__name__) from error
            return process
        raise AssertionError("unreachable")

    def _new(self) -> Process:
        try:
            return Process(warden(self.sandbox), self.opening)
        except SandboxError:  # once more; with another warden if this one has ended
            return Process(warden(self.sandbox), self.opening)

    def _converse(
        self,
        process: Process,
        code: str,
        answer: Answer,
        replies: list[Reply],
        *,
        again: bool = False,
    ) -> _Result:
        """Run `code`; its first calls get `replies`, further calls `answer`, which are appended.

        The process runs only here.
        """
        limit = _AGAIN * self.timeout + _GRACE if again else self.timeout
        deadline, done, meddles = time.monotonic() + limit, 0, False
        told: dict[str, Any] = {"code": code}
        process.wake()
        while True:
            message = _read(process.ask(told, deadline))
            if isinstance(message, _Result):
                process.rest()
                return message._replace(meddles=meddles)
            if message is None:
                meddles, told = True, {}
                continue
            if done == len(replies):
                replies.append(answer(*message))
            told = replies[done]
            done += 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None, "journal": list(self.journal)}


def _read(message: Any) -> _Result | tuple[str, str, dict[str, Any]] | None:
    """A message of the process: its result, a call, or None if it says that the code meddles.

    Raises:
        NonsenseError: It is none of these.
    """
    try:
        if "output" in message:
            key = message["variables"]
            known = None if key is None else str(key)[:_KEY]
            return _Result(str(message["output"]), known, meddles=False)
        if "meddles" in message:
            return None
        app, api, given = message["call"]
        return str(app), str(api), dict(given)
    except (KeyError, TypeError, ValueError) as error:
        raise NonsenseError from error


def _nothing_new(app: str, api: str, _: dict[str, Any]) -> Reply:
    raise _LostError(f"it now calls apis.{app}.{api}")
