"""Log-probabilities and entropies of reply tokens, in chunks of tokens.

The logits of P tokens over a vocabulary of V are the largest tensor of an update. Here they exist
for one chunk at a time, in the forward and in the backward pass, which computes them again. Whole
distributions, which an exact KL needs, are left out: see `trainer.learn.update.token_scores`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# Logits of a chunk: 128 MiB in float32, three times as much at the peak.
CHUNK = 2**25
# Logit of a token that cannot be drawn.
NEVER = -1e9
_SMALL, _LARGE = 1e-3, 1e6


class Finish(NamedTuple):
    """What a model does to the logits of its output layer: x -> cap * tanh(scale * x / cap).

    Granite and Cohere scale them, Gemma 2 caps them; most models return them as they are.
    """

    scale: float = 1.0
    cap: float = math.inf

    @classmethod
    def detect(cls, finish: Callable[[Tensor], Tensor], size: int) -> Self | None:
        """The one that equals `finish`, a function of the logits of some tokens [1, T, V], if any.

        `finish` is called once.
        """
        points = torch.linspace(-60, 60, size)
        given = torch.stack([points, torch.full_like(points, _SMALL), points * 0 + _LARGE])[None]
        seen = finish(given).float().cpu()
        if seen.shape != given.shape:
            return None
        scale, largest = seen[0, 1, 0].item() / _SMALL, seen[0, 2, 0].item()
        scale = 1.0 if math.isclose(scale, 1.0, rel_tol=1e-5) else scale
        capped = not math.isclose(largest, scale * _LARGE, rel_tol=1e-3)
        made = cls(scale, largest if capped else math.inf)
        return made if torch.allclose(made(given), seen, rtol=1e-4, atol=1e-5) else None

    def __call__(self, logits: Tensor) -> Tensor:
        """The logits that the model returns, of the same shape."""
        if self.scale != 1:
            logits = logits * self.scale
        return logits if math.isinf(self.cap) else self.cap * torch.tanh(logits / self.cap)


@dataclass(frozen=True)
class Head:
    """From last hidden states to the logits that the model would return: [P, D] -> [P, V] float32.

    Attributes:
        layer: The output layer.
        finish: What the model does to its result.
        never: Tokens that are never drawn.
    """

    layer: Callable[[Tensor], Tensor]
    finish: Finish
    never: Tensor | None

    def __call__(self, states: Tensor) -> Tensor:
        """The logits."""
        logits = self.finish(self.layer(states))
        return logits if self.never is None else logits.index_fill(1, self.never, NEVER)


@dataclass(frozen=True)
class Replies:
    """The P reply tokens, and how they were drawn.

    Attributes:
        target: The tokens, [P] int.
        size: Tokens of the vocabulary, V.
        temperature: The logits are divided by it.
        allowed: Pairs (reply token, allowed token) of constrained decoding, [Q, 2] int, or None.
    """

    target: Tensor
    size: int
    temperature: float = 1.0
    allowed: Tensor | None = None

    def scores(self, logits: Tensor) -> Tensor:
        """Logits of the distributions that the tokens were drawn from: [P, V] -> [P, V]."""
        if self.temperature != 1:
            logits = logits / self.temperature
        if self.allowed is None:
            return logits
        token, choice = self.allowed.unbind(1)
        away = torch.zeros_like(logits, dtype=torch.bool)
        away[token] = True
        away[token, choice] = False
        return logits.masked_fill(away, NEVER)

    def parts(self) -> Iterator[tuple[slice, Replies]]:
        """Chunks of at most `CHUNK` logits, at least one token each, with their places."""
        step = max(1, CHUNK // self.size)
        for start in range(0, len(self.target), step):
            allowed = self.allowed
            if allowed is not None:
                token = allowed[:, 0]
                allowed = allowed[(token >= start) & (token < start + step)]
                allowed = allowed - allowed.new_tensor([start, 0])
            place = slice(start, start + step)
            yield place, Replies(self.target[place], self.size, self.temperature, allowed)


def logprobs(replies: Replies, states: Tensor, head: Head) -> Tensor:
    """Log-probabilities of the reply tokens, from the states that predict them: [P, D] -> [P]."""
    return _compute_chunks(_logprobs, replies, states, head)


def are_likeliest(replies: Replies, states: Tensor, head: Head) -> Tensor:
    """Whether each reply token is the likeliest one: [P, D] -> [P], 0 or 1."""
    return _compute_chunks(_are_likeliest, replies, states, head)


def with_entropies(replies: Replies, states: Tensor, head: Head) -> Tensor:
    """Log-probabilities, and entropies without gradients: [P, D] -> [P, 2], nats."""
    return _compute_chunks(partial(_with_entropies, gradient=False), replies, states, head)


def with_entropy_gradients(replies: Replies, states: Tensor, head: Head) -> Tensor:
    """Log-probabilities and entropies, both with gradients: [P, D] -> [P, 2], nats."""
    return _compute_chunks(partial(_with_entropies, gradient=True), replies, states, head)


def _compute_chunks(
    value: Callable[[Tensor, Head, Replies], Tensor], replies: Replies, states: Tensor, head: Head
) -> Tensor:
    """Values of all tokens; the backward pass computes those of all chunks but the last again."""
    found: list[Tensor] = []
    for place, part in replies.parts():
        again = torch.is_grad_enabled() and place.stop < len(replies.target)
        found.append(
            checkpoint(
                value, states[place], head, part, use_reentrant=False, preserve_rng_state=False
            )
            if again
            else value(states[place], head, part)
        )
    return torch.cat(found)


def _logprobs(states: Tensor, head: Head, replies: Replies) -> Tensor:
    every = replies.scores(head(states)).log_softmax(-1)
    return every.gather(-1, replies.target[:, None])[:, 0]


def _are_likeliest(states: Tensor, head: Head, replies: Replies) -> Tensor:
    return (replies.scores(head(states)).argmax(-1) == replies.target).float()


def _with_entropies(states: Tensor, head: Head, replies: Replies, *, gradient: bool) -> Tensor:
    every = replies.scores(head(states)).log_softmax(-1)
    found = every.gather(-1, replies.target[:, None])[:, 0]
    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        entropies = -torch.linalg.vecdot(every.exp(), every)
    return torch.stack([found, entropies], -1)
