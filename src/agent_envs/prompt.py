"""Prompt: the observation becomes the whole prompt of the turn, full and trajectory-blind.

An observation that is an image stands as `<image>` in the prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from agent_envs.options import check_options
from agent_envs.panels import nearest
from agent_envs.parse import agent_env
from agent_envs.spaces import OBSERVATION_LENGTH, FreeText
from agent_envs.template import Template

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_envs.contract import AgentEnv

IMAGE = "<image>"
"""Where an image stands in a prompt."""

_ASK = """

Now it's your turn to take an action. You should first reason step-by-step about the current \
situation. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""

_NOW = """You are now at step {current_step} and your current observation is: \
{current_observation}. Your admissible actions of the current situation are: \
[{admissible_actions}]."""

ALFWORLD = Template(
    full="""You are an expert agent operating in the ALFRED embodied Environment. Your task is to: \
{task_description}. Prior to this step, you have already taken {step_count} step(s). Below are the \
most recent {history_length} observations and the corresponding actions you took: \
{action_history}. """
    + _NOW
    + _ASK,
    blind="You are an expert agent operating in the ALFRED Embodied Environment. " + _NOW + _ASK,
)

_SHOP = "You are an expert autonomous agent operating in the WebShop e-commerce environment. "

_SHOP_ASK = """ {current_observation}. Your admissible actions of the current situation are: \
[{admissible_actions}].

Now it's your turn to take one action for the current step. You should first reason step-by-step \
about the current situation, then think carefully which admissible action best advances the \
shopping goal. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""

WEBSHOP = Template(
    full=_SHOP
    + """Your task is to: {task_description}. Prior to this step, you have already taken \
{step_count} step(s). Below are the most recent {history_length} observations and the \
corresponding actions you took: {action_history}. You are now at step {current_step} and your \
current observation is:"""
    + _SHOP_ASK,
    blind=_SHOP + "You are now at step {current_step} and your current observation is" + _SHOP_ASK,
)

_QUESTION = "You are an expert agent tasked with answering the given question step-by-step."

_SEARCH_ASK = """

Now it's your turn to respond for the current step. You should first conduct reasoning process. \
This process MUST be enclosed within <think> </think> tags. After completing your reasoning, \
choose only one of the following actions (do not perform both):

(1) If you find you lack some knowledge, you can call a search engine to get more external \
information using format: <search> your query </search>.
(2) If you have enough knowledge to answer the question confidently, provide your final answer \
within <answer> </answer> tags, without detailed illustrations. For example, \
<answer>Beijing</answer>."""

SEARCH = Template(
    full=_QUESTION
    + """ Your question: {task_description}. Prior to this step, you have already taken \
{step_count} step(s). Below is the interaction history where <search> </search> wrapped your past \
search queries and <information> </information> wrapped the corresponding search results returned \
by the external search engine. History: {action_history}."""
    + _SEARCH_ASK,
    blind=_QUESTION + _SEARCH_ASK,
    past="Step {number}:{action} {after}\n",
    first=_QUESTION + " Your question: {task_description}." + _SEARCH_ASK,
)

_SOKOBAN = "You are an expert agent operating in the Sokoban environment."

_SOKOBAN_RULES = """
Your goal is to push all the boxes onto the target spots. Once all boxes are on the targets, you \
win!

# Rules
You can only push boxes. You can't pull them, so plan ahead to avoid getting stuck.
You can't walk through or push boxes into walls.
To avoid traps, do not push boxes into corners or against walls where they can't be moved again.
"""

_SOKOBAN_DRAWN = """
# Visual Elements in the Image:
Character: A small, round, blue figure with two eyes. It represents you.
Box: A brown crate with a beam across its front. It is the box you need to push.
Target: A red ring. It marks the destination where a box should be pushed.
"""

_SOKOBAN_WRITTEN = """
# Symbols of the Board:
#: wall, _: floor, O: target, X: box, √: box on target, P: you, S: you on target.
"""

_SOKOBAN_PAST = """
# Past Steps
You have already taken {step_count} step(s). The last {history_length}: {action_history}
"""

_SOKOBAN_ASK = """
Your admissible actions are [{admissible_actions}].

Now it's your turn to make a move (choose ONE action only for the current step).
You should first reason step-by-step about the current situation — observe the positions of boxes \
and targets, plan a path to push a box toward a target, and avoid traps like corners or walls.
This reasoning process MUST be enclosed within <think> </think> tags.
Once you've finished your reasoning, you should choose an admissible action for current step, and \
present it within <action> </action> tags."""

_SOKOBAN_SEEN = """
# Current Step
Your current observation is shown in the image: {current_observation}"""

_SOKOBAN_READ = """
# Current Step
Your current observation is:
{current_observation}"""

SOKOBAN = Template(
    full=_SOKOBAN
    + _SOKOBAN_RULES
    + _SOKOBAN_WRITTEN
    + _SOKOBAN_PAST
    + _SOKOBAN_READ
    + _SOKOBAN_ASK,
    blind=_SOKOBAN + _SOKOBAN_WRITTEN + _SOKOBAN_READ + _SOKOBAN_ASK,
    past="{number}: {action}",
)
VISUAL_SOKOBAN = Template(
    full=_SOKOBAN + _SOKOBAN_RULES + _SOKOBAN_DRAWN + _SOKOBAN_PAST + _SOKOBAN_SEEN + _SOKOBAN_ASK,
    blind=_SOKOBAN + _SOKOBAN_DRAWN + _SOKOBAN_SEEN + _SOKOBAN_ASK,
    past="{number}: {action}",
)

_CARDS = "You are an expert card game player."

_CARDS_NOW = """ You are now at step {current_step} and your current observation is:
{current_observation}
Your admissible actions of the current situation are: [{admissible_actions}]."""

EZPOINTS = Template(
    full=_CARDS
    + """ Your task is to: {task_description}. Prior to this step, you have already taken \
{step_count} step(s): {action_history}."""
    + _CARDS_NOW
    + _ASK,
    blind=_CARDS + _CARDS_NOW + _ASK,
    past="{action}",
)

_TALK = "You are a character in a conversation: act and speak as this character would"

_TALK_ASK = """

You are at turn {current_step}. Say something to go on, or only 'left the conversation' to end it: \
when you have reached your goal, when the conversation makes you uncomfortable, when it no longer \
interests you or you lose patience, or when you want to leave for another reason.

You should first reason step-by-step about the current state of the dialogue, then think carefully \
which communication and social strategies best advance your goal. This reasoning process MUST be \
enclosed within <think> </think> tags. Once you've finished your reasoning, present your response \
within <action> </action> tags."""

_TALK_CONTEXT = (
    _TALK
    + """, keeping in mind the social goal, which only you can see. Try your best to reach it in a \
way that fits the character, and keep the conversation natural and realistic: do not repeat what \
was said before.

Here is the context of this interaction:
{first_observation}"""
)

SOTOPIA = Template(
    full=_TALK_CONTEXT
    + """

The conversation since then:
{action_history}

What you hear now: {current_observation}"""
    + _TALK_ASK,
    blind=_TALK + ".\n\nWhat you hear now: {current_observation}" + _TALK_ASK,
    past="You: {action}\n{after}",
    first=_TALK_CONTEXT + _TALK_ASK,
)

_CODE = """You are an expert agent that does what a person asks for by writing Python code. The \
code calls the apps of the person's phone and computer."""

_CODE_RULES = """

# How it works
Call an app as apis.<app>.<api>(name=value). Do not guess: find out what there is with \
apis.api_docs.show_app_descriptions(), apis.api_docs.show_api_descriptions(app_name=...) and \
apis.api_docs.show_api_doc(app_name=..., api_name=...).
Most apps need a login; apis.supervisor.show_account_passwords() has the passwords.
Lists come in pages: go through all of them. Print what you want to see.
Write little code at a time, and look at what it printed before you go on; variables stay.
Change nothing that you were not asked to change. When all is done, call \
apis.supervisor.complete_task(); where something was asked, give the bare answer as answer=... .
"""

_CODE_NOW = """
# Step {current_step}
What you see now:
{current_observation}

First reason about the situation within <think> </think> tags. Then write the code of this step in \
one block that begins with ```python and ends with ```."""

APPWORLD = Template(
    full=_CODE
    + """

# The request
{task_description}."""
    + _CODE_RULES
    + """
# What you did so far
{step_count} step(s); the last {history_length}:
{action_history}
"""
    + _CODE_NOW,
    blind=_CODE + _CODE_RULES + _CODE_NOW,
    past="## Step {number}\n```python\n{action}\n```\nIt printed:\n{after}",
)

TEMPLATES = {
    "alfworld": ALFWORLD,
    "webshop": WEBSHOP,
    "search": SEARCH,
    "sokoban": SOKOBAN,
    "visual_sokoban": VISUAL_SOKOBAN,
    "ezpoints": EZPOINTS,
    "appworld": APPWORLD,
    "sotopia": SOTOPIA,
}


BLIND = ("both", "goal", "history", "observation")
"""What a blind prompt can leave out; "both" is goal and history."""


def without_goal(observation: str, goal: str) -> str:
    """An observation without the lines, or pieces between [SEP] marks, that state the goal."""
    wanted = goal.removesuffix(".")
    if not wanted or wanted not in observation:
        return observation
    kept = []
    for line in observation.split("\n"):
        pieces = [piece for piece in line.split(" [SEP] ") if wanted not in piece]
        if pieces:
            kept.append(" [SEP] ".join(pieces))
    return "\n".join(kept)


class Prompt(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Renders each turn's prompt: goal, steps taken, last `history` turns, observation, actions.

    The observation becomes the full prompt and `info["blind_prompt"]` the trajectory-blind one: no
    goal, no history, and of the observation no line that states the goal. `blind` gives other ones.
    A final full stop of goal or observation gives way to the template's. Goes outside `ParseReply`.

    "alfworld", "webshop" and "search" are STAPO's pairs of templates (Fig. 12 to 17), "sokoban" and
    "visual_sokoban" iStar's (Fig. 7) with past actions and our own drawings, "sotopia" iStar's
    (Fig. 8) in our words, "ezpoints" and "appworld" are ours.

    Args:
        env: an agent environment.
        template: a `Template`; by default the environment's own (`AgentEnv.template`), which is
            also all that a name of `TEMPLATES` may select.
        history: past turns that are shown.

    Raises:
        TypeError: not an agent environment, neither a template nor a name, or `history` no int.
        ValueError: an unknown template, one of another environment, none where the environment has
            none of its own, or `history` below 0.
    """

    def __init__(
        self, env: gym.Env[str, str], template: str | Template | None = None, history: int = 2
    ) -> None:
        check_options(Prompt, (), {"history": history})
        RecordConstructorArgs.__init__(self, template=template, history=history)
        gym.Wrapper.__init__(self, env)
        self.inner = agent_env(env, "Prompt")
        if history < 0:
            raise ValueError(f"history counts the turns shown and is at least 0, got {history}")
        self.template = _chosen(template, type(self.inner))
        self.history = history
        self.images: list[NDArray[np.uint8]] = []
        self.observation_space = FreeText((history + 2) * OBSERVATION_LENGTH)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The environment's reset with the opening prompt."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._rendered(observation, info)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """The environment's step with the next turn's prompt."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        prompt, info = self._rendered(observation, info)
        return prompt, reward, terminated, truncated, info

    def _rendered(self, seen: Any, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The prompt of the turn, and `info` with the trajectory-blind one."""
        self.images = [] if isinstance(seen, str) else [seen]
        observation = unmarked(seen) if isinstance(seen, str) else IMAGE
        past = self.inner.transcript
        steps = len(past) - 1
        shown = [
            self.template.past.format(
                number=i + 1,
                before=unmarked(past[i][1].strip()),
                action=unmarked(past[i + 1][0]),
                after=unmarked(past[i + 1][1].strip()),
            )
            for i in range(max(0, steps - self.history), steps)
        ]
        goal = unmarked(info["goal"]).removesuffix(".")
        slots: dict[str, Any] = {
            "task_description": goal,
            "step_count": steps,
            "history_length": len(shown),
            "action_history": "\n".join(shown) or "none",
            "first_observation": unmarked(past[0][1].strip()),
            "current_step": steps + 1,
            "admissible_actions": ", ".join(
                f"'{unmarked(action)}'" for action in info["admissible_actions"]
            ),
        }
        self._slots = slots | {"current_observation": _bare(observation)}
        self._aimless = _bare(without_goal(observation, goal))
        info["blind_prompt"] = self.blind("both")
        chosen = self.template.first if self.template.first and not steps else self.template.full
        return chosen.format(**self._slots), info

    def blind(self, what: str) -> str:
        """The prompt of the running turn without goal, history, "both" of them, or observation.

        For "both" it is the blind template's, else the full one, what is left out being "not told"
        (STAPO's ablations).

        Raises:
            ValueError: `what` is none of these.
        """
        if what not in BLIND:
            raise ValueError(f"unknown blind {what!r}{nearest(what, BLIND)}; known are {BLIND}")
        first = without_goal(self._slots["first_observation"], self._slots["task_description"])
        aimless = {"current_observation": self._aimless, "first_observation": first}
        if what == "both":
            return self.template.blind.format(**self._slots | aimless)
        hidden: dict[str, dict[str, Any]] = {
            "goal": {"task_description": "not told"} | aimless,
            "history": {"history_length": 0, "action_history": "none"},
            "observation": {"current_observation": "not told", "admissible_actions": "not told"},
        }
        return self.template.full.format(**self._slots | hidden[what])


def _chosen(template: str | Template | None, made: type[AgentEnv]) -> Template:
    """The template of an environment, or another that no environment owns."""
    name = made.__name__
    if template is None:
        if made.template is None:
            raise ValueError(
                f"{name} has no prompt template of its own; pass template=Template(full, blind), "
                f"or set the class attribute {name}.template"
            )
        return made.template
    if isinstance(template, str) and template not in TEMPLATES:
        raise ValueError(
            f"unknown template {template!r}{nearest(template, TEMPLATES)}; known are "
            f"{tuple(TEMPLATES)}; leave template out for {name}'s own, or pass a Template"
        )
    chosen = TEMPLATES[template] if isinstance(template, str) else template
    if not isinstance(chosen, Template):
        raise TypeError(f"template must be a Template or a name, got {template!r:.80}")
    owned = [known for known, of in TEMPLATES.items() if of == chosen]
    if owned and chosen != made.template:
        raise ValueError(
            f"template {owned[0]!r} belongs to another environment than {name}; leave template "
            "out for the environment's own, or pass a Template of yours"
        )
    return chosen


def unmarked(text: str) -> str:
    """A text in which no `<image>` passes for the place of one."""
    return text.replace(IMAGE, "[image]")


def _bare(text: str) -> str:
    return text.strip().removesuffix(".")
