"""What vLLM is asked and answers, in this process or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from trainer.engine.sampling import Decoding
    from trainer.model.policy import Policy

WORKER = "trainer.engine.worker.Take"


class Request(NamedTuple):
    """A prompt of a conversation, and how its reply is drawn."""

    conversation: int
    ids: list[int]
    seed: int
    decoding: Decoding
    ends: list[int]


class Answer(NamedTuple):
    """Tokens of a reply and their log-probabilities, nats."""

    ids: list[int]
    logprobs: list[float]


class Backend(Protocol):
    """Where vLLM runs.

    Attributes:
        limit: Most tokens of prompt and reply.
    """

    limit: int

    def prepare(self) -> None:
        """Called before conversations begin."""

    async def answer(self, request: Request) -> Answer:
        """The reply to a request."""

    def take(self, policy: Policy, version: int) -> None:
        """Take over the weights of the policy."""

    def close(self) -> None:
        """Free everything."""


def parameters(request: Request) -> dict[str, Any]:
    """Sampling parameters of a request, by vLLM's names."""
    return {
        "temperature": request.decoding.temperature,
        "max_tokens": request.decoding.max_reply_tokens,
        "seed": request.seed,
        "stop_token_ids": request.ends,
        "ignore_eos": True,  # only the ends of the chat template end a turn
        "logprobs": 0,  # of the drawn token itself
    }
