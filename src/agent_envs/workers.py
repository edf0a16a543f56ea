"""Environments in worker processes: for steps that compute for long, or may never end.

A worker holds several environments and executes one call at a time. It can import what this process
can import. If it ends in the call of one environment, that environment has failed; the others are
made again in a new process and play the turns of their episodes again, which by the contract of
environments leads to the same state. A worker ends when its owner closes the pipe or ends in any
other way. Left out: a second try of the call that failed.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from itertools import count
from multiprocessing.connection import Connection, Pipe
from operator import attrgetter
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym

from agent_envs.imports import describe_error
from agent_envs.machine import open_streams
from agent_envs.net.web import ServerError
from agent_envs.prompt import BLIND
from agent_envs.vector import call_concurrently

if TYPE_CHECKING:
    from agent_envs.panels import Panel

    Env = gym.Env[str, str]

Result = TypeVar("Result")
DECLARED = ("reply_form", "graded", "revisits", "action_length", "max_turns")
"""Attributes of `AgentEnv` that an environment in a worker has, too."""
GRACE = 5.0
"""Seconds in which a worker whose pipe is closed ends its call and closes its environments."""
_BOOT = "import sys; sys.path[:] = {path!r}; from agent_envs.workers import serve; serve({handle})"


class WorkerError(ServerError):
    """A worker process died, or a call took too long; the message has the task and a remedy."""


class _LostError(Exception):
    """The process had ended before a call was made."""


class Workers:
    """Worker processes that hold environments of one kind.

    They end with the last reference to this object and its environments.

    Args:
        make: Makes an environment. It is pickled, so it must be importable, e.g. a class or
            `functools.partial(gymnasium.make, "agent_envs:Sokoban-v0")`.
        processes: Number of processes.
        step_seconds: Time limit of one `reset` or `step`; 0 for none.
        name: Name of the environments in messages.
    """

    def __init__(
        self,
        make: Callable[[], Env],
        *,
        processes: int,
        step_seconds: float = 0.0,
        name: str = "environment",
    ) -> None:
        self.make, self.processes = make, processes
        self.step_seconds, self.name = step_seconds, name
        self._running: dict[int, _Process] = {}
        self._numbers = count()
        self._lock = Lock()

    def make_envs(self, number: int) -> list[WorkerEnv]:
        """New environments, divided among the processes."""
        return call_concurrently(
            [partial(WorkerEnv, self, next(self._numbers)) for _ in range(number)]
        )

    def find_process(self, number: int) -> _Process:
        """The process of environment `number`, a new one if it has ended."""
        place = number % self.processes
        with self._lock:
            if place not in self._running or self._running[place].ended:
                self._running[place] = _Process()
            return self._running[place]

    def kill(self) -> None:
        """End all processes at once; `make_envs` starts others."""
        for process in self._running.values():
            process.kill()
        self._running.clear()


class WorkerEnv(gym.Env[str, str]):
    """An environment in a worker process, made by `Workers.make_envs`.

    Its calls block, so several environments are stepped in threads (`call_concurrently`). It has
    the attributes `DECLARED` of `AgentEnv`.

    Attributes:
        images: The images of the last prompt, None if it renders no prompts.
    """

    waits = True
    max_turns = 0

    def __init__(self, workers: Workers, number: int) -> None:
        self._workers, self._number = workers, number
        self._process: _Process | None = None
        self.images: list[Any] | None = None
        self._blind: dict[str, str] = {}
        self._task = ""
        self._turns: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []  # of the episode
        self._state = ""  # the anchor after them
        vars(self).update(self.call(_read_declared))

    @cached_property
    def panel(self) -> Panel:
        """The tasks of the split."""
        found: Panel = self.call(attrgetter("unwrapped.panel"), what="panel")
        return found

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        self._task = (options or {}).get("task_id", "")
        self._turns = []
        observation, info = self._take_turn("reset", seed=seed, options=options)
        self._task = info["task_id"]
        return observation, info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment."""
        stepped: tuple[Any, Any, bool, bool, dict[str, Any]] = self._take_turn("step", action)
        if stepped[2] or stepped[3]:
            self._turns = []
        return stepped

    def blind(self, what: str) -> str:
        """A blind prompt of the current turn, see `Prompt.blind`."""
        return self._blind[what]

    def close(self) -> None:
        """Close the environment, if its process is there."""
        with suppress(_LostError):
            self._send(_close_env, what="close", seconds=GRACE)

    def call(
        self, function: Callable[..., Any], *given: Any, what: str = "", steps: int = 0
    ) -> Any:
        """`function(env, *given)`, called in the process.

        If the process has ended in the call of another environment, a new one is brought to the
        state of this one first. As each time that other one has failed, this ends.

        Args:
            function: What is called.
            given: Its arguments.
            what: Name of the call in messages.
            steps: How many steps' time it may take; 0 for those of an episode.

        Raises:
            WorkerError: The process ended, or the call took too long.
            Exception: What the function raised; a RuntimeError if that cannot be pickled.
        """
        seconds = (steps or self.max_turns + 1) * self._workers.step_seconds
        while True:
            with suppress(_LostError):
                if self._process is None or self._process.ended:
                    self._make()
                what = what or function.__name__
                return self._send(_call_with_env, function, *given, what=what, seconds=seconds)

    def _make(self) -> None:
        """Make the environment in a process, and play the turns of its episode again."""
        workers = self._workers
        self._process = workers.find_process(self._number)
        self._send(_make_env, workers.make, what="make")
        now = self._state
        for method, given, named in self._turns:
            result, *_ = self._send(
                _call_with_env, _take_turn, method, given, named,
                what=f"{method} again", seconds=workers.step_seconds,
            )  # fmt: skip
            now = result[-1]["anchor"]
        if now != self._state:
            raise WorkerError(
                f"{workers.name}, task {self._task!r}: its worker process ended in a call of "
                f"another environment, and its {len(self._turns)} calls led to another state "
                f"when they were made again: anchor {now!r:.60} instead of {self._state!r:.60}"
            )

    def _take_turn(self, method: str, *given: Any, **named: Any) -> Any:
        task = f"task {self._task!r}: {method}" if self._task else method
        turn = method, given, named
        result, self.images, self._blind = self.call(_take_turn, *turn, what=task, steps=1)
        self._turns.append(turn)
        self._state = result[-1]["anchor"]
        return result

    def _send(
        self, function: Callable[..., Any], *given: Any, what: str, seconds: float = 0.0
    ) -> Any:
        if self._process is None:
            raise _LostError
        name = f"{self._workers.name}, {what}"
        return self._process.call(function, self._number, *given, what=name, seconds=seconds)


def apply_to(env: Env, function: Callable[..., Result], *given: Any) -> Result:
    """`function(env, *given)`, called in the process that has the environment.

    In a worker process it may take as long as the steps of an episode. The function must be
    importable, and arguments and result picklable.
    """
    if isinstance(env, WorkerEnv):
        found: Result = env.call(function, *given)
        return found
    return function(env, *given)


class _Process:
    """One worker process."""

    def __init__(self) -> None:
        open_streams()
        self._pipe, far = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT.format(path=sys.path, handle=far.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[far.fileno()],
            start_new_session=True,  # it is killed with what it started, and Ctrl-C is ours
        )
        far.close()
        self._lock = Lock()
        self._end = weakref.finalize(self, _end, self._pipe, self._process)

    def call(self, function: Callable[..., Any], *given: Any, what: str, seconds: float) -> Any:
        """`function(envs, *given)`, called in the process, whose environments are `envs`.

        Args:
            function: What is called; it must be importable.
            given: Its arguments.
            what: Name of the call, for messages.
            seconds: How long it may take; 0 for any time.

        Raises:
            WorkerError: The process died in this call, or it took too long.
            _LostError: It had ended before.
            Exception: What the function raised; a RuntimeError if that cannot be pickled.
        """
        with self._lock:
            if self.ended:
                raise _LostError
            began = time.monotonic()
            try:
                self._pipe.send((function, given))
                answer = self._pipe.recv() if self._pipe.poll(seconds or None) else None
            except (EOFError, OSError):
                code = self._end() or 0
                how = f"died of {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
                raise WorkerError(
                    f"{what} did not end: its worker process {how} after "
                    f"{time.monotonic() - began:.1f} s; if memory ran out, lower processes, or "
                    "hold fewer environments (in a recipe: env.processes, sampling.rows)"
                ) from None
            if answer is None:
                self.kill()
                raise WorkerError(
                    f"{what} did not end within {seconds:g} s, and its worker process was killed; "
                    "raise step_seconds (in a recipe: env.step_seconds) if it may take longer"
                )
        good, found = answer
        if good:
            return found
        raise found

    @property
    def ended(self) -> bool:
        """Whether the process has ended, e.g. because its last call has failed."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the process and what it started at once."""
        _kill(self._process)
        self._end()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(pipe: Connection, process: subprocess.Popen[bytes]) -> int:
    """Let a process close its environments and exit, or kill it: -> its exit code."""
    pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    _kill(process)  # and what it started
    return process.wait()


def serve(handle: int) -> None:
    """Execute the calls that come through a pipe, until it is closed."""
    pipe = Connection(handle)
    # Slurm signals all processes of a job; the owner still needs this one to end its step. What it
    # starts gets the default again, since a handler is not inherited.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    calls: SimpleQueue[bytes | None] = SimpleQueue()
    Thread(target=_receive, args=(pipe, calls), daemon=True).start()
    envs: dict[int, Env] = {}
    while (call := calls.get()) is not None:
        answer = _answer(envs, call)
        with suppress(OSError):  # the owner has ended
            pipe.send_bytes(answer)
    for env in envs.values():
        env.close()


def _receive(pipe: Connection, calls: SimpleQueue[bytes | None]) -> None:
    """Pass the calls on; after the last, kill this process if it hangs, with what it started."""
    with suppress(EOFError, OSError):
        while True:
            calls.put(pipe.recv_bytes())
    calls.put(None)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


def _answer(envs: dict[int, Env], call: bytes) -> bytes:
    """The pickled result of a call, or its error."""
    try:
        function, given = pickle.loads(call)  # noqa: S301 - from our owner
        return pickle.dumps((True, function(envs, *given)))
    except Exception as error:  # noqa: BLE001 - raised by the owner
        error.add_note(f"In the worker process:\n{traceback.format_exc()}")
        answer = pickle.dumps((False, RuntimeError(describe_error(error))))
        with suppress(Exception):  # an error that cannot be made again from its pickle
            same = pickle.dumps((False, error))
            pickle.loads(same)  # noqa: S301 - our own
            answer = same
        return answer


def _make_env(envs: dict[int, Env], number: int, make: Callable[[], Env]) -> None:
    envs[number] = make()


def _call_with_env(
    envs: dict[int, Env], number: int, function: Callable[..., Any], *given: Any
) -> Any:
    return function(envs[number], *given)


def _close_env(envs: dict[int, Env], number: int) -> None:
    if number in envs:
        envs.pop(number).close()


def _read_declared(env: Env) -> dict[str, Any]:
    """The attributes that do not change."""
    return {name: getattr(env.unwrapped, name) for name in DECLARED}


def _take_turn(
    env: Any, method: str, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, list[Any] | None, dict[str, str]]:
    """Call `reset` or `step`: -> its result, the images and the blind prompts of the turn."""
    result = getattr(env, method)(*given, **named)
    blind = {what: env.blind(what) for what in BLIND} if hasattr(env, "blind") else {}
    return result, getattr(env, "images", None), blind
