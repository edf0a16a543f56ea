"""The warden: a process in the jail that forks interpreters, stops them, and reports their ends."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent_envs.appworld.guest import ends, jail, places, run


def main(control: int, root: str) -> None:
    """Enter the jail, report its protections, and serve until the other side closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a trainer may ignore ends of its children
    run.load()
    places.forget()
    gc.freeze()  # so that memory pages stay shared with interpreters
    gc.enable()
    with socket.socket(fileno=control) as channel:
        try:
            refused = jail.enter()
            pid = os.fork()  # the first process of its process space; its end ends all others
            if not pid:
                cells = jail.Cells()
                refused |= jail.hide_files(root)
                report = _probe(cells, refused)
                forker = Forker(channel, cells)
        except OSError as error:
            channel.send(json.dumps({"errno": error.errno}).encode())
            return
        if not pid:
            channel.send(json.dumps(report).encode())
            forker.serve()
            return
    os.waitpid(pid, 0)


class Forker:
    """Forks interpreters and stops them while they have nothing to do.

    A request is an object with one key: "start", with the socket of an interpreter; or "rest",
    "wake" or "end", with its number. The answer to "start" is the number, or `{"errno": ...}` if
    the machine refuses a process; to others it is what the method returns.

    The other side knows which of them run. One that ended stays a zombie, and keeps its number,
    until its end was told. Agent code can read all that the process held of which it is a copy. So
    that is another, which gets only sockets; this one is the parent. A system that cannot do that
    has no jail either: there this process is copied.
    """

    def __init__(self, control: socket.socket, cells: jail.Cells) -> None:
        self.control, self.cells = control, cells
        self.zygote = self._start_zygote() if cells.number >= 0 else None

    def _start_zygote(self) -> socket.socket:
        near, far = socket.socketpair()
        if os.fork():
            far.close()
            return near
        self.control.close()
        near.close()
        self.control, self.cells.parent = far, jail.SIBLING
        while sockets := socket.recv_fds(far, 1, 1)[1]:
            far.send(json.dumps(self._fork(sockets.pop())).encode())
        os._exit(0)

    def serve(self) -> None:
        """Answer requests until the socket is closed."""
        ways = {"rest": self._rest, "wake": self._wake, "end": self._end}
        with suppress(ConnectionError, json.JSONDecodeError):  # the zygote was killed
            while True:
                message, sockets, _, _ = socket.recv_fds(self.control, 65_536, 1)
                if not message:
                    return  # the first process of a space ends the others with it
                ((what, given),) = json.loads(message).items()
                answer = self._start(sockets) if what == "start" else ways[what](given)
                self.control.send(json.dumps(answer).encode())

    def _start(self, sockets: list[int]) -> Any:
        if not sockets:  # the kernel dropped it
            return {"errno": errno.EMFILE}
        if self.zygote is None:
            return self._fork(*sockets)
        socket.send_fds(self.zygote, [b"1"], sockets)
        os.close(*sockets)
        return json.loads(self.zygote.recv(1024))

    def _fork(self, channel: int) -> int | dict[str, int | None]:
        def interpret() -> None:
            self.control.close()
            os.dup2(1, 2)  # close the trainer's files
            run.serve(socket.socket(fileno=channel), jail.drop)

        try:
            return _fork(self.cells, interpret)
        except OSError as error:
            return {"errno": error.errno}
        finally:
            os.close(channel)

    def _rest(self, pid: int) -> ends.End | None:
        """Stop an interpreter: its end if it has ended instead."""
        while True:
            os.kill(pid, signal.SIGSTOP)
            _, status, usage = os.wait4(pid, os.WUNTRACED | os.WCONTINUED)
            if os.WIFSTOPPED(status):
                return None
            if not os.WIFCONTINUED(status):  # the kernel reports that once
                return ends.read_end(status, usage)

    def _wake(self, pid: int) -> None:
        """Continue an interpreter that rests."""
        os.kill(pid, signal.SIGCONT)

    def _end(self, pid: int) -> ends.End:
        """End an interpreter, running or at rest: how it ended, also if it had already ended."""
        os.kill(pid, signal.SIGCONT)  # one that rests does not stop again
        ended = self._rest(pid)
        if ended is None:
            os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            ended = ends.read_end(status, usage, ran=True)
        return ended


def _fork(cells: jail.Cells, work: Callable[[], None]) -> int:
    pid = cells.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except MemoryError:
        status = ends.FULL
    finally:
        os._exit(status)


def _probe(cells: jail.Cells, refused: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The protections of a process that called `drop`, like interpreters, and what was refused."""
    reading, writing = os.pipe()

    def report_on_pipe() -> None:
        try:
            report = {"refused": refused | jail.drop(), "enforced": jail.probe()}
        except (OSError, ValueError) as error:
            report = {"refused": refused | {"limits": str(error)}}
        os.write(writing, json.dumps(report).encode())

    pid = _fork(cells, report_on_pipe)
    os.close(writing)
    os.waitpid(pid, 0)
    report = json.loads(os.read(reading, 4096) or "{}")
    os.close(reading)
    enforced = dict.fromkeys(jail.PROTECTIONS, False) | report.get("enforced", {})
    return {"enforced": enforced, "refused": report.get("refused", refused)}
