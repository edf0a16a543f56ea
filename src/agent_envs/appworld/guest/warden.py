"""The warden: a process in the jail that forks interpreters and reports how they ended."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest import jail, places, probe, run

if TYPE_CHECKING:
    from collections.abc import Callable


def main(control: int, root: str) -> None:
    """Enter the jail, report its protections, and serve until the other side closes."""
    run.load()
    places.forget()
    gc.freeze()  # so that memory pages stay shared with interpreters
    gc.enable()
    refused = jail.enter()
    pid = os.fork()  # the first process of its process space; its end ends all others
    if pid:
        os.close(control)
        os.waitpid(pid, 0)
        return
    cells = jail.Cells()
    refused |= jail.shut(root)
    with socket.socket(fileno=control) as channel:
        channel.send(json.dumps(_probed(cells, refused)).encode())
        Forker(channel, cells).serve()


class Forker:
    """Forks interpreters; a request is `{"start": true}` with a socket, or `{"end": pid}`."""

    def __init__(self, control: socket.socket, cells: jail.Cells) -> None:
        self.control, self.cells = control, cells
        self.ended: dict[int, int] = {}
        self.running: set[int] = set()

    def serve(self) -> None:
        """Answer requests until the socket is closed."""
        while True:
            message, sockets, _, _ = socket.recv_fds(self.control, 1024, 1)
            if not message:
                break
            self._reap()
            request = json.loads(message)
            answer = self._end(request["end"]) if "end" in request else self._start(sockets[0])
            self.control.send(json.dumps(answer).encode())
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)

    def _start(self, channel: int) -> int:
        def interpret() -> None:
            self.control.close()
            os.dup2(1, 2)  # close the trainer's files
            conversation = socket.socket(fileno=channel)  # a new one is refused from here on
            jail.drop()
            run.serve(conversation)

        pid = _forked(self.cells, interpret)
        os.close(channel)
        self.running.add(pid)
        return pid

    def _end(self, pid: int) -> int:
        """End an interpreter and return its wait status, also if it had already ended."""
        if pid in self.running:
            os.kill(pid, signal.SIGKILL)
            _, self.ended[pid] = os.waitpid(pid, 0)
            self.running.remove(pid)
        return self.ended.pop(pid, 0)

    def _reap(self) -> None:
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            self.running.discard(pid)
            self.ended[pid] = status


def _forked(cells: jail.Cells, work: Callable[[], None]) -> int:
    pid = cells.fork()
    if pid:
        return pid
    try:
        work()
    finally:
        os._exit(0)


def _probed(cells: jail.Cells, refused: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The protections of a process that called `drop`, like interpreters, and what was refused."""
    reading, writing = os.pipe()

    def tell() -> None:
        layers = refused | jail.drop()
        os.write(writing, json.dumps({"enforced": probe.probe(), "refused": layers}).encode())

    pid = _forked(cells, tell)
    os.close(writing)
    os.waitpid(pid, 0)
    told = json.loads(os.read(reading, 4096) or "{}")
    os.close(reading)
    enforced = dict.fromkeys(probe.PROTECTIONS, False) | told.get("enforced", {})
    return {"enforced": enforced, "refused": told.get("refused", refused)}
