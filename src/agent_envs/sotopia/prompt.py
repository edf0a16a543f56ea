"""The prompts: iStar's (Fig. 8) for published scenes, and a short one for generated scenes."""

from __future__ import annotations

from agent_envs.template import Template

_ROLE = "Imagine you are {agent}, your task is to act/speak as {agent} would"

_ASK = """

You are at Turn {current_step}. You can say something to interact or just say 'left the \
conversation' to stop continuing. Note: You can 'left the conversation' if 1. you have achieved \
your social goals, 2. this conversation makes you uncomfortable, 3. you find it uninteresting or \
you lose your patience, 4. for other reasons you want to leave.

You should first reason step-by-step to reflect on the current state of the dialogue, then think \
carefully what communication and social strategies best advances your goal. This reasoning process \
MUST be enclosed within <think> </think> tags. Once you've finished your reasoning, provide your \
response and present it within <action> </action> tags."""

_CONTEXT = (
    _ROLE
    + """, keeping in mind {agent}'s social goal. You can find {agent}'s goal (or background) in \
the 'Here is the context of this interaction' field. Note that {agent}'s goal is only visible to \
you. You should try your best to achieve {agent}'s goal in a way that align with their character \
traits. Additionally, maintaining the conversation's naturalness and realism is essential (e.g., \
do not repeat what other people has already said before).

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

_SCENE = "{first_observation}"
_ACT = (
    "\n\nTurn {current_step}. Reason in <think> </think>, then give your act in <action> </action>."
)
SHORT = Template(
    full=_SCENE + "\n\nSince then:\n{action_history}\n\nNow: {current_observation}" + _ACT,
    blind="You are {agent}.\n\nNow: {current_observation}" + _ACT,
    past="You: {action}\n{after}",
    first=_SCENE + _ACT,
    owner="SotopiaFacts",
)
