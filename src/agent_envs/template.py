"""Prompt templates: the texts of an environment's prompts, and the slots that they may have.

`prompt.Prompt` fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter

from agent_envs.panels import nearest

SLOTS = (
    "task_description",
    "step_count",
    "history_length",
    "action_history",
    "first_observation",
    "current_step",
    "current_observation",
    "admissible_actions",
    "agent",
)
BLIND_SLOTS = SLOTS[5:]
TURN_SLOTS = ("number", "before", "action", "after")


@dataclass(frozen=True)
class Template:
    """Prompt texts with `{slots}`. `full` may use all `SLOTS`; `blind` has no goal or history.

    Args:
        full: the prompt of a turn.
        blind: the prompt without goal and history.
        past: a past turn in {action_history}: its number, its action, and the observations before
            and after it.
        first: the prompt of the first turn, if it differs from `full`.
        owner: class name of the environment that it belongs to; "" for a user's template.

    Raises:
        ValueError: an unknown slot, or a slot for goal or history in `blind`.
    """

    full: str
    blind: str
    past: str = "[Observation {number}: '{before}', Action {number}: '{action}']"
    first: str = ""
    owner: str = ""

    def __post_init__(self) -> None:
        texts = {self.full: SLOTS, self.first: SLOTS, self.blind: BLIND_SLOTS}
        for text, slots in [*texts.items(), (self.past, TURN_SLOTS)]:
            for _, slot, _, _ in Formatter().parse(text):
                if slot is not None and slot not in slots:
                    raise ValueError(
                        f"unknown slot {{{slot}}}{nearest(slot, slots)}; known here are {slots}"
                    )
