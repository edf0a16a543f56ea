"""make_vec: copies of an environment that are stepped together, in one process or one per copy."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Literal, TypeVar, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.async_vector_env import _async_worker
from gymnasium.vector.utils import iterate

from agent_envs.panels import one_of

Result = TypeVar("Result")
_THREADS = 256  # at the same time
SPECIAL = (
    StopIteration,
    StopAsyncIteration,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
)
"""Errors that futures and coroutines of asyncio refuse, or take for their own."""


def make_vec(
    env_id: str,
    n: int = 1,
    *,
    vectorization_mode: Literal["sync", "async"] = "sync",
    autoreset: Literal["next_step", "same_step", "disabled"] = "next_step",
    wrappers: Sequence[Callable[[gym.Env[Any, Any]], gym.Wrapper[Any, Any, Any, Any]]] = (),
    **options: Any,
) -> VectorEnv[Any, Any, Any]:
    """`n` copies of `env_id` with its `options`, as `gym.make` takes them.

    Observations and actions are tuples of n strings, `info` has n-arrays.

    "sync" steps the copies one after the other in this process, which is fastest if a step takes
    microseconds. Copies that wait for a server (`AgentEnv.waits`) are stepped concurrently, in
    threads. "async" runs each copy in its own process, for slow environments, and sends texts
    through pipes.

    `autoreset` selects how the next episode begins after an end, on a task that the copy draws:

    "next_step" (Gymnasium's default): the next step ignores that copy's action and returns the
        reset's observation with reward 0; leave such rows out of training;
    "same_step": the ending step returns the reset's observation; the last observation and info
        are in `info["final_obs"]` and `info["final_info"]`;
    "disabled": no automatic reset; call reset with `options={"reset_mask": ended}`.

    `reset(seed=s)` seeds copy i with s + i; `reset(seed=[...])` gives each copy its own seed.

    Raises:
        ValueError: fewer than one copy, or an unknown `vectorization_mode` or `autoreset`.
        OSError: "async" on a machine without semaphores.
    """
    if n < 1:
        raise ValueError(f"n, the number of copies, must be at least 1, got {n}")
    one_of("vectorization_mode", vectorization_mode, ("sync", "async"))
    one_of("autoreset", autoreset, [mode.name.lower() for mode in AutoresetMode])
    vector_kwargs: dict[str, Any] = {"autoreset_mode": AutoresetMode[autoreset.upper()]}
    if vectorization_mode == "async":
        try:
            multiprocessing.Lock()
        except (ImportError, OSError) as error:
            needs = (
                f"vectorization_mode='async' needs semaphores, which this machine refuses ({error})"
            )
            raise OSError(f"{needs}; make /dev/shm writable, or use 'sync'") from error
        vector_kwargs["shared_memory"] = False
        if autoreset == "next_step":
            vector_kwargs["worker"] = _work
    made = gym.make_vec(
        env_id,
        num_envs=n,
        vectorization_mode=vectorization_mode,
        vector_kwargs=vector_kwargs,
        wrappers=list(wrappers),
        **options,
    )
    if isinstance(made.action_space, spaces.Tuple):
        made.action_space = Actions(made.action_space.spaces)
    if isinstance(made, SyncVectorEnv) and any(map(waits, made.envs)):
        return _AtOnce(made)
    return made


class Actions(spaces.Tuple[Any]):
    """The actions of n copies: a sequence of n, one for each."""


@iterate.register(Actions)
def _iterate_actions(space: Actions, actions: Any) -> Iterator[Any]:  # type: ignore[misc]
    """The action of each copy; of one string Gymnasium would give each copy a letter."""
    count = len(space.spaces)
    if isinstance(actions, str) or not hasattr(actions, "__len__") or len(actions) != count:
        raise ValueError(
            f"step takes a list of {count} actions, one for each copy, got {actions!r:.60} "
            f"({type(actions).__name__})"
        )
    return iter(actions)


def waits(env: gym.Env[Any, Any]) -> bool:
    """Whether a step of the environment waits for an outside process such as a server."""
    return bool(getattr(env.unwrapped, "waits", False))


def call_concurrently(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of calls that wait, made concurrently, each in a thread.

    Errors are raised after all calls have ended: the first one in the order of the calls. An
    interrupt is raised at once.
    """
    results: list[Future[Result]] = [Future() for _ in calls]
    left = deque(zip(calls, results, strict=True))

    def work() -> None:
        while left:
            try:
                call, result = left.popleft()
            except IndexError:  # another thread was faster
                return
            _set_result(result, call)

    threads = [Thread(target=work, daemon=True) for _ in range(min(len(calls), _THREADS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1)  # an interrupt that comes just before a wait is seen after it
    return [result.result() for result in results]


def call_in_thread(call: Callable[[], Result]) -> Future[Result]:
    """Make a call in a thread that does not hold up an exit; it cannot be cancelled."""
    result: Future[Result] = Future()
    result.set_running_or_notify_cancel()

    def call_safely() -> Result:
        try:
            return call()
        except SPECIAL as error:  # the future of asyncio that waits for this one would never end
            raise RuntimeError(f"the call raised {type(error).__name__}") from error

    Thread(target=_set_result, args=(result, call_safely), daemon=True).start()
    return result


async def call_env(env: gym.Env[str, str], call: Callable[[], Result]) -> Result:
    """The result of a call of an environment, made in a thread if it waits for a server.

    The thread does not hold up an exit.
    """
    if not waits(env):
        return call()
    made = call_in_thread(call)
    with suppress(Exception):  # asyncio exchanges some errors for its own, without tracebacks
        await asyncio.wrap_future(made)
    return made.result()


def run_coroutine(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, also where a loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        return call_in_thread(lambda: asyncio.run(coroutine)).result()
    return asyncio.run(coroutine)  # outside of the handler: its errors have no other cause


def _set_result(result: Future[Result], call: Callable[[], Result]) -> None:
    """Put what a call returns or raises into its result."""
    try:
        result.set_result(call())
    except BaseException as error:  # noqa: BLE001  raised by whoever asks for the result
        result.set_exception(error)


def _work(index: int, env_fn: Any, pipe: Any, *rest: Any) -> None:
    """Gymnasium's worker of `AsyncVectorEnv`, with a reset that it does not forget."""
    _async_worker(index, env_fn, cast("Any", _Pipe(pipe)), *rest)


class _Pipe:
    """A worker's end of a pipe.

    After the end of an episode Gymnasium's worker resets in the next step. Without shared memory it
    does so even if `reset` was called in between (gymnasium 1.4), so this calls that step before.
    """

    def __init__(self, pipe: Any) -> None:
        self.pipe, self.command, self.ended = pipe, "", False
        self.held: tuple[str, Any] | None = None

    def recv(self) -> tuple[str, Any]:
        """The next command."""
        given, self.held = self.held or self.pipe.recv(), None
        if given[0] == "reset" and self.ended:
            given, self.held = ("step", None), given
        self.command, self.ended = given[0], False
        return given

    def send(self, answer: tuple[Any, bool]) -> None:
        """Send an answer, unless it is that of the step before a reset."""
        result, good = answer
        if good and self.held:
            return
        self.ended = good and self.command == "step" and bool(result[2] or result[3])
        self.pipe.send(answer)


class _Ahead(gym.Wrapper[Any, Any, Any, Any]):
    """Fetches results of an environment in advance; `step` and `reset` return them later."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.fetched: deque[Any] = deque()

    def fetch_step(self, action: Any, *, restart: bool) -> None:
        """Step; with `restart`, also reset after the end of an episode."""
        result = self.env.step(action)
        self.fetched.append(result)
        if restart and (result[2] or result[3]):
            self.fetch_reset()

    def fetch_reset(self, **given: Any) -> None:
        """Reset."""
        self.fetched.append(self.env.reset(**given))

    def step(self, action: Any) -> Any:
        """The next fetched result, or else a step."""
        return self.fetched.popleft() if self.fetched else self.env.step(action)

    def reset(self, **given: Any) -> Any:
        """The next fetched result, or else a reset."""
        return self.fetched.popleft() if self.fetched else self.env.reset(**given)


class _AtOnce(VectorWrapper[Any, Any, Any]):
    """Steps copies that wait concurrently; Gymnasium then takes the fetched results."""

    def __init__(self, env: SyncVectorEnv) -> None:
        super().__init__(env)
        self.copies = [_Ahead(copy) for copy in env.envs]
        env.envs = list(self.copies)
        self.mode = env.autoreset_mode
        self.ended = np.zeros(self.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """As Gymnasium's, which refuses arguments of a wrong shape."""
        count = self.num_envs
        rest = None if options is None else dict(options)
        mask = np.asarray(rest.pop("reset_mask", [True] * count) if rest else [True] * count)
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + place for place in range(count)]
        if mask.shape == (count,) and mask.dtype == bool and len(seed) == count:
            self._fetch(
                [
                    partial(copy.fetch_reset, seed=seed[place], options=rest)
                    for place, copy in enumerate(self.copies)
                    if mask[place]
                ]
            )
            self.ended[mask] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        """As Gymnasium's."""
        given = zip(self.copies, iterate(self.env.action_space, actions), self.ended, strict=True)
        restart = self.mode == AutoresetMode.SAME_STEP
        self._fetch(
            [
                copy.fetch_reset if ended else partial(copy.fetch_step, action, restart=restart)
                for copy, action, ended in given
                if not (ended and self.mode == AutoresetMode.DISABLED)
            ]
        )
        result = self.env.step(actions)
        if not restart:
            self.ended = result[2] | result[3]
        return result

    def _fetch(self, calls: Sequence[Callable[[], None]]) -> None:
        for copy in self.copies:
            copy.fetched.clear()  # results left over from a call that raised
        call_concurrently(calls)
