"""The real benchmark's backend: a client of `appworld serve environment`, a separate process.

The benchmark has its own virtual environment; nothing of it is imported here.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from hashlib import blake2b
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from agent_envs.appworld.servers import TASKS, Elsewhere, Own, Server
from agent_envs.appworld.world import BackendError, Judged, Opened
from agent_envs.assets import MissingAsset
from agent_envs.panels import one_of

SPLITS = ("train", "train_easy", "dev", "test_normal", "test_challenge")
_EASY = """
07b42fd 229360a 27e1026 287e338 692c77d 82e2fac aa8502b b7a9ee9 c901732 ccb4494 ce359b5 e7a10f8
e85d92a e3d6c94 d0b1f43 2a163ab 60d0b5b 6ea6792 29caf6f cf6abd2 771d8fc 7d7fbf6 76f2c72 302c169
"""
EASY = frozenset(_EASY.split())
"""Scenarios of `train` that LOOP and MGR train on, those of difficulty 1 and 2 (MGR, app. A.5)."""
GRACE = 60.0  # seconds that a server may take in addition to the timeout of the code
_OK, _SERVER_ERROR = 200, 500


class _FailedError(Exception):
    """One try failed: no connection, no answer in time, or a server error."""


class HttpWorld:
    """The task of a server, which has one world at a time.

    If a server hangs, ends or fails, it is replaced, the task is opened again and the code so far
    is run again before the call is repeated; if that fails, too, BackendError is raised.

    Args:
        server: Its address, or a command with {port} that starts one (`servers.Own`).
        data: The folder with `data/datasets/<split>.txt`; "auto" is `$APPWORLD_ROOT`.
        timeout: Time limit of one execution on the server, in seconds.

    Raises:
        ValueError: An invalid address, or a time that is not above 0.
        MissingAsset: "auto" without `$APPWORLD_ROOT`.
    """

    def __init__(
        self, server: str, *, data: str | os.PathLike[str] = "auto", timeout: float = 100.0
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout, in seconds, must be above 0, got {timeout}")
        elsewhere = None if "{port}" in server else Elsewhere(server)
        given = os.environ.get("APPWORLD_ROOT") if data == "auto" else data
        if not given:
            raise MissingAsset(
                "no folder with the benchmark's data: set data= or $APPWORLD_ROOT; "
                "`agent-envs assets appworld` prints how to get it"
            )
        self.root = Path(given).expanduser().absolute()
        self.server: Server = elsewhere or Own(server, self.root)
        self.timeout = timeout
        self.task_id = ""
        self._tasks = 0
        self._opened_on = 0
        self._told: list[tuple[str, str]] = []

    def task_ids(self, split: str) -> tuple[str, ...]:
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

    def open(self, task_id: str) -> Opened:
        """Start a task on the server.

        Raises:
            BackendError: The server fails.
        """
        if self._tasks == TASKS:
            self.server.renew()
        self._tasks = self._tasks % TASKS + 1
        self.task_id, self._told, self._opened_on = task_id, [], 0
        told = self._ask("tasks")
        try:
            person = {str(key): str(value) for key, value in told["supervisor"].items()}
            return Opened(str(told["instruction"]), person, str(told["datetime"]))
        except (AttributeError, KeyError, TypeError) as error:
            raise self._error(f"told nothing of task {task_id}: {told!r:.200}") from error

    def execute(self, code: str) -> str:
        """Run `code` on the server and return its output.

        Raises:
            BackendError: The server does not answer.
        """
        output = str(self._ask("execute", code=code))
        self._told.append((code, output))
        return output

    def completed(self) -> bool:
        """Whether the agent has ended the task."""
        return self._ask("task_completed") is True

    def lost(self) -> bool:
        """Never: a server that cannot be restored raises `BackendError`."""
        return False

    def evaluate(self) -> Judged:
        """The benchmark's own tests."""
        told = self._ask("evaluate", suppress_errors=True, report=False)
        try:
            passes, failures = _names(told["passes"]), _names(told["failures"])
            if not failures and told["success"] is not True:
                failures = ("not all tests ran",)
            return Judged(passes, failures)
        except (KeyError, TypeError) as error:
            raise self._error(f"gave no verdict: {told!r:.200}") from error

    def harm(self) -> tuple[str, ...]:
        """Always (): the server does not report it."""
        return ()

    def digest(self) -> str:
        """Key of the code so far and its output."""
        return blake2b(json.dumps(self._told).encode(), digest_size=16).hexdigest()

    def close(self) -> None:
        """Close the server's world, and end the server if it is ours."""
        try:
            if self._opened_on == self.server.number:
                with suppress(_FailedError):
                    self._try("close")
        finally:
            self._opened_on = 0
            self.server.close()

    def _ask(self, path: str, **given: Any) -> Any:
        """The server's answer, with one retry on a new server."""
        try:
            return self._told_all(path, **given)
        except _FailedError:
            self.server.renew()
        try:
            return self._told_all(path, **given)
        except _FailedError as error:
            raise self._error(f"failed twice: {error}") from error

    def _told_all(self, path: str, **given: Any) -> Any:
        """The answer of a server, after the task and the code so far were run on it."""
        if self._opened_on != self.server.number:
            # Two servers with the same task would share, and delete, its output folder.
            name = f"agent-envs-{urlsplit(self.server.url).port}"
            seconds = math.ceil(self.timeout)
            self._try("initialize", timeout_seconds=seconds, experiment_name=name)
            for code, _ in self._told:
                self._try("execute", code=code)
            self._opened_on = self.server.number
        return self._try(path, **given)

    def _try(self, path: str, **given: Any) -> Any:
        parts = urlsplit(self.server.url)
        body = None if path == "tasks" else json.dumps({"task_id": self.task_id, **given})
        where = f"{parts.path}/{path}" + (f"/{quote(self.task_id)}" if body is None else "")
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=self.timeout + GRACE)
        try:
            connection.request(
                "GET" if body is None else "POST",
                where,
                body,
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, HTTPException) as error:
            raise _FailedError(f"/{path}: {error!r}") from error
        finally:
            connection.close()
        if answer.status >= _SERVER_ERROR:
            raise _FailedError(f"/{path}: HTTP {answer.status}, {data[:300]!r}")
        if answer.status != _OK:
            raise self._error(f"refused /{path}: HTTP {answer.status}, {data[:300]!r}")
        try:
            return json.loads(data)["output"]
        except (ValueError, KeyError, TypeError) as error:
            raise _FailedError(f"/{path}: no output in {data[:300]!r}") from error

    def _error(self, what: str) -> BackendError:
        return BackendError(f"the AppWorld server {what}; {self.server.log()}")


def _names(tests: list[Any]) -> tuple[str, ...]:
    """The names of tests, given as texts or as objects with a requirement."""
    return tuple(str(t["requirement"]) if isinstance(t, dict) else str(t) for t in tests)
