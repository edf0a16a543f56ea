"""The prompt of WebShop-v0: STAPO's pair of templates (Fig. 14 and 15)."""

from __future__ import annotations

from agent_envs.template import Template

_ROLE = "You are an expert autonomous agent operating in the WebShop e-commerce environment. "

_ASK = """ {current_observation}. Your admissible actions of the current situation are: \
[{admissible_actions}].

Now it's your turn to take one action for the current step. You should first reason step-by-step \
about the current situation, then think carefully which admissible action best advances the \
shopping goal. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""

TEMPLATE = Template(
    full=_ROLE
    + """Your task is to: {task_description}. Prior to this step, you have already taken \
{step_count} step(s). Below are the most recent {history_length} observations and the \
corresponding actions you took: {action_history}. You are now at step {current_step} and your \
current observation is:"""
    + _ASK,
    blind=_ROLE + "You are now at step {current_step} and your current observation is" + _ASK,
    owner="WebShop",
)
