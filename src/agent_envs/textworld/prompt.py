"""The prompt of TextWorld-v0, in our words."""

from __future__ import annotations

from agent_envs.template import Template

_ROLE = "You are playing a text adventure game."

_NOW = """ You are now at step {current_step}. The game says:
{current_observation}
The commands that are possible now: [{admissible_actions}]."""

_ASK = """

Think about what to do next within <think> </think> tags. Then choose one command and write it \
within <action> </action> tags."""

TEMPLATE = Template(
    full=_ROLE
    + """ Your task: {task_description}
You have taken {step_count} step(s). The latest {history_length} commands, each with what you saw \
before it: {action_history}."""
    + _NOW
    + _ASK,
    blind=_ROLE + _NOW + _ASK,
    owner="TextWorld",
)
