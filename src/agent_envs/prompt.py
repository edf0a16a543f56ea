"""Prompt: replaces the observation by the whole prompt of the turn, full and trajectory-blind.

A `Template` has the texts, with slots for the fields that an environment reports. In the prompt,
`<image>` marks the place of an image observation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from agent_envs.options import check_options
from agent_envs.panels import one_of
from agent_envs.replies import check_layer, unwrap_agent_env
from agent_envs.spaces import OBSERVATION_LENGTH, FreeText
from agent_envs.template import Template, leave_out_goal

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.contract import AgentEnv

# The place of an image in a prompt.
IMAGE = "<image>"
# The parts that a blind prompt can leave out; "both" is goal and history.
BLIND = ("both", "goal", "history", "observation")


class Prompt(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Renders each turn's prompt: goal, steps taken, last `history` turns, observation, actions.

    The observation becomes the full prompt, and `info["blind_prompt"]` the trajectory-blind one:
    no goal, no history, and no line of the observation that states the goal. `blind` renders other
    blind prompts. A full stop at the end of goal or observation is dropped, since the template has
    its own.

    Args:
        env: an agent environment.
        template: by default the environment's own, `AgentEnv.template`.
        history: how many past turns are shown.

    Raises:
        TypeError: not an agent environment, `template` is not a Template, or `history` not an int.
        ValueError: the template of another environment, no template although the environment has
            none of its own, `history` below 0, or a wrapper inside that belongs outside.
    """

    wrapper_layer: ClassVar[int] = 3

    def __init__(
        self, env: gym.Env[str, str], template: Template | None = None, history: int = 2
    ) -> None:
        check_options(Prompt, (), {"history": history})
        RecordConstructorArgs.__init__(self, template=template, history=history)
        gym.Wrapper.__init__(self, env)
        self.inner = unwrap_agent_env(env, "Prompt")
        check_layer(self, env)
        if history < 0:
            raise ValueError(f"history, the number of turns shown, must be >= 0, got {history}")
        self.template = _choose_template(template, type(self.inner))
        self.history = history
        self.images: list[NDArray[np.uint8]] = []
        self.observation_space = FreeText((history + 2) * OBSERVATION_LENGTH)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Reset the environment; the observation is the first prompt."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._render(observation, info)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment; the observation is the next prompt."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        prompt, info = self._render(observation, info)
        return prompt, reward, terminated, truncated, info

    def _render(self, seen: Any, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The prompt of the turn, and `info` with the trajectory-blind prompt."""
        self.images = [] if isinstance(seen, str) else [seen]
        observation = escape_marks(seen) if isinstance(seen, str) else IMAGE
        past = self.inner.transcript
        steps = len(past) - 1
        shown = [
            self.template.past.format(
                number=i + 1,
                before=escape_marks(past[i][1].strip()),
                action=escape_marks(past[i + 1][0]),
                after=escape_marks(past[i + 1][1].strip()),
            )
            for i in range(max(0, steps - self.history), steps)
        ]
        goal = escape_marks(info["goal"]).removesuffix(".")
        slots: dict[str, Any] = {
            "task_description": goal,
            "step_count": steps,
            "history_length": len(shown),
            "action_history": "\n".join(shown) or "none",
            "first_observation": escape_marks(past[0][1].strip()),
            "current_step": steps + 1,
            "agent": escape_marks(info.get("agent", "")),
            "admissible_actions": ", ".join(
                f"'{escape_marks(action)}'" for action in info["admissible_actions"]
            ),
        }
        self._slots = slots | {"current_observation": _strip_stop(observation)}
        self._aimless = _strip_stop(leave_out_goal(observation, goal))
        info["blind_prompt"] = self.blind("both")
        chosen = self.template.first if self.template.first and not steps else self.template.full
        return chosen.format(**self._slots), info

    def blind(self, what: str) -> str:
        """The prompt of the current turn without "goal", "history", "both" or "observation".

        "both" renders the blind template. The others render the full template with "not told" or
        "none" in place of the hidden part (STAPO's ablations).

        Raises:
            ValueError: `what` is not one of these.
        """
        one_of("blind", what, BLIND)
        first = leave_out_goal(self._slots["first_observation"], self._slots["task_description"])
        aimless = {"current_observation": self._aimless, "first_observation": first}
        if what == "both":
            return self.template.blind.format(**self._slots | aimless)
        hidden: dict[str, dict[str, Any]] = {
            "goal": {"task_description": "not told"} | aimless,
            "history": {"history_length": 0, "action_history": "none"},
            "observation": {"current_observation": "not told", "admissible_actions": "not told"},
        }
        return self.template.full.format(**self._slots | hidden[what])


def _choose_template(template: Template | None, made: type[AgentEnv]) -> Template:
    """The given template, or the environment's own; refuses that of another environment."""
    name = made.__name__
    if template is None:
        if made.template is None:
            raise ValueError(
                f"{name} has no prompt template of its own; pass template=Template(full, blind), "
                f"or set the class attribute {name}.template"
            )
        return made.template
    if not isinstance(template, Template):
        raise TypeError(f"template must be a Template, got {template!r:.80}")
    if template.owner not in ("", name) and template != made.template:
        raise ValueError(
            f"this template belongs to {template.owner} and does not fit {name}; leave template "
            "out to use the environment's own, or pass your own Template"
        )
    return template


def escape_marks(text: str) -> str:
    """The text with `<image>` escaped, so that it is not taken for the place of an image."""
    return text.replace(IMAGE, "[image]")


def _strip_stop(text: str) -> str:
    return text.strip().removesuffix(".")
