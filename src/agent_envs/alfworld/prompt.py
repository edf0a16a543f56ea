"""The prompt of AlfWorld-v0: STAPO's pair of templates (Fig. 12 and 13)."""

from __future__ import annotations

from agent_envs.template import Template

_ASK = """

Now it's your turn to take an action. You should first reason step-by-step about the current \
situation. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""

_NOW = """You are now at step {current_step} and your current observation is: \
{current_observation}. Your admissible actions of the current situation are: \
[{admissible_actions}]."""

TEMPLATE = Template(
    full="""You are an expert agent operating in the ALFRED embodied Environment. Your task is to: \
{task_description}. Prior to this step, you have already taken {step_count} step(s). Below are the \
most recent {history_length} observations and the corresponding actions you took: \
{action_history}. """
    + _NOW
    + _ASK,
    blind="You are an expert agent operating in the ALFRED Embodied Environment. " + _NOW + _ASK,
    owner="AlfWorld",
)
