"""The real benchmark's backend: a client of `appworld serve environment`, a separate process.

The benchmark has its own virtual environment; nothing of it is imported here. It serves one world
per process and its memory grows with each task, so a process of ours is replaced after some tasks,
and whenever it fails.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from hashlib import blake2b
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from agent_envs.appworld.interpreter import DIED, TIMED_OUT
from agent_envs.appworld.session import Opened, Verdict
from agent_envs.assets import MissingAsset, expand_path
from agent_envs.net.web import check_url
from agent_envs.panels import one_of

SPLITS = ("train", "train_easy", "dev", "test_normal", "test_challenge")
_EASY = """
07b42fd 229360a 27e1026 287e338 692c77d 82e2fac aa8502b b7a9ee9 c901732 ccb4494 ce359b5 e7a10f8
e85d92a e3d6c94 d0b1f43 2a163ab 60d0b5b 6ea6792 29caf6f cf6abd2 771d8fc 7d7fbf6 76f2c72 302c169
"""
EASY = frozenset(_EASY.split())
"""Scenarios of `train` that LOOP and MGR train on, those of difficulty 1 and 2 (MGR, app. A.5)."""
GRACE = 60.0  # seconds that a server may take in addition to the timeout of the code
LARGEST = 4_000_000  # bytes of an answer; the output of code can be of any length
_OK, _SERVER_ERROR = 200, 500
_FAILED = re.compile(r"^Execution failed\. Traceback:", re.MULTILINE)
_TOO_LONG = f"Execution failed. Traceback:\nException: The output is longer than {LARGEST} bytes."
SETUP = """\
python3.11 -m venv {venv}
{venv}/bin/pip install appworld
{venv}/bin/appworld install
APPWORLD_ROOT={root} {venv}/bin/appworld download data"""
"""Commands that make the benchmark's own environment and get its data."""
COMMAND = "{venv}/bin/python -m uvicorn appworld.serve.environment:app --host 127.0.0.1 --port"
"""The command of its server without the port. `appworld serve` would listen on all addresses."""
TASKS = 50  # tasks that a process opens before it is replaced
STARTING = 120.0  # seconds that it may take to listen
_LAST = 2000  # characters of its log in error messages
# Runs the command, and ends it when the training process ends for any reason.
_KEEPER = """
import os, signal, subprocess, sys, threading
def watch():
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL))
"""


_FAULTS = (
    ("timeout", re.compile("timed out after|Maximum number of executions")),
    ("unknown", re.compile("No app named|No API named")),
    ("refused", re.compile(r"Response status code is 4\d\d")),
)


def classify_failure(text: str) -> str:
    """The `info["invalid_reason"]` of the text of a failure; "" if it is none of a call."""
    return next((fault for fault, sign in _FAULTS if sign.search(text)), "")


class BackendError(RuntimeError):
    """The machine failed, not the agent: a server ended, hangs, or answers nonsense."""


class _FailedError(Exception):
    """One try failed: no connection, no answer in time, or a server error."""


class _NoAnswerError(_FailedError):
    """The connection ended without an answer, or the answer is late."""

    def __init__(self, message: str, *, late: bool) -> None:
        super().__init__(message)
        self.late = late


class HttpWorld:
    """The task of a server, which has one world at a time.

    If a server hangs, ends or fails, it is replaced, the task is opened again and the code so far
    is run again before the call is repeated; if that fails, too, BackendError is raised. Code at
    which a server hangs, or two servers end, fails instead.

    Args:
        server: Its address, or a command with {port} that starts one (`OwnServer`).
        data: The folder with `data/datasets/<split>.txt`; "auto" is `$APPWORLD_ROOT`.
        timeout: Time limit of one execution on the server, in seconds.

    Raises:
        ValueError: An invalid address.
        MissingAsset: "auto" without `$APPWORLD_ROOT`.
    """

    def __init__(
        self, server: str, *, data: str | os.PathLike[str] = "auto", timeout: float = 100.0
    ) -> None:
        elsewhere = None if "{port}" in server else ExternalServer(server)
        given = os.environ.get("APPWORLD_ROOT") if data == "auto" else data
        if not given:
            raise MissingAsset(
                "AppWorld-v0 plays the public benchmark and no folder with its data is named: set "
                "data= or $APPWORLD_ROOT (`agent-envs assets appworld` prints how to get it), or "
                "use AppWorld-v1, whose tasks are generated"
            )
        self.root = expand_path(given)
        self.server = elsewhere or OwnServer(server, self.root)
        self.timeout = timeout
        self.task_id = ""
        self._tasks = 0
        self._opened_on = 0
        self._history: list[tuple[str, str]] = []

    def list_tasks(self, split: str) -> tuple[str, ...]:
        """The ids that the benchmark lists for a split; "train_easy" is part of "train".

        Raises:
            ValueError: An unknown split.
            MissingAsset: There is no list.
        """
        one_of("split", split, SPLITS)
        path = self.root / "data" / "datasets" / f"{split.removesuffix('_easy')}.txt"
        if not path.is_file():
            raise MissingAsset(
                f"no file {path}; run `appworld download data` in the benchmark's own environment "
                "(`agent-envs assets appworld` prints how) and set data= or $APPWORLD_ROOT to its "
                "folder"
            )
        ids = dict.fromkeys(path.read_text().split())
        return tuple(i for i in ids if split != "train_easy" or i.rpartition("_")[0] in EASY)

    def find_difficulty(self, task_id: str) -> int:
        """1 to 3 as the benchmark's data says, 0 if they do not."""
        path = self.root / "data" / "tasks" / task_id / "ground_truth" / "metadata.json"
        try:
            found = json.loads(path.read_bytes())["difficulty"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0  # the test splits have none
        return found if found in {1, 2, 3} else 0

    def open(self, task_id: str) -> Opened:
        """Start a task on the server.

        Raises:
            BackendError: The server fails.
        """
        if self._tasks == TASKS:
            self.server.renew()
        self._tasks = self._tasks % TASKS + 1
        self.task_id, self._history, self._opened_on = task_id, [], 0
        answer = self._ask("tasks")
        try:
            person = {str(key): str(value) for key, value in answer["supervisor"].items()}
            return Opened(str(answer["instruction"]), person, str(answer["datetime"]))
        except (AttributeError, KeyError, TypeError) as error:
            raise self._make_error(f"told nothing of task {task_id}: {answer!r:.200}") from error

    def execute(self, code: str) -> str:
        """Run `code` on the server and return its output.

        Code at which a server hangs, or at which two servers end, has failed.

        Raises:
            BackendError: The server fails before it runs the code.
        """
        try:
            output = str(self._ask_rebuilt("execute", code=code))
        except _FailedError as first:
            self.server.renew()
            if isinstance(first, _NoAnswerError) and first.late:
                return TIMED_OUT.format(self.timeout)
            ready = False
            try:
                self._ask_rebuilt("task_completed")  # on a new server, with the code so far
                ready = True
                output = str(self._send("execute", code=code))
            except _FailedError as error:
                if not (ready and isinstance(error, _NoAnswerError)):
                    raise self._make_error(f"failed twice: {error}") from error
                self.server.renew()
                return DIED.format(error)
        self._history.append((code, _hash(output)))
        return output

    def find_fault(self, code: str, feedback: str) -> str:
        """Why an execution is invalid: it calls no API, or ended in a failure; "" if it is not."""
        if failed := _FAILED.search(feedback):
            return classify_failure(feedback[failed.start() :]) or "error"
        names = (getattr(node, "id", "") for node in ast.walk(ast.parse(code)))
        return "" if "apis" in names else "format"

    def is_completed(self) -> bool:
        """Whether the agent has ended the task."""
        return self._ask("task_completed") is True

    def is_lost(self) -> bool:
        """Never: a server that cannot be restored raises `BackendError`."""
        return False

    def evaluate(self) -> Verdict:
        """The benchmark's own tests."""
        answer = self._ask("evaluate", suppress_errors=True, report=False)
        try:
            passes, failures = _list_names(answer["passes"]), _list_names(answer["failures"])
            if not failures and answer["success"] is not True:
                failures = ("not all tests ran",)
            return Verdict(passes, failures)
        except (KeyError, TypeError) as error:
            raise self._make_error(f"gave no verdict: {answer!r:.200}") from error

    @property
    def digest(self) -> str:
        """Key of the code so far and its output."""
        return _hash(json.dumps(self._history))

    def close(self) -> None:
        """Close the server's world, and end the server if it is ours."""
        try:
            if self._opened_on == self.server.number:
                with suppress(_FailedError):
                    self._ask_rebuilt("close")
        finally:
            self._opened_on = 0
            self.server.close()

    def _ask(self, path: str, **given: Any) -> Any:
        """The server's answer, with one retry on a new server."""
        try:
            return self._ask_rebuilt(path, **given)
        except _FailedError:
            self.server.renew()
        try:
            return self._ask_rebuilt(path, **given)
        except _FailedError as error:
            raise self._make_error(f"failed twice: {error}") from error

    def _ask_rebuilt(self, path: str, **given: Any) -> Any:
        """The answer of a server, after the task and the code so far were run on it."""
        address, until = self.server.url, time.monotonic() + self.timeout + GRACE
        self._until = until  # also for all code so far, where it runs again
        if self._opened_on != self.server.number:
            # Two servers with the same task would share, and delete, its output folder.
            name = f"agent-envs-{urlsplit(address).port}"
            self._send("initialize", timeout_seconds=math.ceil(self.timeout), experiment_name=name)
            for code, _ in self._history:
                self._send("execute", code=code)
            self._opened_on = self.server.number
        return self._send(path, **given)

    def _send(self, path: str, **given: Any) -> Any:
        parts = urlsplit(self.server.url)
        body = None if path == "tasks" else json.dumps({"task_id": self.task_id, **given})
        where = f"{parts.path}/{path}" + (f"/{quote(self.task_id)}" if body is None else "")
        seconds = max(self._until - time.monotonic(), 1e-6)
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=seconds)
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, where, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read(LARGEST + 1)
        except TimeoutError as error:
            if time.monotonic() < self._until:  # of the caller's signal handler
                raise
            late = f"no answer within {self.timeout + GRACE:g} s"
            raise _NoAnswerError(f"/{path}: {late}", late=True) from error
        except (OSError, HTTPException) as error:
            raise _NoAnswerError(f"/{path}: {error!r}", late=False) from error
        finally:
            connection.close()
        if answer.status >= _SERVER_ERROR:
            raise _FailedError(f"/{path}: HTTP {answer.status}, {data[:300]!r}")
        if answer.status != _OK:
            raise self._make_error(f"refused /{path}: HTTP {answer.status}, {data[:300]!r}")
        if len(data) > LARGEST:
            if path != "execute":
                raise self._make_error(f"sent more than {LARGEST} bytes for /{path}")
            return _TOO_LONG
        try:
            return json.loads(data)["output"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _FailedError(f"/{path}: no output in {data[:300]!r}") from error

    def _make_error(self, what: str) -> BackendError:
        return BackendError(f"the AppWorld server {what}; {self.server.read_log()}")


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _list_names(tests: list[Any]) -> tuple[str, ...]:
    """The names of tests, given as texts or as objects with a requirement."""
    return tuple(str(t["requirement"]) if isinstance(t, dict) else str(t) for t in tests)


class ExternalServer:
    """A server at `url` that is not our own process.

    Raises:
        ValueError: An invalid address.
    """

    def __init__(self, url: str) -> None:
        example, advice = "http://127.0.0.1:8000", "serve it without one, on this machine alone"
        parts = check_url(url, rule="server must be", example=example, advice=advice)
        if parts.scheme != "http":
            raise ValueError(f"server must be like {example!r}, got one of scheme {parts.scheme!r}")
        self.url, self.number = url.rstrip("/"), 1

    def renew(self) -> None:
        """Keep the server; its task must be opened again."""
        self.number += 1

    def read_log(self) -> str:
        """A hint, since its log is not available here."""
        return f"look at the log of {self.url}; `appworld serve environment` starts it again"

    def close(self) -> None:
        """Do nothing: it is not our own process."""


class OwnServer:
    """Our own server process, started when its address is first used; it and its log end with ours.

    Args:
        command: The command with {port} that starts it; it must listen on 127.0.0.1.
        root: The folder with the benchmark's data, its $APPWORLD_ROOT.
    """

    port: int
    log: Path

    def __init__(self, command: str, root: Path) -> None:
        self.command, self.root, self.number = command, root, 1
        self.process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    @property
    def url(self) -> str:
        """The address of the process, which is started if it is not running.

        Raises:
            BackendError: It ends, or does not listen in time; the message has its last lines.
        """
        if self.process is None or self._owner != os.getpid():
            self._start()
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> None:
        program, *arguments = shlex.split(self.command)
        if shutil.which(program) is None:
            raise BackendError(f"`{self.command}` cannot be run: there is no program {program}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        handle, name = tempfile.mkstemp(prefix="appworld-server-", suffix=".log")
        self.log, self._owner = Path(name), os.getpid()
        with os.fdopen(handle, "wb") as log:
            self.process = process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEEPER, program]
                + [given.replace("{port}", str(self.port)) for given in arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "APPWORLD_ROOT": str(self.root)},
            )
        self._end = weakref.finalize(self, _end_process, self._owner, process, self.log)
        until = time.monotonic() + STARTING
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        status, last = process.poll(), self.read_log()
        self.close()
        what = f"did not listen within {STARTING:g} s" if status is None else f"ended ({status})"
        raise BackendError(f"a server of AppWorld {what}; {last}")

    def renew(self) -> None:
        """End the process; the next use of the address starts another."""
        self.close()
        self.number += 1

    def read_log(self) -> str:
        """The last lines of the process."""
        if self.process is None:
            return "it is not running"
        last = self.log.read_text(errors="replace")[-_LAST:].strip()
        return f"its last output: {last or 'nothing'}"

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self._end()
            self.process = None

    def __getstate__(self) -> dict[str, Any]:
        own = {"command": self.command, "root": self.root, "number": self.number + 1}
        return {**own, "process": None, "_owner": 0}


def _end_process(owner: int, process: subprocess.Popen[bytes], log: Path) -> None:
    if owner != os.getpid():  # a fork's copy of the object
        return
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    log.unlink(missing_ok=True)
