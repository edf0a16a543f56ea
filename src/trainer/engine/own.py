"""The own engine: the policy in this process, whose conversations are sampled in lock step.

A turn is drawn when every running conversation has asked for it, so that the rows of a batch, and
with them the last bits of its sums, are the same in every run. `trainer.engine.conversations` does
the sampling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from trainer.scale import parallel

if TYPE_CHECKING:
    from trainer.engine import Decoding, Prompt, Reply
    from trainer.engine.conversations import Conversations
    from trainer.model.policy import Policy

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


class OwnEngine:
    """Samples from the policy itself, in this process; in several, from a whole copy in each.

    Raises:
        ValueError: The model has layers that are neither full nor sliding-window attention.
    """

    def __init__(self, policy: Policy, version: int = 0) -> None:
        from trainer.engine.conversations import read_windows

        others = read_windows(policy).keys() - {"full_attention", "sliding_attention"}
        if others:
            raise ValueError(
                f"{policy.name!r} has layers of {', '.join(sorted(others))}, and the own engine "
                "samples full_attention and sliding_attention; set engine.name='vllm'"
            )
        self.policy = policy if parallel.size() == 1 else policy.replica()
        self.version = version

    def open(self, seeds: Sequence[int], decoding: Decoding, *, fresh: bool = False) -> LockStep:
        """Start a conversation for each seed; see `trainer.engine.Engine.open`."""
        return LockStep(self, seeds, decoding, fresh=fresh)

    def batch(self, rows: int, decoding: Decoding) -> Conversations:
        """Start `rows` conversations that are sampled by calls, without a schedule."""
        from trainer.engine.conversations import Conversations  # loads transformers

        return Conversations(self.policy, rows, decoding, self.version)

    def sync(self, policy: Policy, version: int) -> None:
        """Sample from the weights of `policy` under this version."""
        if parallel.size() == 1:
            self.policy = policy
        else:
            self.policy.update(policy)
        self.version = version

    def close(self) -> None:
        """Nothing is held."""


class LockStep:
    """Conversations of which each turn is one batch."""

    def __init__(
        self, engine: OwnEngine, seeds: Sequence[int], decoding: Decoding, *, fresh: bool
    ) -> None:
        self.engine, self.seeds, self.decoding, self.fresh = engine, seeds, decoding, fresh
        self._batch = engine.batch(len(seeds), decoding)
        self._turns = [0] * len(seeds)
        self._gather: Gather[Prompt, Reply] = Gather(range(len(seeds)), self._sample)

    def room(self, row: int) -> int:
        """Tokens that still fit into the model's positions after conversation `row`."""
        return self._batch.limit if self.fresh else self._batch.room(row)

    async def reply(self, row: int, prompt: Prompt) -> Reply:
        """The next reply of conversation `row`; see `trainer.engine.Session.reply`."""
        return await self._gather.ask(row, prompt)

    def leave(self, row: int) -> None:
        """End conversation `row`; the cache is freed after the last one."""
        self._gather.leave(row)
        if not self._gather.members:
            self._batch = self.engine.batch(0, self.decoding)

    def _sample(self, prompts: dict[int, Prompt]) -> dict[int, Reply]:
        """Sample the next reply of each conversation."""
        rows = list(prompts)
        seeds = [[self.seeds[row], self._turns[row]] for row in rows]
        if self.fresh:
            self._batch = self.engine.batch(len(rows), self.decoding)
        places = range(len(rows)) if self.fresh else rows
        replies = self._batch.reply(places, list(prompts.values()), seeds)
        for row in rows:
            self._turns[row] += 1
        return dict(zip(rows, replies, strict=True))


class Gather(Generic[_Request, _Answer]):
    """Answers one request of each member in one call, when every member has asked or left.

    All methods are called from one event loop. An error of the call is raised by the member that
    asked or left last; the others are to be cancelled then.

    Args:
        members: Who will ask.
        answer: Requests by member, in increasing order -> an answer for each. It blocks the loop,
            in which nothing else is due.
    """

    def __init__(
        self, members: Iterable[int], answer: Callable[[dict[int, _Request]], dict[int, _Answer]]
    ) -> None:
        self.members = set(members)
        self._answer = answer
        self._waiting: dict[int, tuple[_Request, asyncio.Future[_Answer]]] = {}

    async def ask(self, member: int, request: _Request) -> _Answer:
        """The answer to a request, with those of all other members."""
        answered: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting[member] = request, answered
        self._answer_if_complete()
        return await answered

    def leave(self, member: int) -> None:
        """Stop waiting for a member; leaving twice is allowed."""
        self.members.discard(member)
        self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        if not self.members or self._waiting.keys() != self.members:
            return
        waiting, self._waiting = dict(sorted(self._waiting.items())), {}
        answers = self._answer({member: request for member, (request, _) in waiting.items()})
        for member, (_, future) in waiting.items():
            if not future.cancelled():
                future.set_result(answers[member])
