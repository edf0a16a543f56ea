"""The own engine: the policy in this process, whose conversations are sampled in lock step.

A turn is drawn when every running conversation has asked for it, so that the rows of a batch, and
with them the last bits of its sums, are the same in every run. `trainer.engine.conversations` does
the sampling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trainer.engine import UNBEGUN, Begun, Reply
from trainer.engine.conversations import Conversations
from trainer.engine.gather import Gather
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.engine.sampling import Decoding
    from trainer.model.policy import Policy
    from trainer.model.vision import Picture


class OwnEngine:
    """Samples from the policy itself, in this process; in several, from a whole copy in each.

    Raises:
        ValueError: The model has sliding-window or recurrent layers.
    """

    def __init__(self, policy: Policy, version: int = 0) -> None:
        config = policy.model.config.get_text_config()
        windowed = getattr(config, "sliding_window", None) is not None
        plain = ["sliding_attention" if windowed else "full_attention"]
        kinds = set(getattr(config, "layer_types", None) or plain)
        if kinds != {"full_attention"}:
            raise ValueError(
                f"sampling needs full-attention layers, but {policy.name!r} has "
                f"{', '.join(sorted(kinds))}; use another model"
            )
        self.policy = policy if parallel.size() == 1 else policy.replica()
        self.version = version

    def open(self, seeds: Sequence[int], decoding: Decoding, *, fresh: bool = False) -> LockStep:
        """Start a conversation for each seed; see `trainer.engine.Engine.open`."""
        return LockStep(self, seeds, decoding, fresh=fresh)

    def batch(self, rows: int, decoding: Decoding) -> Conversations:
        """Start `rows` conversations that are sampled by calls, without a schedule."""
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


class _Asked(NamedTuple):
    """What one conversation gives for its next reply."""

    new_ids: Sequence[int]
    images: Sequence[Picture]
    admissible: Sequence[str] | None
    begun: Begun


class LockStep:
    """Conversations of which each turn is one batch."""

    def __init__(
        self, engine: OwnEngine, seeds: Sequence[int], decoding: Decoding, *, fresh: bool
    ) -> None:
        self.engine, self.seeds, self.decoding, self.fresh = engine, seeds, decoding, fresh
        self._batch = engine.batch(len(seeds), decoding)
        self._turns = [0] * len(seeds)
        self._gather: Gather[_Asked, Reply] = Gather(range(len(seeds)), self._answer)

    def room(self, row: int) -> int:
        """Tokens that still fit into the model's positions after conversation `row`."""
        return self._batch.limit if self.fresh else self._batch.room(row)

    async def reply(
        self,
        row: int,
        new_ids: Sequence[int],
        *,
        images: Sequence[Picture] = (),
        admissible: Sequence[str] | None = None,
        begun: Begun = UNBEGUN,
    ) -> Reply:
        """The next reply of conversation `row`; see `trainer.engine.Session.reply`."""
        return await self._gather.ask(row, _Asked(new_ids, images, admissible, begun))

    def leave(self, row: int) -> None:
        """End conversation `row`; the cache is freed after the last one."""
        self._gather.leave(row)
        if self._gather.over:
            self._batch = self.engine.batch(0, self.decoding)

    def _answer(self, asked: dict[int, _Asked]) -> dict[int, Reply]:
        rows = list(asked)
        if self.fresh:
            self._batch = self.engine.batch(len(rows), self.decoding)
        listed = [one.admissible for one in asked.values()]
        replies = self._batch.reply(
            range(len(rows)) if self.fresh else rows,
            [one.new_ids for one in asked.values()],
            [[self.seeds[row], self._turns[row]] for row in rows],
            [one or () for one in listed] if any(one is not None for one in listed) else None,
            [one.images for one in asked.values()],
            begun=[one.begun for one in asked.values()],
        )
        for row in rows:
            self._turns[row] += 1
        return dict(zip(rows, replies, strict=True))
