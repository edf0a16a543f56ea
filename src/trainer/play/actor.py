"""One running episode: the tokens of its prompts and replies, what is recorded, and its copies."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.prompt import escape_marks, leave_out_goal
from trainer.play import failures
from trainer.play.episode import (
    TextEpisode,
    answer_of,
    answer_opening,
    called,
)
from trainer.play.failures import Failure, check_reported, transcript_of
from trainer.play.raised import guarded
from trainer.play.records import Episode, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym

    from credit.rows import TurnRecord
    from trainer.engine import Reply
    from trainer.model.policy import Policy
    from trainer.model.vision import Picture
    from trainer.play.episode import Result


@dataclass(frozen=True)
class Task:
    """Task and seed of one rollout. Rollouts of a group share both, and so the first state."""

    task_id: str
    group: int
    seed: int


class Before(NamedTuple):
    """What was known before a reply; `admissible` is None unless decoding is constrained."""

    observation: str
    images: list[Picture]
    admissible: list[str] | None


class Past(NamedTuple):
    """Tokens of the turns so far, and their images."""

    ids: list[int]
    images: list[Picture]


class Actor:
    """One running episode with the tokens of its prompts and replies."""

    def __init__(
        self,
        env: gym.Env[str, str],
        task: Task,
        played: TextEpisode,
        policy: Policy,
        *,
        context: str,
        blind: tuple[str, ...],
    ) -> None:
        self.env, self.context, self.blind = env, context, blind
        self.policy = policy
        self.played = played
        self.used = 0  # tokens of the conversation so far
        self.first = self.played.observation, self.played.images
        self.prompt = self._tokens(self.played.message, self.played.images)
        self.episode = Episode(
            task_id=self.played.task_id,
            goal=self.played.goal,
            group=task.group,
            seed=task.seed,
            context=context,
            steps=[],
            task_type=self.played.info.get("task_type", ""),
            answer=answer_of(self.played.info),
            answer_opening=answer_opening(env),
        )

    def past(self) -> Past:
        """What the next prompt follows: with context "history" all turns so far, else nothing."""
        steps = self.episode.steps if self.context == "history" else []
        ids = [token for step in steps for token in (*step.prompt_ids, *step.reply_ids)]
        return Past(ids, [image for step in steps for image in step.images])

    def fork(self) -> Actor:
        """A copy that continues as this episode would; neither changes the other.

        Raises:
            TypeError: The environment cannot be copied.
        """
        copied = copy(self)
        copied.played = guarded(self.played.fork)
        copied.env = copied.played.env
        copied.episode = replace(self.episode, steps=[*self.episode.steps])
        return copied

    def _tokens(self, message: str, images: Sequence[Picture]) -> list[int]:
        """Tokens of the first message of a conversation, or of a turn's whole prompt."""
        return expanded(self.policy, self.policy.chat.opening(message), images)

    def blinded(self) -> dict[str, list[int]]:
        """Blind prompts of the turn, by the part that they leave out."""
        return {what: self._without(what) for what in self.blind}

    async def step(self, reply: Reply) -> TurnRecord:
        """Step the environment with a reply: the record of the turn."""
        return self._took(await called(self.env, partial(self.env.step, reply.text)))

    def _took(self, result: Result) -> TurnRecord:
        """The record of the turn with this result of `env.step`."""
        record = self.played.took(result)
        check_reported(self.played.message, self.played.info)
        return record

    def failure(self, error: Exception, *turn: tuple[str, str]) -> Failure:
        """The record of an error, if in a turn with its (observation, reply)."""
        episode = self.episode
        return failures.failed(
            error,
            task=(episode.task_id, episode.group, episode.seed),
            turn=len(episode.steps),
            transcript=transcript_of(episode, *turn),
        )

    def before(self, *, constrained: bool) -> Before:
        """What is known before the next reply, with the actions that decoding is held to."""
        played = self.played
        admissible = list(played.info["admissible_actions"]) if constrained else None
        return Before(played.observation, played.images, admissible)

    def take(self, reply: Reply, blind: dict[str, list[int]], result: Result) -> None:
        """Record one turn: the reply, its blind prompts, and the result of `env.step`."""
        before = self.before(constrained=reply.allowed is not None)
        self.record(reply, blind, before, self._took(result))

    def record(
        self,
        reply: Reply,
        blind: dict[str, list[int]],
        before: Before,
        record: TurnRecord,
    ) -> None:
        """Record one turn: the reply, its blind prompts, what was seen before it, its result."""
        played, episode = self.played, self.episode
        episode.outcome, episode.partner_outcome = played.outcome, played.partner_outcome
        episode.success, episode.truncated = played.success, played.truncated
        episode.steps.append(
            Step(
                observation=before.observation,
                reply=reply.text,
                action=record.action,
                prompt_ids=self.prompt,
                reply_ids=reply.ids,
                logprobs=reply.logprobs,
                entropies=reply.entropies,
                allowed=reply.allowed,
                admissible=before.admissible,
                version=reply.version,
                blind_ids=blind,
                reward=record.reward,
                valid=record.valid,
                invalid_reason=record.invalid_reason,
                progress=record.progress,
                anchor=record.anchor,
                turn_reward=dict(record.turn_reward),
                images=before.images,
            )
        )
        if self.context == "history":
            self.used += len(self.prompt) + len(reply.ids)
            after = self.policy.chat.after(reply.ids, played.message)
            self.prompt = expanded(self.policy, after, played.images)
        else:
            self.prompt = self._tokens(played.message, played.images)

    def stop(self) -> None:
        """End the episode where it is, as truncated."""
        self.played.stop()
        self.episode.outcome, self.episode.truncated = self.played.outcome, True
        steps = self.episode.steps
        steps[-1] = replace(steps[-1], reward=self.played.records[-1].reward)  # it may be shared

    def _without(self, what: str) -> list[int]:
        """The prompt of the turn without goal, history, both or observation."""
        if self.context == "turn":
            images = [] if what == "observation" else self.played.images
            seen = guarded(partial(self.env.blind, what))  # type: ignore[attr-defined]
            return self._tokens(seen, images)
        seen, goal = self.played.observation, escape_marks(self.played.goal)
        steps = self.episode.steps
        past = self.past().ids
        if what == "goal":
            length = len(steps[0].prompt_ids) if steps else len(self.prompt)
            first, images = self.first
            aimless = self._tokens(leave_out_goal(first, goal), images)
            return [*aimless, *[*past, *self.prompt][length:]]
        if what == "observation":
            ending = self.policy.chat.after(steps[-1].reply_ids, "...") if steps else []
            return [*past, *ending] or self._tokens(goal, [])
        if what == "both":
            seen = leave_out_goal(seen, goal)
        elif goal not in seen:
            seen = f"{goal}\n\n{seen}"
        return self._tokens(seen, self.played.images)


def expanded(policy: Policy, ids: Sequence[int], images: Sequence[Picture]) -> list[int]:
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
