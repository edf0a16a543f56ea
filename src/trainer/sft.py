"""The warm start: demonstrations as episodes with tokens, and cross-entropy on their replies.

As in reinforcement learning, only reply tokens are trained on. Left out: mixing in other data.
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
        expert: Who demonstrates: "explorer", which knows only what it was shown, "oracle", which
            reads the solution, or a class "package.module:Name" of your own.
        episodes: Demonstrations of a step.
        learning_rate: Peak learning rate of the warm start.
        warmup: Steps of linear warm-up.
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
    """Episode with tokens from (observation, action) pairs.

    With context "history" the first text is the whole opening message and the others are the
    environment's messages. With "turn" each is the whole prompt of its turn. `form` is filled with
    the action and the expert's thoughts, if there are any.

    Raises:
        ValueError: There is no turn, or the context is unknown.
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
    """One optimiser step of cross-entropy on the replies of `rows`; `loss` is in nats per token.

    Raises:
        ValueError: There are no rows.
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
