"""Conversations with vLLM.

They are sent whole; vLLM's prefix cache encodes what is new. There is no lock step: a reply is
drawn as soon as it is asked for. The seed of a request derives from the seed of its conversation
and the number of the turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainer.engine import UNBEGUN, Begun, Reply
from trainer.engine.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.engine.request import Backend
    from trainer.engine.sampling import Decoding
    from trainer.model.chat import Chat
    from trainer.model.vision import Picture


class Talks:
    """Conversations that are drawn each at its own pace.

    Args:
        backend: Where vLLM runs.
        chat: Chat of the policy.
        version: Version of the weights that vLLM has.
        seeds: Seed of each conversation.
        decoding: How replies are drawn.
        fresh: Whether each reply begins a new conversation.
        first: Number of the first conversation, where others are held at the same time.

    Raises:
        ValueError: Constrained decoding.
    """

    def __init__(
        self,
        backend: Backend,
        chat: Chat,
        version: int,
        seeds: Sequence[int],
        decoding: Decoding,
        *,
        fresh: bool,
        first: int = 0,
    ) -> None:
        if decoding.decode != "free":
            raise ValueError(
                f'decode={decoding.decode!r} needs engine.name="own": vLLM would cut a choice into '
                "other tokens than training computes"
            )
        backend.prepare()
        self.backend, self.decoding, self.fresh = backend, decoding, fresh
        self._chat, self._version, self._first = chat, version, first
        self._seeds = list(seeds)
        self._turns = [0] * len(seeds)
        self._ids: list[list[int] | None] = [[] for _ in seeds]
        self._ends = list(chat.ends)

    def room(self, row: int) -> int:
        """Tokens that still fit into vLLM's longest sequence after conversation `row`."""
        return self.backend.limit - (0 if self.fresh else len(self._ids[row] or ()))

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
        if begun != UNBEGUN:
            raise ValueError('replies that begin with given tokens need engine.name="own"')
        prompt = self._prompt(row, new_ids, images, admissible)
        seed = np.random.SeedSequence([self._seeds[row], self._turns[row]]).generate_state(1)[0]
        answer = await self.backend.answer(
            Request(self._first + row, prompt, int(seed), self.decoding, self._ends)
        )
        self._turns[row] += 1
        self._ids[row] = [] if self.fresh else [*prompt, *answer.ids]
        text = self._chat.text(answer.ids)
        return Reply(answer.ids, answer.logprobs, [], text, version=self._version)

    def leave(self, row: int) -> None:
        """End conversation `row`."""
        self._ids[row] = None

    def _prompt(
        self,
        row: int,
        new_ids: Sequence[int],
        images: Sequence[Picture],
        admissible: Sequence[str] | None,
    ) -> list[int]:
        past = self._ids[row]
        if past is None:
            raise ValueError(f"conversation {row} cannot ask: it was left")
        if not new_ids:
            raise ValueError(f"rows [{row}] got no new token; give each at least one")
        if images or admissible is not None:
            raise ValueError(
                'admissible actions are needed with decode="admissible" and only there, got some '
                'with decode="free"'
                if admissible is not None
                else "vLLM is given no images here"
            )
        prompt = [*past, *new_ids]
        if len(prompt) + 1 > self.backend.limit:
            raise ValueError(
                f"a conversation of {len(prompt) + 1} tokens is longer than the model's "
                f"{self.backend.limit} positions; lower max_turns or use context='turn'"
            )
        return prompt
