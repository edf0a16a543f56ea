"""The log-probability of the right answer, if the model gave it before each turn: IGPO and TRACE.

Each turn's prompt is followed by the opening of an answer and by the first answer that the
environment accepts; the mean log-probability of the answer's tokens becomes the column
`gold_logprob`. IGPO takes the policy, TRACE the frozen reference. Left out: gradients, and other
accepted answers. With context "history" a turn costs a pass over the conversation before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainer.learn.prompts import prompts
from trainer.learn.rows import Row, split_values
from trainer.learn.update import recompute_logprobs

if TYPE_CHECKING:
    from trainer.learn.update import Update
    from trainer.model.policy import Policy
    from trainer.play.records import Episode


def score_answers(
    policy: Policy, episodes: Sequence[Episode], update: Update, *, reference: bool
) -> NDArray[np.float64]:
    """Mean log-probability of the right answer's tokens before each turn: -> [N], nats.

    It is that of the policy, or of its frozen `reference`.
    """
    rows = list(_make_rows(policy, episodes))
    with policy.as_reference() if reference else nullcontext():
        known = recompute_logprobs(policy, rows, tokens=update.tokens, packed=update.packed)
    return np.array([values.mean() for values in split_values(rows, known)])


def _make_rows(policy: Policy, episodes: Sequence[Episode]) -> Iterator[Row]:
    """A row for each turn that scores the right answer in its place."""
    turn, plain = 0, policy.chat.plain
    for episode in episodes:
        opening = policy.chat.reply(episode.answer_opening)[:-1]
        answer = plain(episode.answer)
        for prompt in prompts(episode):
            before = [*prompt[""].ids, *opening]
            yield Row(
                ids=[*before, *answer],
                at=list(range(len(before), len(before) + len(answer))),
                turn=[turn] * len(answer),
                logprobs=[0.0] * len(answer),
                images=tuple(prompt[""].images),
            )
            turn += 1
