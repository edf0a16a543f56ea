"""Rollouts in actors of Ray, on other machines: whole groups of episodes, never single steps.

An actor has environments and a tokenizer, and asks the servers of `engine.urls` for replies; it has
no policy. An episode depends on its task, seed and number only, so it is the one that would be
played here.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agent_envs.assets import require
from agent_envs.imports import describe_error, message_of
from agent_envs.machine import find_shortage
from trainer.engine import EngineError, Sampler
from trainer.engine.servers import Servers
from trainer.engine.vllm import VLLMSession
from trainer.model.chat import Chat
from trainer.play.rollout import Rollouts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trainer.engine import Decoding, EngineOptions
    from trainer.engine.vllm import VLLMEngine
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
        players = self.pool.prepare(engine.options, sampler.policy.chat, max(1, self.env.processes))
        order = Order(plain, sampler.decoding, engine.version, engine.backend.sent, seed)
        parts = divide_tasks(tasks, self.pool.actors)
        return self.pool.play(players, order, [Part(first + at, some) for at, some in parts])


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
        self._players: dict[Any, Any] = {}  # by the reference that is there when one has started

    def prepare(self, options: EngineOptions, chat: Chat, cores: int) -> list[Any]:
        """Start the actors that are missing, each with so many cores: -> those that are ready.

        Raises:
            EngineError: Ray does not start, or no actor does.
        """
        ray = self._ray
        if not ray.is_initialized():
            try:
                ray.init()  # on this machine, or with the cluster of `$RAY_ADDRESS`
            except (OSError, RuntimeError) as error:
                raise EngineError(
                    f"sampling.actors={self.actors}: Ray does not start ({describe_error(error)}): "
                    f"{find_shortage(error) or 'look at its logs in /tmp/ray'}"
                ) from error
        if self._made_with != (options, chat, cores):
            self._kill()
            self._made_with = options, chat, cores
        missing = self.actors - len(self._players)
        kind = ray.remote(Player).options(num_cpus=cores, scheduling_strategy="SPREAD")
        for _ in range(missing):
            given = options, chat.tokenizer, chat.settings
            player = kind.remote(sys.path, str(Path.cwd()), *given)
            self._players[player.ready.remote()] = player
        wait = options.patience if missing else 0  # what has not started by then is not awaited
        started, _ = ray.wait([*self._players], num_returns=self.actors, timeout=wait)
        if not started:
            self._kill()
            raise EngineError(
                f"no actor started within {options.patience:g} s (engine.patience): Ray's cluster "
                f"has {ray.available_resources().get('CPU', 0):g} free cores for "
                f"sampling.actors={self.actors} of {cores}; start more nodes with "
                "`ray start --address=...`, or lower sampling.actors"
            )
        return [self._players[one] for one in started]

    def play(
        self, players: Sequence[Any], order: Order, parts: Sequence[Part]
    ) -> list[Episode | Failure]:
        """Episodes of all parts; a part whose actor dies goes to another one.

        Raises:
            EngineError: All actors have died.
        """
        ray, idle, left = self._ray, list(players), deque(parts)
        playing: dict[Any, tuple[Any, Part]] = {}
        played: dict[int, list[Episode | Failure]] = {}
        try:
            while left or playing:
                while idle and left:
                    player, part = idle.pop(), left.popleft()
                    playing[player.play.remote(order, part)] = player, part
                (done,), _ = ray.wait(list(playing))
                player, part = playing.pop(done)
                try:
                    played[part.first] = ray.get(done)
                    idle.append(player)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from error
                except ray.exceptions.RayError as error:  # the actor or its machine is gone
                    self._kill(player)
                    left.append(part)
                    if not playing and not idle:
                        raise EngineError(
                            f"all actors of Ray died, at last: {message_of(error)}; look at Ray's "
                            "logs, and continue with --resume"
                        ) from None
        finally:
            if playing:  # after an error, in the middle of an episode
                self._kill()
        return [episode for part in parts for episode in played[part.first]]

    def _kill(self, *players: Any) -> None:
        """Kill some actors, by default all."""
        for ready, player in list(self._players.items()):
            if not players or player in players:
                self._ray.kill(player)
                del self._players[ready]


class Player:
    """An actor: plays tasks against the servers.

    Args:
        path: Where the trainer imports from, also for environments of a user's own.
        folder: The trainer's working folder, entered if it is there.
        options: Of the engine.
        tokenizer: Of the policy.
        settings: Of its chat.
    """

    def __init__(
        self,
        path: list[str],
        folder: str,
        options: EngineOptions,
        tokenizer: PreTrainedTokenizerBase,
        settings: dict[str, Any],
    ) -> None:
        sys.path.extend(entry or folder for entry in path if entry not in sys.path)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._servers = Servers(options, Path(folder))
        chat = Chat(tokenizer, **settings)
        self._reader: Any = SimpleNamespace(chat=chat, vision=None)  # of a policy
        self._kept: list[Rollouts] = []

    def ready(self) -> None:
        """Return when the actor has started."""

    def play(self, order: Order, part: Part) -> list[Episode | Failure]:
        """Play one episode of each task; environments are kept for the next time."""
        kept = next((one for one in self._kept if one == order.rollouts), None)
        if kept is None:
            self._kept.append(kept := order.rollouts)
        self._servers.require_weights(order.weights)
        engine: Any = SimpleNamespace(open=partial(self._open, order.version, part.first))
        sampler = Sampler(engine, self._reader, order.decoding)
        return kept.attempt(part.tasks, sampler, order.seed, first=part.first)

    def _open(
        self, version: int, first: int, seeds: Sequence[int], decoding: Decoding, *, fresh: bool
    ) -> VLLMSession:
        return VLLMSession(self._servers, self._reader.chat, version, seeds, decoding, fresh, first)
