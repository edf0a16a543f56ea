"""One running episode as text: what the model reads next, and a record of every turn.

The trainer's rollouts play through it, and so do the adapters for other trainers. Nothing here
needs torch.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, SupportsFloat

from gymnasium.error import ResetNeeded

from agent_envs.contract import OWN
from agent_envs.prompt import IMAGE, escape_marks
from agent_envs.spaces import Picture
from agent_envs.template import says_goal
from agent_envs.vector import call_env
from trainer.play.environments import PromptOptions, find_form
from trainer.play.records import Step
from trainer.play.signals import check_info, read_number, read_numbers
from trainer.play.turn_records import Recorded

if TYPE_CHECKING:
    import gymnasium as gym

Stepped = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""What `env.step` returns."""


def render_opening(env: gym.Env[str, str], observation: str) -> str:
    """The first message of a conversation.

    An environment that parses whole replies gives the instruction itself.
    """
    form = find_form(env)
    return f"{form.instruction}\n\n{observation}" if form.tags else observation


def render_observation(
    env: gym.Env[str, str], observation: Any, goal: str = ""
) -> tuple[str, list[Picture]]:
    """An observation as text, with `<image>` for each image, and the images.

    The text begins with the `goal` if the observation does not say it.
    """
    images: list[Any] | None = getattr(env, "images", None)  # set by the Prompt wrapper
    if not isinstance(observation, str):
        text, images = IMAGE, [observation]
    else:
        text = escape_marks(observation) if images is None else observation
    told = escape_marks(goal)
    said = text if says_goal(text, told) else f"{told}\n\n{text}"
    return said, [Picture.of(image) for image in images or []]


class TextEpisode(Recorded):
    """One running episode.

    Args:
        env: Environment of `make_env`.
        start: What its `reset` returned.
        prompt: The recipe's prompt section: one conversation, or a new prompt at every turn.

    Attributes:
        message: What the model reads next. With context "history" the first message also says the
            form of a reply and, if `prompt.goal`, the goal.
        images: Images in `message`, in the order of its `<image>` marks.
        info: The environment's last `info`.
        steps: The turns so far.
        done: Whether the episode has ended.
        success: Whether the task is solved.
        truncated: Whether it was cut off, by the limit on turns or by `stop`.
        stopped: Whether it was cut off by `stop`.
        earned: What the environment itself has paid so far, without reward wrappers.
        outcome: What it has paid in the whole episode; 0 before the end.
        partner_outcome: Outcome of the other side of a conversation; None without one.
        measures: What the environment measured, by name: the last value of each.
    """

    def __init__(
        self, env: gym.Env[str, str], start: tuple[Any, dict[str, Any]], prompt: PromptOptions
    ) -> None:
        self.env, self.context = env, prompt.context
        observation, self.info = start[0], check_info(start[1])
        self.goal: str = self.info["goal"]
        self.task_id: str = self.info["task_id"]
        history = self.context == "history"
        told = self.goal if history and prompt.goal else ""
        self.observation, self.images = render_observation(env, observation, told)
        self.message = render_opening(env, self.observation) if history else self.observation
        self.done = self.success = self.truncated = self.stopped = False
        self.outcome = self.earned = 0.0
        self.partner_outcome: float | None = None
        self.measures: dict[str, float] = {}
        self.steps: list[Step] = []

    def step(self, reply: str) -> tuple[str, bool]:
        """Step with a model's whole reply: the next message, and whether the episode has ended.

        Raises:
            gymnasium.error.ResetNeeded: The episode has ended.
        """
        self.require_running()
        self.take(reply, self.env.step(reply))
        return self.message, self.done

    async def astep(self, reply: str) -> tuple[str, bool]:
        """`step` that lets others run while the environment waits for a server."""
        self.require_running()
        self.take(reply, await call_env(self.env, partial(self.env.step, reply)))
        return self.message, self.done

    def take(self, reply: str, stepped: Stepped) -> Step:
        """Record the turn of a reply from what `env.step` returned.

        The return of the environment's own rewards is the outcome of the episode. A turn's reward
        is what it was paid, by the environment and by wrappers; that of the last turn is without
        the outcome, which `credit.Turns.read_paid` adds again.
        """
        observation, reward, terminated, truncated, info = stepped
        check_info(info)
        step = Step(
            observation=self.observation,
            reply=reply,
            action=info["action"],
            prompt_ids=[],
            reply_ids=[],
            reward=read_number("the reward", reward),
            valid=info["valid"],
            invalid_reason=info["invalid_reason"],
            progress=read_number("progress", info["progress"], 1.0),
            progress_before=read_number("progress", self.info["progress"], 1.0),
            anchor=self.info["anchor"],
            turn_reward=read_numbers(info, "turn_reward"),
            images=self.images,
        )
        self.info = info
        self.earned += read_number("the reward", info["reward_terms"][OWN])
        self.measures = self.measures | read_numbers(info, "measures")
        self.observation, self.images = render_observation(self.env, observation)
        self.message = self.observation
        self.done, self.truncated = terminated or truncated, truncated and not terminated
        self.success = info["success"]
        if self.done:
            self.outcome, self.partner_outcome = self.earned, info.get("partner_reward")
            step.reward -= self.outcome
        self.steps.append(step)
        return step

    def stop(self) -> None:
        """End the episode where it is, as truncated, e.g. because the tokens are used up."""
        if self.done:
            return
        self.done = self.truncated = self.stopped = True
        self.outcome = self.earned
        if self.steps:  # the last one may be shared with a fork
            self.steps[-1] = replace(self.steps[-1], reward=self.steps[-1].reward - self.outcome)

    def fork(self) -> Self:
        """A copy that continues as this episode would; neither changes the other.

        Raises:
            gymnasium.error.ResetNeeded: The episode has ended.
            TypeError: The environment cannot be copied.
        """
        self.require_running()
        copied = copy.copy(self)
        copied.env, copied.info = copy.deepcopy((self.env, self.info))
        copied.steps = [*self.steps]
        return copied

    def require_running(self) -> None:
        """Raise ResetNeeded if the episode has ended."""
        if self.done:
            raise ResetNeeded(f"the episode of {self.task_id!r} has ended; start another one")
