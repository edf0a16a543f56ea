"""A program that starts chromedriver and ends everything when the process that needs it ends.

It has its own session and starts before the driver. The kernel makes it the parent of every process
that the driver or Chromium leave behind; it ends all of them and removes the folder that they wrote
to. If it is killed itself, the kernel kills the driver, Chromium ends without its driver, and the
next start removes the folder.

`python -P warden.py PARENT DRIVER` prints a line of JSON: the port of the driver and the folder, or
the error. It ends when the process PARENT ends, when its standard input is closed, or on SIGTERM.
On systems without prctl(2) Chromium ends by itself after its driver is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import resource
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

PREFIX = "agent-envs-chromium-"

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # of prctl(2)
_LOOK = 0.1  # seconds between two checks of the parent
_WAIT = 0.01  # seconds between two checks during start or end
_FILES = 256  # open files below which Chromium ends for many reasons
_OLD = 60.0  # seconds after which an unlocked folder counts as left behind
_REMOVAL = 5.0  # seconds that removing the folder may take
_LONGEST = 30  # bytes of the path of its parent: a socket in it needs a short path
_TAKEN = b"Address already in use"  # another took the driver's IPv4 port after its IPv6 port
_PORT = re.compile(rb"started successfully on port (\d+)")


def main() -> None:
    """Start the driver, report its port, and stay until everything must end."""
    parent, driver = int(sys.argv[1]), sys.argv[2]
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.append(number))
    _call_prctl(_SUBREAPER, 1)

    def may_stay(seconds: float) -> bool:
        """Wait so long for a reason to end; whether there is none."""
        ended, _, _ = select.select([sys.stdin], [], [], seconds)
        return not ended and not signals and os.getppid() == parent

    try:
        place = tempfile.gettempdir()
        if len(os.fsencode(place)) > _LONGEST:
            place = "/tmp"  # noqa: S108 - tempfile's default
        folder = Path(place, f"{PREFIX}{secrets.token_hex(4)}")
        _remove_abandoned(folder.parent)
        folder.mkdir(mode=0o700)
    except OSError as error:
        _report(error=f"no temporary folder ({error}); set TMPDIR to one that can be written")
        return
    try:
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)  # until this process ends
        _watch(lambda: _start_driver(driver, folder), folder, may_stay)
    except OSError as error:
        _report(error=str(error))
    finally:
        _kill_children()
        _remove_folder(folder)


def _watch(
    start: Callable[[], subprocess.Popen[bytes]], folder: Path, may_stay: Callable[[float], bool]
) -> None:
    """Start the driver, report its port when it has one, and stay while it and its browser run."""
    driver, port, browser = start(), None, None
    while may_stay(_LOOK if port else _WAIT):
        if driver.poll() is not None:
            if port is None and _TAKEN in (folder / "log").read_bytes():
                driver = start()
                continue
            _report(error=f"chromedriver ended with {driver.returncode}: {_read_log(folder)}")
            return
        if port is None:
            port = _PORT.search((folder / "log").read_bytes())
            if port:
                _report(port=int(port[1]), folder=str(folder))
        elif browser is None:
            browser = next(iter(psutil.Process(driver.pid).children()), None)
        elif _has_ended(browser):  # the driver does not notice this
            _report(error=f"Chromium ended: {_read_log(folder)}")
            return


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _start_driver(driver: str, folder: Path) -> subprocess.Popen[bytes]:
    """The driver, which only writes to the folder and dies with this process."""
    this = os.getpid()

    def die_with_this() -> None:
        _call_prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != this:  # dead already
            os._exit(1)

    places = dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(folder))
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [driver, "--port=0", "--enable-chrome-logs"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | places,
            preexec_fn=die_with_this,  # noqa: PLW1509 - this process has one thread
        )


def _kill_children() -> None:
    """Kill all descendants of this process: orphans become its children."""
    while children := psutil.Process().children():
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=_LOOK)


def _read_log(folder: Path) -> str:
    """The end of the output of driver and browser, without the driver's greeting."""
    text = (folder / "log").read_bytes()
    if b"Too many open files" in text or resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FILES:
        return "it may not open enough files; raise the limit (ulimit -n)"
    start = _PORT.search(text)
    said = text[start.end() if start else 0 :].decode(errors="replace")
    return " ".join(said.strip(". \n").splitlines())[-800:]


def _remove_abandoned(place: Path) -> None:
    """Remove folders whose warden was killed: they are not locked."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:  # another's, or locked
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, held)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(held).st_mtime > _OLD:
                _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    until = time.monotonic() + _REMOVAL
    while folder.exists() and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)


def _call_prctl(option: int, value: int) -> None:
    if hasattr(library := ctypes.CDLL(None), "prctl"):
        library.prctl(option, value, 0, 0, 0)


def _report(**what: object) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{json.dumps(what)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
