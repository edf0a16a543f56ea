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
from contextlib import suppress
from functools import cached_property, partial
from multiprocessing.connection import Connection, Pipe
from operator import attrgetter
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym

from agent_envs.imports import describe_error
from agent_envs.vector import call_concurrently
from agent_envs.web import ServerError
from trainer.play.environments import make_env, reply_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_envs.panels import Panel
    from trainer.play.environments import Env, PromptOptions

    Held = list[gym.Env[str, str] | None]

_Result = TypeVar("_Result")
_BOOT = (
    "import sys; sys.path[:] = {path!r}; from trainer.scale.workers import serve; serve({handle})"
)

GRACE = 5.0
"""Seconds in which a worker whose pipe is closed ends its call and closes its environments."""


class WorkerError(ServerError):
    """A worker process died, or a call took too long; the message has the task and a remedy."""


class _LostError(Exception):
    """The process had ended before a call was made."""


def apply_to(
    env: gym.Env[str, str], function: Callable[..., _Result], *given: Any, task: str = ""
) -> _Result:
    """`function(env, *given)`, called in the process that has the environment.

    In a worker process it may take as long as the steps of an episode. The function must be
    importable, and arguments and result picklable. `task` is for messages.
    """
    if isinstance(env, Remote):
        found: _Result = env.call(_apply, function, given, what=function.__name__, task=task)
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
        self._lock = Lock()

    def make(self, first: int, end: int) -> list[Remote]:
        """Environments number `first` to `end - 1`, divided among the processes."""
        while len(self._processes) < min(end, self.env.processes):
            self._processes.append(_Process(self.env))
        return call_concurrently([partial(Remote, self, number) for number in range(first, end)])

    def process(self, number: int) -> _Process:
        """The process of environment `number`, a new one if it has ended."""
        place = number % self.env.processes
        with self._lock:
            if self._processes[place].ended:
                self._processes[place] = _Process(self.env)
            return self._processes[place]

    def kill(self) -> None:
        """End all processes at once; `make` starts others."""
        for process in self._processes:
            process.kill()
        self._processes.clear()


class Remote(gym.Env[str, str]):
    """An environment in a worker process. Its calls block; rollouts make them in threads.

    Args:
        workers: The processes.
        place: Its number among the environments, which selects the process.

    Attributes:
        kind: Name of its class.
        reply_form: Its format of whole replies.
        images: The images of the last prompt, None if it renders no prompts.
    """

    waits = True

    def __init__(self, workers: Workers, place: int) -> None:
        self._workers, self._place = workers, place
        self.images: list[Any] | None = None
        self._blinded: dict[str, str] = {}
        self._task = ""
        self._turns: list[tuple[str, dict[str, Any]]] = []  # of the running episode
        self._state = ""  # the anchor after them
        self._retry(self._make)

    @cached_property
    def panel(self) -> Panel:
        """The tasks of the split."""
        found: Panel = self.call(_apply, attrgetter("unwrapped.panel"), (), what="panel")
        return found

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        self._task = (options or {}).get("task_id", "")
        self._turns = []
        observation, info = self._turn("reset", seed=seed, options=options)
        self._task = info["task_id"]
        return observation, info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment."""
        stepped: tuple[Any, Any, bool, bool, dict[str, Any]] = self._turn("step", action=action)
        if stepped[2] or stepped[3]:
            self._turns = []
        return stepped

    def blind(self, what: str) -> str:
        """A blind prompt of the current turn, one of those that `Workers` was made with."""
        return self._blinded[what]

    def close(self) -> None:
        """Close the environment, if its process is there."""
        with suppress(_LostError):
            self._process.call(_close_environment, self._number, what="close", seconds=GRACE)

    def call(
        self, function: Callable[..., Any], *given: Any, what: str, task: str = "", steps: int = 0
    ) -> Any:
        """Call a function in the process, for as long as `steps`, or those of an episode.

        If the process has ended in the call of another environment, a new one is brought to the
        state of this one first.

        Raises:
            WorkerError: The process ended, or the call took too long.
        """
        steps = steps or self._workers.env.max_turns + 1

        def call() -> Any:
            if self._process.ended:
                self._again()
            return self._process.call(
                function, self._number, *given, what=what, task=task or self._task, steps=steps
            )

        return self._retry(call)

    def _retry(self, call: Callable[[], _Result]) -> _Result:
        """Make a call again while its process has ended before, in a call of another environment.

        Each time that other one has failed, so this ends.
        """
        while True:
            with suppress(_LostError):
                return call()

    def _make(self) -> None:
        """Make the environment in the process of its place."""
        workers = self._workers
        self._process = workers.process(self._place)
        self._number, self.kind, self.reply_form = self._process.call(
            _make_environment, workers.env, workers.prompt, workers.split, what="make"
        )

    def _again(self) -> None:
        """Make the environment again and play the turns of its episode, to the same state."""
        self._make()
        now = self._state
        for method, given in self._turns:
            result, *_ = self._process.call(
                _take_turn, self._number, self._workers.blind, method, given,
                what=f"{method} again", task=self._task, steps=1,
            )  # fmt: skip
            now = result[-1]["anchor"]
        if now != self._state:
            raise WorkerError(
                f"{self._workers.env.id}, task {self._task!r}: its worker process ended in a call "
                f"of another environment, and its {len(self._turns)} calls led to another state "
                f"when they were made again: anchor {now!r:.60} instead of {self._state!r:.60}"
            )

    def _turn(self, method: str, **given: Any) -> Any:
        result, self.images, self._blinded = self.call(
            _take_turn, self._workers.blind, method, given, what=method, steps=1
        )
        self._turns.append((method, given))
        self._state = result[-1]["anchor"]
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
        self._lock = Lock()
        self._finalizer = weakref.finalize(self, _end, self._pipe, self._process)

    def call(
        self,
        function: Callable[..., Any],
        *given: Any,
        what: str,
        task: str = "",
        steps: int = 0,
        seconds: float = 0.0,
    ) -> Any:
        """`function(held, *given)`, called in the process, whose environments are `held`.

        Args:
            function: What is called; it must be importable.
            given: Its arguments.
            what: Name of the call, for messages.
            task: The task, for messages.
            steps: How many steps' time it may take, 0 for any time.
            seconds: How long it may take in addition; 0 for any time.

        Raises:
            WorkerError: The process died in this call, or it took too long.
            _LostError: It had ended before.
            Exception: What the function raised; a RuntimeError if that cannot be pickled.
        """
        name = f"{self.env.id}, task {task!r}: {what}" if task else f"{self.env.id}: {what}"
        with self._lock:
            limit = seconds + steps * self.env.step_seconds
            good, found = self._exchange((function, given), name, limit)
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
        self._finalizer()

    def _exchange(self, sent: tuple[Any, ...], name: str, limit: float) -> Any:
        """The answer to a message."""
        if self.ended:
            raise _LostError
        began = time.monotonic()
        try:
            self._pipe.send(sent)
            if self._pipe.poll(limit or None):
                return self._pipe.recv()
            wrong = (
                f"did not end within {limit:g} s, and its worker process was killed; raise "
                f"env.step_seconds (now {self.env.step_seconds:g}) if it may take longer"
            )
        except (EOFError, OSError):
            code = _end(self._pipe, self._process)
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
            wrong = (
                f"did not end: its worker process {how} after "
                f"{time.monotonic() - began:.1f} s; if memory ran out, lower env.processes or "
                "sampling.rows"
            )
        self.kill()
        raise WorkerError(f"{name} {wrong}")


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
    held: Held = []
    while (call := calls.get()) is not None:
        answer = _answer(held, call)
        with suppress(OSError):  # the owner has ended
            pipe.send_bytes(answer)
    for env in held:
        if env is not None:
            env.close()


def _receive(pipe: Connection, calls: SimpleQueue[bytes | None]) -> None:
    """Pass the calls on; after the last, kill this process if it hangs, with what it started."""
    with suppress(EOFError, OSError):
        while True:
            calls.put(pipe.recv_bytes())
    calls.put(None)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


def _answer(held: Held, call: bytes) -> bytes:
    """The pickled result of a call, or its error."""
    try:
        function, given = pickle.loads(call)  # noqa: S301 - from our owner
        return pickle.dumps((True, function(held, *given)))
    except Exception as error:  # noqa: BLE001 - raised by the owner
        error.add_note(f"In the worker process:\n{traceback.format_exc()}")
        answer = pickle.dumps((False, RuntimeError(describe_error(error))))
        with suppress(Exception):  # an error that cannot be made again from its pickle
            same = pickle.dumps((False, error))
            pickle.loads(same)  # noqa: S301 - our own
            answer = same
        return answer


def _make_environment(
    held: Held, env: Env, prompt: PromptOptions, split: str
) -> tuple[int, str, str]:
    """Make an environment: -> its number, the name of its class, its format of replies."""
    held.append(made := make_env(env, prompt, split=split))
    return len(held) - 1, type(made.unwrapped).__name__, reply_form(made)


def _take_turn(
    held: Held, number: int, blind: tuple[str, ...], method: str, given: dict[str, Any]
) -> tuple[Any, list[Any] | None, dict[str, str]]:
    """Call `reset` or `step`: -> its result, the images and the blind prompts of the turn."""
    env: Any = held[number]
    result = getattr(env, method)(**given)
    blinded = {what: env.blind(what) for what in blind} if hasattr(env, "blind") else {}
    return result, getattr(env, "images", None), blinded


def _apply(held: Held, number: int, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Call a function with an environment."""
    env: Any = held[number]
    return function(env, *given)


def _close_environment(held: Held, number: int) -> None:
    """Close an environment that is not used any more."""
    env, held[number] = held[number], None
    if env is not None:
        env.close()
