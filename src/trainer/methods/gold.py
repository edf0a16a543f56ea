"""IGPO and TRACE: the log-probability of the right answer, if the model gave it before each turn.

Each turn's prompt is followed by the opening of an answer and by the first answer that the
environment accepts; the mean log-probability of the answer's tokens becomes the column
`gold_logprob`. IGPO takes the policy, TRACE the frozen reference. Left out: gradients, and other
accepted answers. With context "history" a turn costs a pass over the conversation before it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import credit
from trainer.learn.batch import Row, credit_rows
from trainer.learn.prompts import prompts
from trainer.learn.update import recompute_logprobs
from trainer.methods.method import Credited, Method
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainer.learn.update import Update
    from trainer.methods.method import Experience
    from trainer.play.records import Episode


class WithGold(Method):
    """Advantages of an estimator that reads `gold_logprob`."""

    def __init__(self, estimator: credit.Estimator, update: Update) -> None:
        super().__init__(estimator)
        self.update = update
        self.needs_reference = isinstance(estimator, credit.TRACE)

    def credit(self, experience: Experience) -> Credited:
        """Advantages from the answer's log-probabilities, which are computed first."""
        with self.policy.as_reference() if self.needs_reference else nullcontext():
            known = recompute_logprobs(
                self.policy,
                list(self._rows(experience.episodes)),
                tokens=self.update.tokens,
                packed=self.update.packed,
            )
        gold = np.array([np.mean(values) for values in known])
        turns = replace(experience.turns, gold_logprob=gold, outcome_in_reward=False)
        advantage = parallel.run_on_first(
            lambda: credit.estimate(self.estimator, turns, experience.rng)
        )
        figures = {"gold_probability": float(np.exp(gold).mean())}
        return Credited(credit_rows(experience.rows, advantage), advantage, figures)

    def _rows(self, episodes: Sequence[Episode]) -> Iterator[Row]:
        """A row for each turn that scores the right answer in its place."""
        turn, plain = 0, self.policy.chat.plain
        for episode in episodes:
            opening, answer = plain(episode.answer_opening), plain(episode.answer)
            for prompt in prompts(episode):
                before, images = [*prompt[""].ids, *opening], prompt[""].images
                yield Row(
                    ids=[*before, *answer],
                    at=list(range(len(before), len(before) + len(answer))),
                    turn=[turn] * len(answer),
                    logprobs=[0.0] * len(answer),
                    images=tuple(images),
                )
                turn += 1
