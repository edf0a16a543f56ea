"""The prompts of Sokoban-v0 and VisualSokoban-v0: iStar's (Fig. 7), by default with past actions.

The drawings that `IMAGE_TEMPLATE` and `ISTAR` describe are our own.
"""

from __future__ import annotations

from agent_envs.template import Template

_ROLE = "You are an expert agent operating in the Sokoban environment."

_RULES = """
Your goal is to push all the boxes onto the target spots. Once all boxes are on the targets, you \
win!

# Rules
You can only push boxes. You can't pull them, so plan ahead to avoid getting stuck.
You can't walk through or push boxes into walls.
To avoid traps, do not push boxes into corners or against walls where they can't be moved again.
"""

_DRAWING = """
# Visual Elements in the Image:
Character: A small, round, blue figure with two eyes. It represents you.
Box: A brown crate with a beam across its front. It is the box you need to push.
Target: A red ring. It marks the destination where a box should be pushed.
"""

_SYMBOLS = """
# Symbols of the Board:
#: wall, _: floor, O: target, X: box, √: box on target, P: you, S: you on target.
"""

_PAST = """
# Past Steps
You have already taken {step_count} step(s). The last {history_length}: {action_history}
"""

_ASK = """
Your admissible actions are [{admissible_actions}].

Now it's your turn to make a move (choose ONE action only for the current step).
You should first reason step-by-step about the current situation — observe the positions of boxes \
and targets, plan a path to push a box toward a target, and avoid traps like corners or walls.
This reasoning process MUST be enclosed within <think> </think> tags.
Once you've finished your reasoning, you should choose an admissible action for current step, and \
present it within <action> </action> tags."""

_MOVES = '"up", "down", "left", "right"'

_IMAGE = """
# Current Step
Your current observation is shown in the image: {current_observation}"""

_TEXT = """
# Current Step
Your current observation is:
{current_observation}"""

TEXT_TEMPLATE = Template(
    full=_ROLE + _RULES + _SYMBOLS + _PAST + _TEXT + _ASK,
    blind=_ROLE + _SYMBOLS + _TEXT + _ASK,
    past="{number}: {action}",
    owner="Sokoban",
)
IMAGE_TEMPLATE = Template(
    full=_ROLE + _RULES + _DRAWING + _PAST + _IMAGE + _ASK,
    blind=_ROLE + _DRAWING + _IMAGE + _ASK,
    past="{number}: {action}",
    owner="VisualSokoban",
)
ISTAR = Template(
    full=_ROLE + _RULES + _DRAWING + _IMAGE + _ASK.replace("{admissible_actions}", _MOVES),
    blind=IMAGE_TEMPLATE.blind,
    owner="VisualSokoban",
)
"""iStar's prompt as printed (Fig. 7) but for the drawings: no past actions, four moves by name."""
