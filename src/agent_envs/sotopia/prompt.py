"""The prompt of Sotopia-v0: iStar's (Fig. 8), in our words."""

from __future__ import annotations

from agent_envs.template import Template

_ROLE = "You are a character in a conversation: act and speak as this character would"

_ASK = """

You are at turn {current_step}. Say something to go on, or only 'left the conversation' to end it: \
when you have reached your goal, when the conversation makes you uncomfortable, when it no longer \
interests you or you lose patience, or when you want to leave for another reason.

You should first reason step-by-step about the current state of the dialogue, then think carefully \
which communication and social strategies best advance your goal. This reasoning process MUST be \
enclosed within <think> </think> tags. Once you've finished your reasoning, present your response \
within <action> </action> tags."""

_CONTEXT = (
    _ROLE
    + """, keeping in mind the social goal, which only you can see. Try your best to reach it in a \
way that fits the character, and keep the conversation natural and realistic: do not repeat what \
was said before.

Here is the context of this interaction:
{first_observation}"""
)

TEMPLATE = Template(
    full=_CONTEXT
    + """

The conversation since then:
{action_history}

What you hear now: {current_observation}"""
    + _ASK,
    blind=_ROLE + ".\n\nWhat you hear now: {current_observation}" + _ASK,
    past="You: {action}\n{after}",
    first=_CONTEXT + _ASK,
    owner="Sotopia",
)
