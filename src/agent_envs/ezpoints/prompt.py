"""The prompt of EZPoints-v0 and Points-v0, in our words."""

from __future__ import annotations

from dataclasses import replace

from agent_envs.template import Template

_ASK = """

Now it's your turn to take an action. You should first reason step-by-step about the current \
situation. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""

_ROLE = "You are an expert card game player."

_NOW = """ You are now at step {current_step} and your current observation is:
{current_observation}
Your admissible actions of the current situation are: [{admissible_actions}]."""

TEMPLATE = Template(
    full=_ROLE
    + """ Your task is to: {task_description}. Prior to this step, you have already taken \
{step_count} step(s): {action_history}."""
    + _NOW
    + _ASK,
    blind=_ROLE + _NOW + _ASK,
    past="{action}",
    owner="EZPoints",
)
POINTS = replace(TEMPLATE, owner="Points")
