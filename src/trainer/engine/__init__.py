"""Engines draw replies: tokens in; tokens, log-probabilities and the version of the weights out.

`own` is the reference and the default. An engine never sees text: the tokens of a reply go back
into the conversation as they were sampled. A reply depends on the weights, its conversation and its
seed, not on what is sampled beside it. Left out: top-k and top-p, which sample from a distribution
that the update does not compute.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from agent_envs.net.web import ServerError, check_url
from agent_envs.replies import FORM, Form
from trainer.learn.correction import Correction
from trainer.options import STRICT, AboveZero, Count, NonNegative, Positive, Section, Share

if TYPE_CHECKING:
    from agent_envs.spaces import Picture
    from trainer.model.chat import Chat
    from trainer.model.policy import Policy

KEY = "VLLM_API_KEY"  # environment variable of the key of servers of vLLM, which read it, too
_PLACEHOLDER = re.compile(r"<\w[^<>]*>")
Trie: TypeAlias = "dict[int, Trie]"  # replies as paths of tokens


class EngineError(ServerError):
    """An engine cannot be reached or does not do its work; the message says what to do."""


class StaleWeights(EngineError):
    """An engine answers with other weights than it was given."""


@dataclass(frozen=True, config=STRICT)
class Decoding:
    """How a reply is drawn.

    Attributes:
        temperature: Divides the logits; 0 is greedy (log-probabilities are those of temperature 1).
        max_reply_tokens: Longer replies are cut, but admissible actions are written in full.
        decode: "free"; "admissible": the reply is `FORM` with an empty thought and one of the
            admissible actions; or "auto": that where the state lists actions, none of them with a
            placeholder as in `search[<keywords>]`, else free.
    """

    temperature: NonNegative = 1.0
    max_reply_tokens: Positive = 64
    decode: Literal["free", "admissible", "auto"] = "free"

    def constrains(self, actions: Sequence[str], form: Form) -> bool:
        """Whether the reply is one of these actions, in an environment that reads this form."""
        listed = bool(actions) and form == FORM and not any(map(_PLACEHOLDER.search, actions))
        return self.decode == "admissible" or (self.decode == "auto" and listed)


@dataclass(frozen=True, config=STRICT)
class Sampling(Decoding):
    """Rollouts of one step.

    Attributes:
        temperature: Above 0.
        tasks: Task groups of a step.
        rollouts: Rollouts of each task, K.
        rows: Episodes played at the same time, 0 for all; with `actors`, in each of them.
        actors: Actors of Ray that play the episodes (extra [ray]), 0 for this process; needs
            engine.urls.
        max_tokens: An episode ends as truncated if prompt and reply would exceed this length.
        redraws: How often groups with equal outcomes are replaced by other tasks (DAPO's dynamic
            sampling).
        ahead: 1 samples the next step during this step's update, with the weights before it; needs
            an engine with weights of its own.
        failures: Share of the episodes of a step that may be lost because their environment failed;
            more end the run. One is always allowed, unless this is 0.
        recorded: With credit.name "dpo", folder of episode files (`episodes/` of a run) to learn
            from instead of new rollouts; "" for new rollouts.
    """

    temperature: AboveZero = 1.0
    tasks: Positive = 16
    rollouts: Positive = 8
    rows: Count = 0
    actors: Count = 0
    max_tokens: Positive = 4096
    redraws: Count = 0
    ahead: Annotated[int, Field(ge=0, le=1)] = 0
    failures: Share = 0.05
    recorded: str = ""


@dataclass(frozen=True, config=STRICT | {"hide_input_in_errors": True})  # may hold a password
class EngineOptions(Section):
    """Where replies are sampled.

    Attributes:
        name: "own", or "vllm" (extra [vllm]).
        urls: With "vllm", servers of `vllm serve`, e.g. ["http://gpu1:8000"]; none for vLLM in this
            process.
        options: With vLLM in this process, options of `vllm.LLM`, such as max_model_len;
            gpu_memory_utilization is 0.4 by default, as the update needs memory, too.
        patience: Seconds for which a request without an answer is sent again.
        tolerance: Largest mean difference of log-probabilities, in nats, between engine and policy
            after a sync; 0 for 0.001 in float32 and 0.1 in bfloat16.
        correction: Importance weights where engine and policy differ.
    """

    unread: ClassVar[dict[str, str]] = {
        "name=own": "urls options patience tolerance",
        "urls=()": "patience",
        "urls!=()": "options",
    }

    name: Literal["own", "vllm"] = "own"
    urls: tuple[str, ...] = ()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    patience: NonNegative = 300.0
    tolerance: NonNegative = 0.0
    correction: Correction = dataclasses.field(default_factory=Correction)

    def __post_init__(self) -> None:
        super().__post_init__()
        example, advice = "http://gpu1:8000", f"put the servers' key into ${KEY}"
        for url in self.urls:
            check_url(url, rule="engine.urls must be", example=example, advice=advice)

    @property
    def corrects(self) -> bool:
        """Whether gains get importance weights."""
        auto = self.correction.level == "auto"
        return self.name != "own" if auto else self.correction.level != "none"


class Begun(NamedTuple):
    """How a reply begins, e.g. to draw one that differs from known ones; the own engine only.

    Attributes:
        ids: Its first tokens, fewer than a reply may have. They are not drawn; their
            log-probability in the reply is 0.
        without: Tokens that the one after them cannot be; the others keep their proportions.
    """

    ids: tuple[int, ...] = ()
    without: tuple[int, ...] = ()


UNBEGUN = Begun()  # all tokens of a reply are drawn


class Prompt(NamedTuple):
    """What a conversation continues with before its next reply.

    Attributes:
        ids: Tokens since the last reply, at least one.
        images: Images in these tokens, in order; the own engine only.
        admissible: With constrained decoding, the actions to choose from.
        begun: How the reply begins.
    """

    ids: Sequence[int]
    images: Sequence[Picture] = ()
    admissible: Sequence[str] = ()
    begun: Begun = UNBEGUN


@dataclasses.dataclass(slots=True)
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

    ids: list[int] = dataclasses.field(default_factory=list)
    logprobs: list[float] = dataclasses.field(default_factory=list)
    entropies: list[float] = dataclasses.field(default_factory=list)
    text: str = ""
    allowed: list[list[int]] | None = None
    version: int = 0


class Session(Protocol):
    """Conversations that are sampled at the same time, numbered from 0."""

    def room(self, row: int) -> int:
        """Tokens that still fit into the model's positions after conversation `row`."""

    async def reply(self, row: int, prompt: Prompt) -> Reply:
        """Append a prompt to conversation `row` and sample its next reply.

        Raises:
            ValueError: The conversation is longer than the model's positions.
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
        a new conversation, which has only the prompt given for it.
        """

    def sync(self, policy: Policy, version: int) -> None:
        """Take over the weights of the policy under this version.

        Raises:
            StaleWeights: The engine still answers with other weights.
        """

    def close(self) -> None:
        """Free what the engine holds; it is not used afterwards."""


@dataclasses.dataclass(frozen=True)
class Sampler:
    """An engine, how it decodes, and the policy whose tokenizer cuts texts into tokens."""

    engine: Engine
    policy: Policy
    decoding: Decoding = dataclasses.field(default_factory=Decoding)

    def open(self, seeds: Sequence[int], *, fresh: bool = False) -> Session:
        """Start a conversation for each seed; see `Engine.open`."""
        return self.engine.open(seeds, self.decoding, fresh=fresh)


def make_trie(chat: Chat, actions: Sequence[str]) -> Trie:
    """Replies with these actions as a trie of their tokens."""
    root: Trie = {}
    for action in actions:
        node = root
        for token in chat.reply(FORM.write(action)):
            node = node.setdefault(token, {})
    return root


def list_allowed(trie: Trie, ids: Sequence[int]) -> Iterator[list[int]]:
    """The tokens that a trie allows at each token of one of its replies."""
    for token in ids:
        yield list(trie)
        trie = trie[token]


def conversation_seeds(seed: int, first: int, count: int) -> list[int]:
    """Seeds of conversations number `first` to `first + count - 1` of one step."""
    return [
        int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        for number in range(first, first + count)
    ]


def check_length(length: int, limit: int) -> None:
    """Refuse a conversation that the model has no positions for."""
    if length > limit:
        raise ValueError(
            f"a conversation of {length} tokens is longer than the model's {limit} positions"
        )
