"""The jail from the side of the training process: its warden, and the interpreters it forks.

Both end when the training process ends for any reason: the warden notices that its socket closes.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections import deque
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

from agent_envs.appworld.guest.ends import End
from agent_envs.appworld.guest.wire import TOKEN, LateError, limit_time, send
from agent_envs.machine import open_streams

_STARTING = 60.0  # seconds that a warden may take to start
# The warden only gets the paths of these packages: importing them would load NumPy and more.
_BOOT = """
import gc, sys
gc.disable()  # while modules are imported
module = type(sys)
root, control, jail = sys.argv[1:]
for name in ("agent_envs", "agent_envs.appworld"):
    sys.modules[name] = module(name)
    sys.modules[name].__path__ = [root + "/" + name.replace(".", "/")]
from agent_envs.appworld.guest import places
places.shorten()
from agent_envs.appworld.guest import warden
warden.main(int(control), jail)
"""


_REMEDIES = {
    errno.EAGAIN: "raise its limit of processes (ulimit -u, or the pids limit of the container)",
    errno.ENOMEM: "free memory, or raise the memory limit of the container",
    errno.EMFILE: "raise the limit of open files of this process (ulimit -n)",
    errno.ENFILE: "raise its limit of open files (sysctl fs.file-max)",
    errno.ENOENT: "set TMPDIR to a folder that can be written",
    errno.ENOSPC: "free space in the folder of temporary files, or set TMPDIR to another",
}


class SandboxError(RuntimeError):
    """The machine cannot run agent code safely, or failed; the message has a remedy."""


def _make_refusal(what: str, number: int) -> SandboxError:
    """The machine refused something, with an error number."""
    name, remedy = errno.errorcode.get(number, str(number)), _REMEDIES.get(number)
    advice = f"; {remedy}, or run fewer environments at once" if remedy else ""
    return SandboxError(f"this machine refused {what}: {os.strerror(number)} ({name}){advice}")


class Warden:
    """A process that forks interpreters in the jail.

    Attributes:
        enforced: for each class of `guest.probe`, whether the kernel isolates agent code from it,
            as tested at the start.
        lacking: the kernel's restrictions that this machine does not have, each with the reason.

    Raises:
        SandboxError: It does not start.
    """

    def __init__(self) -> None:
        try:
            answer = self._start_process()
        except LateError as error:
            late = f"did not start within {_STARTING:g} seconds"
            raise SandboxError(f"the sandbox's warden {late}") from error
        except TimeoutError:  # of the caller's signal handler
            raise
        except OSError as error:
            raise _make_refusal(
                "what the sandbox's warden needs to start", error.errno or 0
            ) from error
        self._lock, self._silent = threading.Lock(), False
        self._forgotten: deque[int] = deque()
        report = json.loads(answer or "{}")
        if report.get("errno"):
            raise _make_refusal("a process to the sandbox's warden", report["errno"])
        if not report:
            raise SandboxError(
                f"the sandbox's warden did not start ({sys.executable}): it ended before it was "
                "ready; its own error is on the standard error stream"
            )
        self.enforced: dict[str, bool] = report["enforced"]
        self.lacking = {layer: why for layer, why in report["refused"].items() if why}

    def _start_process(self) -> bytes:
        """Start it: its report."""
        open_streams()
        with tempfile.TemporaryDirectory(prefix="appworld-jail-") as root:
            Path(root).chmod(0o555)  # empty, as the root of the jail
            ours, theirs = socket.socketpair()
            with theirs, ExitStack() as failed:
                failed.callback(ours.close)
                self._process = _launch(theirs, root)
                failed.pop_all()
            self._control = ours
            self._finalizer = weakref.finalize(self, _finish, os.getpid(), self._process, ours)
            with limit_time(ours, time.monotonic() + _STARTING):
                return ours.recv(8192)

    @property
    def pid(self) -> int:
        """Its process, the ancestor of all interpreters."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs and answers."""
        return not self._silent and self._process.poll() is None

    def start(self, opening: dict[str, str]) -> tuple[socket.socket, int]:
        """A new interpreter, for a time and a seed: its socket and its number.

        Raises:
            SandboxError: The warden is gone, or the machine has no room for a process.
        """
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _make_refusal("a socket for an interpreter", error.errno or 0) from error
        with theirs, ExitStack() as failed:
            failed.callback(ours.close)
            send(ours, json.dumps(opening).encode(), bytes(TOKEN))
            number = self._ask("start", None, theirs)
            if isinstance(number, dict):
                raise _make_refusal("a process for an interpreter", number["errno"])
            failed.pop_all()
        return ours, number

    def rest(self, number: int) -> End | None:
        """Stop an interpreter until `wake`: its end if it has ended instead."""
        try:
            ended = self._ask("rest", number)
        except SandboxError:
            return End(signal.SIGKILL)  # interpreters end with the warden
        return ended and End(*ended)

    def wake(self, number: int) -> None:
        """Continue an interpreter that rests."""
        with suppress(SandboxError):
            self._ask("wake", number)

    def end(self, number: int) -> End:
        """End an interpreter, once: how it ended, also if it had ended by itself."""
        try:
            return End(*self._ask("end", number))
        except SandboxError:
            return End(signal.SIGKILL)

    def forget(self, number: int) -> None:
        """End an interpreter soon: at once, or after a request that is under way.

        Never waits, so that finalizers can call it in the middle of a request.
        """
        self._forgotten.append(number)
        self._clear()

    def _clear(self) -> None:
        """End the forgotten ones. Who finds the lock taken leaves it to the lock's owner."""
        while self._forgotten and self._lock.acquire(blocking=False):
            try:
                with suppress(IndexError, SandboxError):
                    self._request("end", self._forgotten.popleft())
            finally:
                self._lock.release()

    def close(self) -> None:
        """End it and all its interpreters."""
        self._finalizer()

    def _ask(self, what: str, given: Any, sent: socket.socket | None = None) -> Any:
        try:
            with self._lock:
                return self._request(what, given, sent)
        finally:
            self._clear()

    def _request(self, what: str, given: Any, sent: socket.socket | None = None) -> Any:
        """The answer to a request; needs the lock."""
        gone = "the sandbox's warden was killed, or is not answering; reset() starts another"
        if self._silent:
            raise SandboxError(gone)
        numbers = [sent.fileno()] if sent else []
        try:
            with limit_time(self._control, time.monotonic() + _STARTING):
                socket.send_fds(self._control, [json.dumps({what: given}).encode()], numbers)
                return json.loads(self._control.recv(1024))
        except BaseException as error:
            self._silent = True  # after an interrupt, its answer would be taken for the next one's
            own = isinstance(error, OSError | ValueError | LateError)
            if not own or isinstance(error, TimeoutError):  # of the caller's signal handler
                raise
            raise SandboxError(gone) from error


def start_warden(sandbox: str = "strict") -> Warden:
    """The warden of this process, started on first use.

    Raises:
        SandboxError: "strict", and the kernel does not enforce all classes of `guest.probe`.
    """
    found = _warden_of(os.getpid())
    if not found.alive:
        found.close()
        _warden_of.cache_clear()
        found = _warden_of(os.getpid())
    missing = [name for name, holds in found.enforced.items() if not holds]
    if missing:
        lacks = "; ".join(f"{layer}: {why}" for layer, why in found.lacking.items())
        text = f"this machine does not protect {', '.join(missing)} from agent code ({lacks})"
        if sandbox == "strict":
            raise SandboxError(f"{text}; {_find_remedy()}, or accept it with sandbox='best-effort'")
        warnings.warn(f"{text}; do not run malicious code", RuntimeWarning, stacklevel=2)
    return found


def _find_remedy() -> str:
    """What gives a machine the missing protections."""
    if sys.platform != "linux":
        return "use Linux, in a virtual machine or a container"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "give the container a seccomp profile that allows seccomp, prctl and unshare"
    return (
        "use a kernel with seccomp filters and user namespaces (sysctl user.max_user_namespaces) "
        "on x86-64 or aarch64"
    )


@cache
def _warden_of(_: int) -> Warden:
    return Warden()


def _launch(control: socket.socket, root: str) -> subprocess.Popen[bytes]:
    packages = str(Path(__file__).parents[2])
    number = control.fileno()
    return subprocess.Popen(
        [sys.executable, "-B", "-P", "-S", "-s", "-c", _BOOT, packages, str(number), root],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None,
        pass_fds=[number],
        start_new_session=True,  # only the training process handles Ctrl-C
        env={"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    )


def _finish(pid: int, process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    if pid != os.getpid():  # a fork's copy of the object
        return
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
