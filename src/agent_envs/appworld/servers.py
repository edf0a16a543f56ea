"""Servers of the real benchmark: one at a known address, or a process of our own for each world.

The benchmark serves one world a process and grows with each task, so a process is replaced after
some tasks, and whenever it fails.
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
"""What starts its server, less the port. `appworld serve` listens on all addresses instead."""
TASKS = 50  # that a process opens before it is replaced
STARTING = 120.0  # seconds that it may take to listen
_LAST = 2000  # characters of its log that an error shows
# Runs the command, and ends it when the training process does, however that ends.
_KEEPER = """
import os, signal, subprocess, sys, threading
def watch():
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL))
"""


class Server(Protocol):
    """Where a world's server is; `number` is another one after each `renew`."""

    number: int

    @property
    def url(self) -> str:
        """Its address.

        Raises:
            BackendError: It does not start.
        """
        ...

    def renew(self) -> None:
        """Put another in its place, as far as that is ours to do."""
        ...

    def log(self) -> str:
        """What it said last."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Elsewhere:
    """A server that somebody else runs at `url`.

    Raises:
        ValueError: That is no address.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"an address is like 'http://127.0.0.1:8000', got {url!r}")
        self.url, self.number = url.rstrip("/"), 1

    def renew(self) -> None:
        """The same one, to be told everything again."""
        self.number += 1

    def log(self) -> str:
        """Somebody else has it."""
        return f"look at the log of {self.url}; `appworld serve environment` starts it again"

    def close(self) -> None:
        """It is not ours to end."""


class Own:
    """A server process of our own, started when its address is first asked for.

    Args:
        command: What starts it, with {port} in it; it has to listen on 127.0.0.1.
        root: The folder with the benchmark's data, its $APPWORLD_ROOT.

    Raises:
        ValueError: There is no {port} in the command.
    """

    def __init__(self, command: str, root: Path) -> None:
        if "{port}" not in command:
            raise ValueError(
                "a server's command has {port} in it, like '/venv/bin/appworld serve environment "
                f"--port {{port}}', got {command!r}"
            )
        self.command, self.root, self.number = command, root, 1
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """The address of the process, which is started if it does not run.

        Raises:
            BackendError: It ends, or does not listen in time; the message has its last lines.
        """
        if self._running is None or self._running.owner != os.getpid():
            self._running = _Running(self.command, self.root)
            self._running.wait()
        return f"http://127.0.0.1:{self._running.port}"

    def renew(self) -> None:
        """End the process; asking for the address starts another."""
        self.close()
        self.number += 1

    def log(self) -> str:
        """The last lines of the process."""
        return f"it said last: {self._running.said()}" if self._running else "it does not run"

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None, "number": self.number + 1}


class _Running:
    """A process and its log; both go with this object at the latest, the process with ours too."""

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
        """Until it listens."""
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
        raise BackendError(f"a server of AppWorld {what}; it said last: {said}")

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
