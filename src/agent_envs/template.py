"""Prompt templates: the texts of an environment's prompts, and the slots that they may have.

`prompt.Prompt` fills them in. The goal is found in texts, and left out of them.
"""

from __future__ import annotations

import re
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


def leave_out_goal(observation: str, goal: str) -> str:
    """The observation without the lines, or the parts between [SEP] marks, that state the goal."""
    wanted = goal.removesuffix(".")
    if not wanted or not says_goal(observation, goal):
        return observation
    joined = " ".join(wanted.split("\n"))
    kept = []
    for line in observation.replace(wanted, joined).split("\n"):
        pieces = [piece for piece in line.split(" [SEP] ") if not says_goal(piece, joined)]
        if pieces:
            kept.append(" [SEP] ".join(pieces))
    return "\n".join(kept).lstrip("\n")


def says_goal(text: str, goal: str) -> bool:
    """Whether a text has the goal as whole words, with or without its full stop."""
    wanted = goal.removesuffix(".")
    whole = rf"(?<!\w){re.escape(wanted)}(?!\w)"
    return not wanted or (wanted in text and bool(re.search(whole, text)))
