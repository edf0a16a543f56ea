"""A running episode as tokens: the next prompt, and the sampled tokens of every reply.

Prompts come from the policy's chat template; sampled tokens are never tokenised again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trainer.play.environments import PromptOptions, find_form
from trainer.play.episode import Stepped, TextEpisode
from trainer.play.records import Episode, Step

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.spaces import Picture
    from trainer.engine import Reply
    from trainer.model.policy import Policy
    from trainer.play.records import Task


class Past(NamedTuple):
    """Tokens of the turns so far, and their images."""

    ids: list[int]
    images: list[Picture]


class TokenEpisode(TextEpisode):
    """A running episode with the tokens of its prompts and replies.

    Args:
        env: The environment.
        start: What its `reset` returned.
        prompt: As for `TextEpisode`.
        task: The task.
        policy: The policy whose chat template makes the prompts.

    Attributes:
        prompt: Tokens of the next prompt; with context "history", those since the last reply.
        used: Tokens of the conversation so far.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        start: tuple[Any, dict[str, Any]],
        prompt: PromptOptions,
        *,
        task: Task,
        policy: Policy,
    ) -> None:
        super().__init__(env, start, prompt)
        self.task, self.policy = task, policy
        self.strata = {name: str(value) for name, value in self.info.get("strata", {}).items()}
        self.answer: str = next(iter(self.info.get("answers", ())), "")
        self.used = 0
        self.first = self.observation, self.images
        self.prompt = self.encode(self.message, self.images)

    @property
    def episode(self) -> Episode:
        """The episode as it is recorded."""
        form = find_form(self.env)
        return Episode(
            task_id=self.task_id,
            goal=self.goal,
            group=self.task.group,
            seed=self.task.seed,
            context=self.context,
            steps=self.steps,
            success=self.success,
            outcome=self.outcome,
            strata=self.strata,
            measures=self.measures,
            truncated=self.truncated,
            stopped=self.stopped,
            partner_outcome=self.partner_outcome,
            answer=self.answer,
            answer_opening=form.write("" if form.tags else "<answer>").removesuffix(form.stop),
            after=Step("", "", "", self.prompt, [], images=self.images) if self.truncated else None,
        )

    def past(self) -> Past:
        """What the next prompt follows: with context "history" all turns so far, else nothing."""
        steps = self.steps if self.context == "history" else []
        ids = [token for step in steps for token in (*step.prompt_ids, *step.reply_ids)]
        return Past(ids, [image for step in steps for image in step.images])

    def take_reply(self, reply: Reply, blind: dict[str, list[int]], stepped: Stepped) -> Step:
        """Record a turn with the tokens of the reply and its blind prompts."""
        admissible = list(self.info["admissible_actions"]) if reply.allowed is not None else None
        step = self.take(reply.text, stepped)
        step.prompt_ids, step.reply_ids, step.blind_ids = self.prompt, reply.ids, blind
        step.logprobs, step.entropies = reply.logprobs, reply.entropies
        step.allowed, step.admissible = reply.allowed, admissible
        step.version = reply.version
        if self.context == "history":
            self.used += len(self.prompt) + len(reply.ids)
            after = self.policy.chat.after(reply.ids, self.message)
            self.prompt = expand_images(self.policy, after, self.images)
        else:
            self.prompt = self.encode(self.message, self.images)
        return step

    def encode(self, message: str, images: Sequence[Picture]) -> list[int]:
        """Tokens of the first message of a conversation, or of a turn's whole prompt."""
        return expand_images(self.policy, self.policy.chat.opening(message), images)


def expand_images(policy: Policy, ids: Sequence[int], images: Sequence[Picture]) -> list[int]:
    """Tokens with the token of each image repeated as often as the policy encodes it.

    Raises:
        ValueError: There are images, and the policy is text-only.
    """
    if policy.vision is not None:
        return policy.vision.expand_marks(ids, images)
    if images:
        raise ValueError(
            "the environment shows images, but this model reads only text; use a vision-language "
            "model, or a text observation of the environment"
        )
    return list(ids)
