"""Environments in worker processes: for steps that compute for long, or may never end.

A worker holds several environments and executes one call at a time. It can import what this process
can import. Left out: a second try of a step, since the state that it began in is lost.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from functools import cached_property, partial
from multiprocessing.connection import Connection, Pipe
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym

from agent_envs.vector import at_once
from agent_envs.web import ServerError
from trainer import worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_envs.panels import Panel
    from trainer.environments import Env, PromptOptions

_Result = TypeVar("_Result")
_BOOT = "import sys; sys.path[:] = {path!r}; from trainer.worker import serve; serve({handle})"


class WorkerError(ServerError):
    """A worker process died, or a call took too long; the message has the task and a remedy."""


def applied(
    env: gym.Env[str, str], function: Callable[..., _Result], *given: Any, task: str = ""
) -> _Result:
    """`function(env, *given)`, called in the process that has the environment.

    In a worker process it may take as long as the steps of an episode. The function must be
    importable, and arguments and result picklable. `task` is for messages.
    """
    if isinstance(env, Remote):
        found: _Result = env.call(worker.apply, function, given, what=function.__name__, task=task)
        return found
    return function(env, *given)


class Workers:
    """The worker processes of one kind of environments.

    Args:
        env: The recipe's environment section.
        prompt: The recipe's prompt section.
        split: Split whose tasks are played.
        blind: Blind prompts to render for each turn, if the environment renders prompts.
    """

    def __init__(self, env: Env, prompt: PromptOptions, split: str, blind: tuple[str, ...]) -> None:
        self.env, self.prompt, self.split, self.blind = env, prompt, split, blind
        self._processes: list[_Process] = []

    def make(self, first: int, end: int) -> list[Remote]:
        """Environments number `first` to `end - 1`, divided among the processes."""
        while len(self._processes) < min(end, self.env.processes):
            self._processes.append(_Process(self.env))
        return at_once([partial(self._made, number) for number in range(first, end)])

    def kill(self) -> None:
        """End all processes at once; `make` starts others."""
        for process in self._processes:
            process.kill()
        self._processes.clear()

    def _made(self, number: int) -> Remote:
        process = self._processes[number % self.env.processes]
        made = process.call(worker.make, self.env, self.prompt, self.split, what="make")
        return Remote(process, *made, blind=self.blind)


class Remote(gym.Env[str, str]):
    """An environment in a worker process. Its calls block; rollouts make them in threads.

    Attributes:
        kind: Name of its class.
        reply_form: Its format of whole replies.
        images: The images of the last prompt, None if it renders no prompts.
    """

    waits = True

    def __init__(
        self, process: _Process, number: int, kind: str, reply_form: str, *, blind: tuple[str, ...]
    ) -> None:
        self.kind, self.reply_form = kind, reply_form
        self.images: list[Any] | None = None
        self._process, self._number, self._blind = process, number, blind
        self._blinded: dict[str, str] = {}
        self._task = ""

    @cached_property
    def panel(self) -> Panel:
        """The tasks of the split."""
        found: Panel = self.call(worker.panel, what="panel")
        return found

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        self._task = (options or {}).get("task_id", "")
        observation, info = self._turn("reset", seed=seed, options=options)
        self._task = info["task_id"]
        return observation, info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment."""
        stepped: tuple[Any, Any, bool, bool, dict[str, Any]] = self._turn("step", action=action)
        return stepped

    def blind(self, what: str) -> str:
        """A blind prompt of the current turn, one of those that `Workers` was made with."""
        return self._blinded[what]

    def call(
        self, function: Callable[..., Any], *given: Any, what: str, task: str = "", steps: int = 0
    ) -> Any:
        """Call a function of `trainer.worker`, for as long as `steps`, or those of an episode."""
        steps = steps or self._process.env.max_turns + 1
        return self._process.call(
            function, self._number, *given, what=what, task=task or self._task, steps=steps
        )

    def _turn(self, method: str, **given: Any) -> Any:
        result, self.images, self._blinded = self.call(
            worker.turn, self._blind, method, given, what=method, steps=1
        )
        return result


class _Process:
    """One worker process."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self._pipe, far = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT.format(path=sys.path, handle=far.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[far.fileno()],
            start_new_session=True,  # it is killed with what it started, and Ctrl-C is ours
        )
        far.close()
        self._lock, self._broken = Lock(), ""
        weakref.finalize(self, _end, self._pipe, self._process)

    def call(
        self, function: Callable[..., Any], *given: Any, what: str, task: str = "", steps: int = 0
    ) -> Any:
        """`function(held, *given)`, called in the process, whose environments are `held`.

        Args:
            function: What is called; it must be importable.
            given: Its arguments.
            what: Name of the call, for messages.
            task: The task, for messages.
            steps: How many steps' time it may take, 0 for any time.

        Raises:
            WorkerError: The process died, or the call took too long, here or in an earlier call.
            Exception: What the function raised; a RuntimeError if that cannot be pickled.
        """
        sent = pickle.dumps((function, given))
        name = f"{self.env.id}, task {task!r}: {what}" if task else f"{self.env.id}: {what}"
        with self._lock:
            answer = self._exchanged(sent, name, steps * self.env.step_seconds)
        good, found = pickle.loads(answer)  # noqa: S301 - from our own process
        if good:
            return found
        raise found

    def kill(self) -> None:
        """End the process and what it started at once."""
        if self._process.poll() is None:
            _kill(self._process)

    def _exchanged(self, sent: bytes, name: str, limit: float) -> bytes:
        """The answer to a message."""
        if self._broken:
            raise WorkerError(self._broken)
        began = time.monotonic()
        try:
            self._pipe.send_bytes(sent)
            if self._pipe.poll(limit or None):
                return self._pipe.recv_bytes()
            wrong = (
                f"did not end within {limit:g} s, and its worker process was killed; raise "
                f"env.step_seconds (now {self.env.step_seconds:g}) if it may take longer"
            )
        except (EOFError, OSError):
            wrong = (
                f"did not end: its worker process {self._ending()} after "
                f"{time.monotonic() - began:.1f} s; if memory ran out, lower env.processes or "
                "sampling.rows"
            )
        self.kill()
        self._broken = f"{name} {wrong}. --resume continues the run from its last checkpoint"
        raise WorkerError(self._broken)

    def _ending(self) -> str:
        """How the process, which has closed the pipe, ended."""
        try:
            code = self._process.wait(worker.GRACE)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        _kill(self._process)  # what it started
        return f"died of {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(pipe: Connection, process: subprocess.Popen[bytes]) -> None:
    """Let a process close its environments and exit; kill it if it does not."""
    pipe.close()
    try:
        process.wait(worker.GRACE)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()
