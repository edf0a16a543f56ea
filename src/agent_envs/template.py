"""Template: the texts of a prompt, with slots for what an environment reports."""

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
)
BLIND_SLOTS = SLOTS[5:]
TURN_SLOTS = ("number", "before", "action", "after")


@dataclass(frozen=True)
class Template:
    """Texts with `{slots}`: `full` may use all of `SLOTS`, `blind` neither goal nor history.

    Args:
        full: the prompt of a turn.
        blind: the prompt without goal and history.
        past: a past turn in {action_history}: its number, what was seen before and after its
            action, and the action.
        first: the prompt of the first turn, where it is another.
        owner: class name of the environment whose own it is; "" for a user's template.

    Raises:
        ValueError: an unknown slot, or one that would let a blind prompt see.
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
