"""Rollouts in actors of Ray, on other machines: whole groups of episodes, never single steps.

An actor has environments and a tokenizer, and asks the servers of `engine.urls` for replies; it has
no policy. An episode depends on its task, seed and number only, so it is the one that would be
played here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agent_envs.assets import require
from agent_envs.imports import describe_error, message_of
from trainer.engine import EngineError, Sampler
from trainer.engine.servers import Servers
from trainer.engine.vllm import VLLMSession
from trainer.errors import find_shortage
from trainer.model.chat import Chat
from trainer.play.rollout import Rollouts
from trainer.run.stopping import stop_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

    from trainer.engine import Decoding, EngineOptions
    from trainer.engine.vllm import VLLMEngine
    from trainer.model.policy import Policy
    from trainer.play.failures import Failure
    from trainer.play.records import Episode, Task


class Order(NamedTuple):
    """How tasks are played: with which environments, weights of the servers, and seed."""

    rollouts: Rollouts
    decoding: Decoding
    version: int
    weights: Path
    seed: int


class Part(NamedTuple):
    """Some of the tasks, all of each group, and the number of the first."""

    first: int
    tasks: list[Task]


def divide_tasks(tasks: Sequence[Task], most: int) -> list[Part]:
    """The tasks in at most so many parts of about equal length; no group is divided."""
    parts: dict[int, Part] = {}
    first = 0
    for _, group in groupby(tasks, key=lambda task: task.group):
        part = parts.setdefault(first * most // len(tasks), Part(first, []))
        part.tasks.extend(group)
        first = part.first + len(part.tasks)
    return list(parts.values())


@dataclass(frozen=True)
class PooledRollouts(Rollouts):
    """Rollouts that are played in a pool. Experts demonstrate in this process.

    Attributes:
        pool: The pool.
    """

    pool: Pool = field(kw_only=True)

    def attempt(
        self, tasks: Sequence[Task], sampler: Sampler, seed: int, *, first: int = 0
    ) -> list[Episode | Failure]:
        """Play one episode of each task, in the order of `tasks`; see `Rollouts.attempt`.

        Raises:
            EngineError: No actor is there, or all have died.
        """
        plain = Rollouts(
            self.env, self.prompt, self.split,
            rows=self.rows, max_tokens=self.max_tokens, blind=self.blind,
        )  # fmt: skip
        engine = cast("VLLMEngine", sampler.engine)
        self.pool.prepare(engine.options, sampler.policy.tokenizer, max(1, self.env.processes))
        order = Order(plain, sampler.decoding, engine.version, engine.sent, seed)
        parts = divide_tasks(tasks, self.pool.actors)
        return self.pool.play(order, [Part(first + part.first, part.tasks) for part in parts])


class Pool:
    """Actors of Ray. One that died is replaced at the next `play`.

    Args:
        actors: How many.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(self, actors: int) -> None:
        self.actors = actors
        self._ray = require("ray", "ray")
        self._made_with: tuple[Any, ...] = ()
        self._patience = 0.0
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Part | None]] = {}  # by the reference to what is awaited

    def prepare(
        self, options: EngineOptions, tokenizer: PreTrainedTokenizerBase, cores: int
    ) -> None:
        """Start the actors that are missing, each with so many cores."""
        if not self._ray.is_initialized():
            self._init()
        if self._made_with != (options, tokenizer, cores):
            self._kill()
            self._made_with = options, tokenizer, cores
        self._patience = options.patience
        player = self._ray.remote(Player).options(num_cpus=cores, scheduling_strategy="SPREAD")
        for _ in range(self.actors - len(self._idle) - len(self._busy)):
            made = player.remote(sys.path, str(Path.cwd()), options, tokenizer)
            self._busy[made.ready.remote()] = made, None

    def _init(self) -> None:
        """Start Ray on this machine, or connect to the cluster of `$RAY_ADDRESS`.

        Raises:
            EngineError: It cannot.
        """
        try:
            self._ray.init()
        except Exception as error:
            hint = "look at Ray's logs in /tmp/ray, or set sampling.actors=0"
            raise EngineError(
                f"sampling.actors={self.actors}: Ray does not start ({describe_error(error)}): "
                f"{find_shortage(error) or hint}"
            ) from error

    def play(self, order: Order, parts: Sequence[Part]) -> list[Episode | Failure]:
        """Episodes of all parts; a part whose actor dies goes to another one."""
        left = deque(parts)
        played: dict[int, list[Episode | Failure]] = {}
        try:
            while len(played) < len(parts):
                while self._idle and left:
                    actor, next_part = self._idle.pop(), left.popleft()
                    self._busy[actor.play.remote(order, next_part)] = actor, next_part
                actor, part, found = self._next()
                if actor is not None:
                    self._idle.append(actor)
                    if part is not None:
                        played[part.first] = found
                elif part is not None:
                    left.append(part)
        except BaseException:
            self._kill()  # some are in the middle of an episode
            raise
        return [episode for part in parts for episode in played[part.first]]

    def _next(self) -> tuple[Any, Part | None, list[Episode | Failure]]:
        """The next actor that is ready, its part and episodes; None for one that died."""
        ray = self._ray
        works = any(part is not None for _, part in self._busy.values())
        done, _ = ray.wait(list(self._busy), timeout=None if works else self._patience)
        if not done:
            raise EngineError(
                f"no actor started within {self._patience:g} s (engine.patience): Ray's cluster "
                f"has {ray.available_resources().get('CPU', 0):g} free cores for "
                f"sampling.actors={self.actors} of {self._made_with[-1]}; start more nodes with "
                "`ray start --address=...`, or lower sampling.actors"
            )
        actor, part = self._busy.pop(done[0])
        try:
            return actor, part, ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:  # the actor, its machine or its result is gone
            ray.kill(actor)
            if not self._busy and not self._idle:
                raise EngineError(
                    f"all {self.actors} actors of Ray died, at last: {message_of(error)}"
                    "; look at Ray's logs, and continue with --resume"
                ) from None
            return None, part, []

    def _kill(self) -> None:
        for actor in [*self._idle, *(actor for actor, _ in self._busy.values())]:
            self._ray.kill(actor)
        self._idle.clear()
        self._busy.clear()


class Player:
    """An actor: plays tasks against the servers.

    Args:
        path: Where the trainer imports from, also for environments of a user's own.
        folder: The trainer's working folder, entered if it is there.
        options: Of the engine.
        tokenizer: Of the policy.
    """

    def __init__(
        self,
        path: list[str],
        folder: str,
        options: EngineOptions,
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(
                signal.SIGINT, stop_at_once
            )  # an environment's own KeyboardInterrupt differs
        sys.path.extend(entry or folder for entry in path if entry not in sys.path)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._servers = Servers(options, Path(folder))
        self._reader = _Reader(Chat(tokenizer))
        self._kept: list[Rollouts] = []

    def ready(self) -> None:
        """Return when the actor has started."""

    def play(self, order: Order, part: Part) -> list[Episode | Failure]:
        """Play one episode of each task; environments are kept for the next time."""
        kept = next((one for one in self._kept if one == order.rollouts), None)
        if kept is None:
            self._kept.append(kept := order.rollouts)
        self._servers.require_weights(order.weights)
        engine: Any = _Asking(self._servers, self._reader.chat, order.version, part.first)
        sampler = Sampler(engine, cast("Policy", self._reader), order.decoding)
        return kept.attempt(part.tasks, sampler, order.seed, first=part.first)


@dataclass(frozen=True)
class _Reader:
    """What rollouts read of a policy."""

    chat: Chat
    vision: None = None


@dataclass(frozen=True)
class _Asking:
    """An engine whose weights come from the trainer."""

    servers: Servers
    chat: Chat
    version: int
    first: int

    def open(self, seeds: Sequence[int], decoding: Decoding, *, fresh: bool = False) -> VLLMSession:
        return VLLMSession(
            self.servers, self.chat, self.version, seeds, decoding, fresh, self.first
        )
