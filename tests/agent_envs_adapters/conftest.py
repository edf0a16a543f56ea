"""A recorded batch for the tests of adapters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent_envs_adapters.episodes import Episodes
from trainer.play.records import Episode, Step

if TYPE_CHECKING:
    from credit import TurnRecord


if find_spec("peft"):  # the extra [train], which some peers do without
    from tests.trainer.conftest import *  # noqa: F403 - its fixtures
    from tests.trainer.conftest import _one_thread, _unreported  # noqa: F401


@dataclass(frozen=True)
class Recorded:
    """Episodes of a random player, in the forms of our trainer and of adapters.

    Attributes:
        episodes: As our trainer records them, with context "history".
        records: The turn records of each; a span counts from the first token of the episode.
        uid: Task group of each.
    """

    episodes: list[Episode]
    records: list[list[TurnRecord]]
    uid: list[str]

    @property
    def ids(self) -> list[list[int]]:
        """All tokens of each episode."""
        return [
            [token for step in episode.steps for token in (*step.prompt_ids, *step.reply_ids)]
            for episode in self.episodes
        ]

    def mask(self, length: int = 0) -> np.ndarray:
        """Whether a token is of a reply: [M, T]."""
        rows = np.zeros((len(self.episodes), length or max(map(len, self.ids))), dtype=int)
        for row, turns in enumerate(self.records):
            for turn in turns:
                rows[row, turn.span[0] : turn.span[1]] = 1
        return rows


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """3 groups of 4 episodes of AlfWorld: admissible actions, nonsense, and malformed replies."""
    source = Episodes("AlfWorld-v0", max_turns=6, invalid_penalty=-0.1)
    rng = np.random.default_rng(7)
    episodes, records, uid = [], [], []
    for group, task in enumerate(source.tasks(3, seed=1)):
        for _ in range(4):
            played = source.start(**task)
            steps, kept, at = [], [], 0
            while not played.done:
                said = played.message
                actions = [*played.info["admissible_actions"], "fly away"]
                action = actions[rng.integers(len(actions))]
                reply = (
                    action if rng.random() < 0.2 else f"<think>so</think><action>{action}</action>"
                )
                played.step(reply)
                prompt, tokens = [
                    list(text.encode()[: rng.integers(3, 9)]) for text in (said, reply)
                ]
                entropies = rng.exponential(size=len(tokens)).tolist()
                record = played.records[-1]
                span = at + len(prompt), at + len(prompt) + len(tokens)
                at = span[1]
                entropy = sum(entropies) / len(entropies)
                kept.append(replace(record, span=span, entropy=entropy))
                steps.append(
                    Step(
                        observation=said,
                        reply=reply,
                        prompt_ids=prompt,
                        reply_ids=tokens,
                        entropies=entropies,
                        **{
                            name: getattr(record, name)
                            for name in ("action", "reward", "valid", "invalid_reason")
                        },
                        progress=record.progress,
                        anchor=record.anchor,
                    )
                )
            # few random players succeed: outcomes are drawn
            outcome = float(rng.random() < 0.5)
            kept[-1] = replace(kept[-1], outcome=outcome, success=bool(outcome))
            episodes.append(
                Episode(
                    task_id=played.task_id,
                    goal=played.goal,
                    group=group,
                    seed=task["seed"],
                    context="history",
                    steps=steps,
                    outcome=outcome,
                    success=bool(outcome),
                )
            )
            records.append(kept)
            uid.append(f"task {group}")
            source.release(played)
    return Recorded(episodes, records, uid)
