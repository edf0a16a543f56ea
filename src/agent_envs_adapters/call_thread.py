"""A thread that makes the calls of one session, one after another.

It does not hold up an exit, and starts at the first call.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Made = TypeVar("_Made")


class CallThread:
    """A thread for the calls of a coroutine.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] | None = None

    async def result(self, call: Callable[[], _Made]) -> _Made:
        """The result of a call in the thread.

        Raises:
            BaseException: What the call raised.
        """
        if self._calls is None:
            self._calls = SimpleQueue()
            Thread(target=self._work, args=(self._calls,), name=self.name, daemon=True).start()
        made: Future[_Made] = Future()
        made.set_running_or_notify_cancel()
        self._calls.put((call, made))
        return await asyncio.wrap_future(made)

    def close(self) -> None:
        """End the thread after the calls that it has."""
        if self._calls is not None:
            self._calls.put(None)

    @staticmethod
    def _work(calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
        while (given := calls.get()) is not None:
            call, made = given
            try:
                made.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                made.set_exception(error)
