"""Servers of the real benchmark: one at a known address, or our own process for each world.

The benchmark serves one world per process and its memory grows with each task, so a process is
replaced after some tasks, and whenever it fails.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from agent_envs.appworld.world import BackendError

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


class Server(Protocol):
    """The server of a world; `number` changes with each `renew`."""

    number: int

    @property
    def url(self) -> str:
        """Its address.

        Raises:
            BackendError: It does not start.
        """
        ...

    def renew(self) -> None:
        """Replace it, if it is our own process."""
        ...

    def log(self) -> str:
        """Its last output."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Elsewhere:
    """A server at `url` that is not our own process.

    Raises:
        ValueError: An invalid address.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"server must be like 'http://127.0.0.1:8000', got {url!r}")
        self.url, self.number = url.rstrip("/"), 1

    def renew(self) -> None:
        """Keep the server; its task must be opened again."""
        self.number += 1

    def log(self) -> str:
        """A hint, since its log is not available here."""
        return f"look at the log of {self.url}; `appworld serve environment` starts it again"

    def close(self) -> None:
        """Do nothing: it is not our own process."""


class Own:
    """Our own server process, started when its address is first used.

    Args:
        command: The command with {port} that starts it; it must listen on 127.0.0.1.
        root: The folder with the benchmark's data, its $APPWORLD_ROOT.

    Raises:
        ValueError: There is no {port} in the command.
    """

    def __init__(self, command: str, root: Path) -> None:
        if "{port}" not in command:
            raise ValueError(
                "a server's command needs {port}, like '/venv/bin/appworld serve environment "
                f"--port {{port}}', got {command!r}"
            )
        self.command, self.root, self.number = command, root, 1
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """The address of the process, which is started if it is not running.

        Raises:
            BackendError: It ends, or does not listen in time; the message has its last lines.
        """
        if self._running is None or self._running.owner != os.getpid():
            self._running = _Running(self.command, self.root)
            self._running.wait()
        return f"http://127.0.0.1:{self._running.port}"

    def renew(self) -> None:
        """End the process; the next use of the address starts another."""
        self.close()
        self.number += 1

    def log(self) -> str:
        """The last lines of the process."""
        return f"its last output: {self._running.said()}" if self._running else "it is not running"

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None, "number": self.number + 1}


class _Running:
    """A process and its log; both end with this object, and the process also with ours."""

    def __init__(self, command: str, root: Path) -> None:
        program, *arguments = shlex.split(command)
        if shutil.which(program) is None:
            raise BackendError(f"`{command}` cannot be run: there is no program {program}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.owner = os.getpid()
        handle, name = tempfile.mkstemp(prefix="appworld-server-", suffix=".log")
        self._log = Path(name)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEEPER, program]
                + [given.replace("{port}", str(self.port)) for given in arguments],
                stdin=subprocess.PIPE,
                stdout=handle,
                stderr=handle,
                start_new_session=True,
                env={**os.environ, "APPWORLD_ROOT": str(root)},
            )
        except OSError as error:
            self._log.unlink()
            raise BackendError(f"no process for `{command}`: {error}") from error
        finally:
            os.close(handle)
        self.end = weakref.finalize(self, _end, self.owner, self.process, self._log)

    def wait(self) -> None:
        """Wait until it listens."""
        until = time.monotonic() + STARTING
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        status, said = self.process.poll(), self.said()
        self.end()
        what = f"did not listen within {STARTING:g} s" if status is None else f"ended ({status})"
        raise BackendError(f"a server of AppWorld {what}; its last output: {said}")

    def said(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-_LAST:].strip() or "nothing"


def _end(owner: int, process: subprocess.Popen[bytes], log: Path) -> None:
    if owner != os.getpid():  # a fork's copy of the object
        return
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    log.unlink(missing_ok=True)
