"""The warm start: demonstrations as token rows, and cross-entropy on their replies.

Environment tokens are conditioned on and never predicted, as in reinforcement learning, so a
demonstration is an episode whose reply tokens come from text. Left out: mixing in other data.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from trainer.episodes import CONTEXTS, Episode, Step
from trainer.options import STRICT, Count, NonNegative, Positive
from trainer.sampling import FORM
from trainer.update import token_logprobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from trainer.batch import Batch, Row
    from trainer.chat import Chat
    from trainer.learner import Learner
    from trainer.policy import Policy


@dataclass(frozen=True, config=STRICT)
class Sft:
    """Warm start from an expert's demonstrations.

    Attributes:
        steps: Supervised steps before reinforcement learning, 0 for none.
        expert: Who demonstrates: the environment's "explorer", which knows only what it was shown,
            its "oracle", which reads the solution, or a class `package.module:Name` of your own.
        episodes: Demonstrations a step.
        learning_rate: Peak of the warm start.
        warmup: Steps of linear increase.
    """

    steps: Count = 0
    expert: str = "explorer"
    episodes: Positive = 16
    learning_rate: NonNegative = 1e-4
    warmup: Count = 0


def demonstration(
    chat: Chat,
    turns: Sequence[tuple[str, str]],
    *,
    context: str = "history",
    thoughts: Sequence[str] = (),
    form: str = FORM,
    task_id: str = "",
    goal: str = "",
) -> Episode:
    """The episode of (what the agent saw, the action it took) pairs, tokens included.

    With context "history" the first text is the whole opening message and later ones are the
    environment's messages; with "turn" each is the turn's whole prompt. A reply is written in
    `form`, with the action and, where they are given, the expert's thoughts.

    Raises:
        ValueError: No turn, or an unknown context.
    """
    if context not in CONTEXTS:
        raise ValueError(f"context is one of {', '.join(CONTEXTS)}, got {context!r}")
    if not turns:
        raise ValueError(f"the demonstration of {task_id!r} has no turn; leave it out")
    said = thoughts or [""] * len(turns)
    replies = [
        (observation, form.format(thought=thought, action=action))
        for (observation, action), thought in zip(turns, said, strict=True)
    ]
    pieces = (
        chat.conversation(replies)
        if context == "history"
        else [piece for turn in replies for piece in chat.conversation([turn])]
    )
    steps = [
        Step(seen, reply, action, prompt_ids, reply_ids)
        for (seen, reply), (_, action), (prompt_ids, reply_ids) in zip(
            replies, turns, pieces, strict=True
        )
    ]
    return Episode(task_id, goal, group=0, seed=0, context=context, steps=steps, success=True)


def imitate(
    learner: Learner[Policy], rows: Sequence[Row], *, aggregate: str = "token-mean"
) -> dict[str, float]:
    """One optimiser step towards the replies of `rows`; its figures, `loss` in nats a token.

    Raises:
        ValueError: No rows.
        NotFiniteError: The loss or the gradient is NaN or infinite.
    """
    if not rows:
        raise ValueError(
            "imitation needs at least one row, got 0; are all turns masked or too long?"
        )
    return learner.step(rows, partial(_likelihood, learner.model), aggregate=aggregate)


def _likelihood(policy: Policy, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    logprobs, entropies = token_logprobs(policy, batch)
    return logprobs, {"entropy": entropies}
