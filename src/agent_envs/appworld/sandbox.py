"""The jail from the side of the training process: its warden, and the interpreters it forks.

Both end when the training process ends for any reason: the warden notices that its socket closes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from functools import cache
from pathlib import Path
from typing import Any

from agent_envs.panels import one_of

SANDBOXES = ("strict", "best-effort")
_STARTING = 60.0  # seconds that a warden may take to start
_PACKAGES = ("agent_envs", "agent_envs.appworld")
# The warden only gets the paths of these packages: importing them would load NumPy and more.
_BOOT = """
import gc, sys
gc.disable()  # while modules are imported
module = type(sys)
root, control, jail = sys.argv[1:]
for name in {packages}:
    sys.modules[name] = module(name)
    sys.modules[name].__path__ = [root + "/" + name.replace(".", "/")]
from agent_envs.appworld.guest import places
places.shorten()
from agent_envs.appworld.guest import warden
warden.main(int(control), jail)
""".replace("{packages}", repr(_PACKAGES))


class SandboxError(RuntimeError):
    """The machine cannot run agent code safely, or failed; the message has a remedy."""


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
        ours, theirs = socket.socketpair()
        root = Path(tempfile.mkdtemp(prefix="appworld-jail-"))
        root.chmod(0o555)  # empty, and removed as soon as the warden is in it
        try:
            with theirs:
                self._process = _start(theirs, root)
            ours.settimeout(_STARTING)
            told = ours.recv(8192)
        except OSError as error:
            told = str(error).encode()
        finally:
            root.rmdir()
        self._control, self._lock, self._silent = ours, threading.Lock(), False
        self._finalizer = weakref.finalize(self, _finish, os.getpid(), self._process, ours)
        if not told.startswith(b"{"):
            raise SandboxError(
                f"the sandbox's warden did not start ({sys.executable}): {told.decode()}"
            )
        report = json.loads(told)
        self.enforced: dict[str, bool] = report["enforced"]
        self.lacking = {layer: why for layer, why in report["refused"].items() if why}

    @property
    def pid(self) -> int:
        """Its process, the ancestor of all interpreters."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs and answers."""
        return not self._silent and self._process.poll() is None

    def start(self) -> tuple[socket.socket, int]:
        """A new interpreter: its socket and its number.

        Raises:
            SandboxError: The warden is gone, or the machine has no room for a process.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            return ours, self._ask({"start": True}, theirs)

    def end(self, number: int) -> int:
        """End an interpreter and return its wait status, also if it had already ended."""
        try:
            return self._ask({"end": number})
        except SandboxError:
            return signal.SIGKILL  # interpreters end with the warden

    def close(self) -> None:
        """End it and all its interpreters."""
        self._finalizer()

    def _ask(self, request: Any, given: socket.socket | None = None) -> int:
        with self._lock:
            try:
                sent = [given.fileno()] if given else []
                socket.send_fds(self._control, [json.dumps(request).encode()], sent)
                return int(self._control.recv(1024))
            except (OSError, ValueError) as error:
                self._silent = True
                raise SandboxError(
                    f"the sandbox's warden was killed: {error}; reset() starts another"
                ) from error


def warden(sandbox: str = "strict") -> Warden:
    """The warden of this process, started on first use.

    Raises:
        ValueError: `sandbox` is neither "strict" nor "best-effort".
        SandboxError: "strict", and the kernel does not enforce all classes of `guest.probe`.
    """
    one_of("sandbox", sandbox, SANDBOXES)
    found = _of_process(os.getpid())
    if not found.alive:
        found.close()
        _of_process.cache_clear()
        found = _of_process(os.getpid())
    missing = [name for name, holds in found.enforced.items() if not holds]
    if missing:
        lacks = "; ".join(f"{layer}: {why}" for layer, why in found.lacking.items())
        told = f"this machine does not protect {', '.join(missing)} from agent code ({lacks})"
        if sandbox == "strict":
            raise SandboxError(f"{told}; {_remedy()}, or accept it with sandbox='best-effort'")
        warnings.warn(f"{told}; do not run malicious code", RuntimeWarning, stacklevel=2)
    return found


def _remedy() -> str:
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
def _of_process(_: int) -> Warden:
    return Warden()


def _start(control: socket.socket, root: Path) -> subprocess.Popen[bytes]:
    packages = str(Path(__file__).parents[2])
    number = control.fileno()
    return subprocess.Popen(
        [sys.executable, "-B", "-P", "-S", "-s", "-c", _BOOT, packages, str(number), str(root)],
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
