"""Engines draw replies: tokens in; tokens, log-probabilities and the version of the weights out.

`own` is the reference and the default. An engine never sees text: the tokens of a reply go back
into the conversation as they were sampled. A reply depends on the weights, its conversation and its
seed, not on what is sampled beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from agent_envs.web import ServerError
from trainer.engine.sampling import Decoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.model.policy import Policy
    from trainer.model.vision import Picture


@dataclass(slots=True)
class Reply:
    """One sampled reply.

    Attributes:
        ids: Its tokens, with the end of the turn unless the reply was cut.
        logprobs: Log-probability of each token in the distribution it was drawn from, nats: the
            model's at the given temperature, renormalised over the allowed tokens if decoding is
            constrained.
        entropies: Entropy of that distribution at each token, nats; empty if the engine does not
            know it.
        text: The reply as text, without the end of the turn.
        allowed: With constrained decoding, the tokens allowed at each position, else None.
        version: Version of the weights that it was drawn from.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    text: str = ""
    allowed: list[list[int]] | None = None
    version: int = 0

    def add(self, token: int, logprob: float, entropy: float, allowed: list[int] | None) -> None:
        """Append one token."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)
        if self.allowed is not None and allowed is not None:
            self.allowed.append(allowed)


@dataclass(frozen=True, slots=True)
class Begun:
    """How a reply begins, e.g. to draw one that differs from known ones.

    Attributes:
        ids: Its first tokens. They are not drawn; their log-probability in the reply is 0.
        without: Tokens that the one after them cannot be; the others keep their proportions.
    """

    ids: tuple[int, ...] = ()
    without: tuple[int, ...] = ()


UNBEGUN = Begun()
"""All tokens of a reply are drawn."""


class EngineError(ServerError):
    """An engine cannot be reached or does not do its work; the message says what to do."""


class StaleWeights(EngineError):
    """An engine answers with other weights than it was given."""


class Session(Protocol):
    """Conversations that are sampled at the same time, numbered from 0."""

    def room(self, row: int) -> int:
        """Tokens that still fit into the model's positions after conversation `row`."""

    async def reply(
        self,
        row: int,
        new_ids: Sequence[int],
        *,
        images: Sequence[Picture] = (),
        admissible: Sequence[str] | None = None,
        begun: Begun = UNBEGUN,
    ) -> Reply:
        """Append `new_ids` to conversation `row` and sample its next reply.

        Args:
            row: Number of the conversation.
            new_ids: Tokens since its last reply, at least one.
            images: Images in the new tokens, in order.
            admissible: With `decode="admissible"`, the actions to choose from.
            begun: How the reply begins.

        Raises:
            ValueError: No new token, a conversation that was left or is longer than the model's
                positions, images that the engine cannot read, no admissible actions, or a beginning
                that the engine cannot give.
        """

    def leave(self, row: int) -> None:
        """End conversation `row`. The others may be waiting for it until it is left."""


class Engine(Protocol):
    """Draws replies from a copy of the policy's weights.

    Attributes:
        version: Version of its weights, the number of the last `sync`.
    """

    version: int

    def open(self, seeds: Sequence[int], decoding: Decoding, *, fresh: bool = False) -> Session:
        """Start a conversation for each seed.

        The n-th reply of a conversation depends on its seed and n. With `fresh`, each reply begins
        a new conversation, which has only the `new_ids` given for it.
        """

    def sync(self, policy: Policy, version: int) -> None:
        """Take over the weights of the policy under this version.

        Raises:
            StaleWeights: The engine still answers with other weights.
        """

    def close(self) -> None:
        """Free what the engine holds; it is not used afterwards."""


@dataclass(frozen=True)
class Sampler:
    """An engine, how it decodes, and the policy whose tokenizer cuts texts into tokens."""

    engine: Engine
    policy: Policy
    decoding: Decoding = field(default_factory=Decoding)

    def open(self, seeds: Sequence[int], *, fresh: bool = False) -> Session:
        """Start a conversation for each seed; see `Engine.open`."""
        return self.engine.open(seeds, self.decoding, fresh=fresh)


def conversation_seeds(seed: int, first: int, count: int) -> list[int]:
    """Seeds of conversations number `first` to `first + count - 1` of one step."""
    return [
        int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        for number in range(first, first + count)
    ]
