"""The turns of an episode as records for another trainer."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from credit.rows import TurnRecord

if TYPE_CHECKING:
    from trainer.play.records import Step


class Recorded:
    """An episode whose turns are also records; `TextEpisode` has the rest."""

    task_id: str
    goal: str
    steps: list[Step]
    done: bool
    success: bool
    outcome: float

    def stop(self) -> None:
        """End the episode where it is."""
        raise NotImplementedError

    @property
    def records(self) -> list[TurnRecord]:
        """The turns as records for another trainer; the last has the outcome if it has ended."""
        last = len(self.steps) - 1 if self.done else None
        return [
            TurnRecord(
                task_id=self.task_id,
                goal=self.goal,
                step=number,
                action=step.action,
                anchor=step.anchor,
                valid=step.valid,
                invalid_reason=step.invalid_reason,
                progress=step.progress,
                progress_before=step.progress_before,
                reward=step.reward,
                turn_reward=step.turn_reward,
                outcome=self.outcome if number == last else None,
                success=self.success if number == last else None,
            )
            for number, step in enumerate(self.steps)
        ]

    @property
    def stopped_records(self) -> list[TurnRecord]:
        """The records as they are if the episode ends here; it goes on."""
        stopped = copy.copy(self)
        stopped.steps = [*self.steps]
        stopped.stop()
        return stopped.records
