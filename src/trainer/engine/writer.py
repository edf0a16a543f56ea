"""One reply that the own engine samples, and the draw of its next token.

With constrained decoding the actions of a row are a trie of tokens, and the reply a path through
it. Left out: the model, which `trainer.engine.own` runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch

from trainer.engine import UNBEGUN, Begun, Reply
from trainer.model.logprobs import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from torch import Tensor

    from trainer.model.vision import Picture

Trie: TypeAlias = "dict[int, Trie]"


def trie(replies: Iterable[Sequence[int]]) -> Trie:
    """Replies as a trie of their tokens."""
    root: Trie = {}
    for reply in replies:
        node = root
        for token in reply:
            node = node.setdefault(token, {})
    return root


class Feed(NamedTuple):
    """Tokens to encode next, and their images."""

    ids: tuple[int, ...]
    images: tuple[Picture, ...]


class Writer:
    """One reply being sampled: tokens to encode next, and its node in the trie of actions."""

    def __init__(
        self,
        feed: list[int],
        rng: np.random.Generator,
        node: Trie | None = None,
        images: tuple[Picture, ...] = (),
        begun: Begun = UNBEGUN,
    ) -> None:
        self.feed = [*feed, *begun.ids]
        self.without = begun.without  # tokens that the next one cannot be
        self.rng = rng
        self.images = images
        self.node = node
        self.done = False
        self.reply = Reply(allowed=None if node is None else [])
        for token in begun.ids:
            self._begin(token)
        if self.node and not self.allowed:
            raise ValueError(
                f"the next token of a reply can only be one of {list(self.node)}, and all of them "
                "are forbidden; leave some"
            )
        self._force()

    @property
    def allowed(self) -> list[int] | None:
        """The tokens that the next one can be; None for all."""
        if self.node is None:
            return None
        return [token for token in self.node if token not in self.without]

    def _begin(self, token: int) -> None:
        """Append a token that is given."""
        self.reply.add(token, 0.0, 0.0, [token])
        if self.node is not None:
            if token not in self.node:
                raise ValueError(
                    f"a reply begins with the tokens {self.reply.ids}, but no admissible action "
                    "does; give the first tokens of one"
                )
            self.node = self.node[token]

    def taken(self) -> Feed:
        """The tokens and images to encode now; images are only given once."""
        feed, self.images = Feed(tuple(self.feed), self.images), ()
        return feed

    def write(self, token: int, logprob: float, entropy: float) -> None:
        """Append a drawn token."""
        self.reply.add(token, logprob, entropy, self.allowed)
        self.feed = [token]
        self.without = ()
        if self.node is not None:
            self.node = self.node[token]
            self._force()

    def _force(self) -> None:
        """Append tokens while only one is allowed; they are encoded together."""
        while self.node and len(allowed := self.allowed or []) == 1:
            (token,) = allowed
            self.reply.add(token, 0.0, 0.0, allowed)
            self.feed.append(token)
            self.node = self.node[token]
            self.without = ()
        self.done = self.node is not None and not self.node


class Drawn(NamedTuple):
    """The next token of each of A rows: tokens, their log-probabilities and entropies [A]."""

    tokens: list[int]
    logprobs: list[float]
    entropies: list[float]


def draw(logits: Tensor, writers: Sequence[Writer], temperature: float, *, model: str) -> Drawn:
    """Draw the next token of each writer from its logits [A, V]; errors name the `model`.

    Raises:
        ValueError: A writer can have no token next.
        FloatingPointError: The logits are NaN or infinite.
    """
    allowed = [writer.allowed for writer in writers]
    scores = logits / temperature if temperature not in {0, 1} else logits
    scores = _excluding(_only(scores, allowed), [writer.without for writer in writers])
    logprob = scores.log_softmax(-1)
    p = logprob.exp()
    entropy = -torch.linalg.vecdot(p, logprob)
    if not torch.isfinite(entropy).all():
        raise FloatingPointError(
            f"the logits of {model!r} are NaN or infinite; resume from an earlier checkpoint"
        )
    if temperature == 0:
        token = scores.argmax(-1, keepdim=True)
    else:
        u = torch.tensor([[writer.rng.random()] for writer in writers], device=p.device)
        total = p.cumsum(-1)
        token = torch.searchsorted(total, u.clamp(max=1 - 1e-6) * total[:, -1:], right=True)
    chosen = logprob.gather(-1, token)[:, 0]
    return Drawn(token[:, 0].tolist(), chosen.tolist(), entropy.tolist())


def _only(scores: Tensor, allowed: list[list[int] | None]) -> Tensor:
    """Scores [A, V] with all but the allowed tokens masked; None allows all."""
    pairs = [(row, token) for row, tokens in enumerate(allowed) for token in tokens or ()]
    if not pairs:
        return scores
    rows, tokens = torch.tensor(pairs, device=scores.device).T
    masked = torch.full_like(scores, NEVER)
    masked[rows, tokens] = scores[rows, tokens]
    return masked


def _excluding(scores: Tensor, without: list[tuple[int, ...]]) -> Tensor:
    """Scores [A, V] without the tokens that a row cannot have next."""
    pairs = [(row, token) for row, tokens in enumerate(without) for token in tokens]
    if not pairs:
        return scores
    rows, tokens = torch.tensor(pairs, device=scores.device).T
    masked = scores.clone()
    masked[rows, tokens] = -torch.inf
    if not (masked > NEVER).any(-1).all():
        raise ValueError("the next token of a reply is forbidden to be any; leave some")
    return masked.clamp(min=NEVER)
