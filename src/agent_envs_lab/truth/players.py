"""Players in several processes. A process ends with the one that started it, however that ends."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

import torch

from agent_envs_lab.truth.player import Player

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trainer.recipe import Recipe

_start: tuple[Recipe, Path | None, bool]
"""What the player of this process is made of."""


class KilledError(OSError):
    """A process that played was killed; the message says what to do."""


class Players:
    """Players in worker processes, or one in this process.

    Args:
        recipe, source, plain: As for `Player`.
        jobs: Number of processes; 1 for none beside this one.
    """

    def __init__(self, recipe: Recipe, source: Path | None, jobs: int, *, plain: bool) -> None:
        self.recipe, self.source = recipe, source
        start = recipe, source, plain
        self._pool: ProcessPoolExecutor | None = None
        if jobs == 1:
            _begin(*start)
        else:
            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(
                jobs, context, initializer=_begin_in_child, initargs=start
            )

    def each(self, method: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """The result of each call, in order.

        Raises:
            KilledError: A process was killed.
        """
        if self._pool is None:
            yield from (_call(method, arguments) for arguments in calls)
            return
        try:
            futures = [self._pool.submit(_call, method, arguments) for arguments in calls]
            yield from (future.result() for future in futures)
        except BrokenProcessPool as error:
            raise KilledError(
                "a process of the measurement was killed, most likely for its memory; lower "
                "sampling.rows or --jobs and start the same command again: it goes on"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """End this process at once when the one that started it has ended, also if it was killed."""

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def _begin_in_child(recipe: Recipe, source: Path | None, plain: bool) -> None:
    end_with_parent()
    _begin(recipe, source, plain)


def _begin(recipe: Recipe, source: Path | None, plain: bool) -> None:
    global _start  # noqa: PLW0603 - one for each process
    _start = recipe, source, plain
    _player.cache_clear()


@cache
def _player() -> Player:
    """The player of this process; made by the first call, which has the error if it cannot be."""
    recipe, source, plain = _start
    torch.set_num_threads(recipe.run.threads or 1)
    return Player(recipe, source, plain=plain)


def _call(method: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(_player(), method)(*arguments)
