"""The prompt of Bifurcation-v1, in our words."""

from __future__ import annotations

from agent_envs.template import Template

_ASK = """

Reason about the situation within <think> </think> tags. Then choose one of the possible actions \
and write it within <action> </action> tags."""

_ROLE = "You are walking through rooms."

_NOW = """ This is step {current_step}. What you see:
{current_observation}
Possible actions: [{admissible_actions}]."""

TEMPLATE = Template(
    full=_ROLE
    + " Your task: {task_description}. You have taken {step_count} step(s): {action_history}."
    + _NOW
    + _ASK,
    blind=_ROLE + _NOW + _ASK,
    past="{action}",
    owner="Bifurcation",
)
