"""The inside of a worker process: holds environments, and executes the calls of its owner.

It ends when the owner closes the pipe or ends in any other way.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from agent_envs.imports import describe_error
from trainer.play.environments import make_env, reply_form

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from trainer.play.environments import Env, PromptOptions

    Held = list[gym.Env[str, str] | None]

GRACE = 5.0
"""Seconds in which a worker whose pipe is closed ends its call and closes its environments."""


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
            with suppress(Exception):
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
        try:
            error.add_note(f"In the worker process:\n{traceback.format_exc()}")
            answer = pickle.dumps((False, error))
            pickle.loads(answer)  # noqa: S301 - our own
        except Exception:  # noqa: BLE001 - an error that cannot be made again from its pickle
            answer = pickle.dumps((False, RuntimeError(describe_error(error))))
        return answer


def make(held: Held, env: Env, prompt: PromptOptions, split: str) -> tuple[int, str, str]:
    """Make an environment: -> its number, the name of its class, its format of replies."""
    held.append(made := make_env(env, prompt, split=split))
    return len(held) - 1, type(made.unwrapped).__name__, reply_form(made)


def turn(
    held: Held, number: int, blind: tuple[str, ...], method: str, given: dict[str, Any]
) -> tuple[Any, list[Any] | None, dict[str, str]]:
    """Call `reset` or `step`: -> its result, the images and the blind prompts of the turn."""
    env: Any = held[number]
    result = getattr(env, method)(**given)
    blinded = {what: env.blind(what) for what in blind} if hasattr(env, "blind") else {}
    return result, getattr(env, "images", None), blinded


def apply(held: Held, number: int, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Call a function with an environment."""
    env: Any = held[number]
    return function(env, *given)


def close(held: Held, number: int) -> None:
    """Close an environment that is not used any more."""
    env, held[number] = held[number], None
    if env is not None:
        env.close()


def panel(held: Held, number: int) -> Any:
    """The panel of an environment."""
    env: Any = held[number]
    return env.unwrapped.panel
