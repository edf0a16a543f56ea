"""Rollouts: all episodes run at the same time, each as fast as its replies and environment allow.

The engine decides which replies are sampled together. Environments that wait for a server or are in
worker processes are stepped in threads at the same time. The environment's last reward is the
outcome of the episode; every other reward belongs to its turn. An environment that fails loses its
episode and is replaced (`trainer.failures`); the others play on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from agent_envs.contract import ContractError
from agent_envs.imports import told
from agent_envs.parse import action_in
from agent_envs.prompt import unmarked, without_goal
from agent_envs.spaces import ACTION_LENGTH
from agent_envs.vector import at_once, in_thread, waits
from trainer import failures
from trainer.engines import UNBEGUN, Begun, conversation_seeds
from trainer.engines.gather import run
from trainer.environments import form_of, graded, make_env
from trainer.episodes import Episode, Step
from trainer.failures import CAUGHT, Failure, check_reported, transcript_of
from trainer.integrations.episode import (
    TextEpisode,
    answer_of,
    answer_opening,
    called,
    drawn,
)
from trainer.raised import RaisedError, guarded
from trainer.recipes import RecipeError
from trainer.sampling import FORM
from trainer.workers import Workers, applied

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import gymnasium as gym

    from agent_envs.panels import Panel
    from credit.records import TurnRecord
    from trainer.chat import Chat
    from trainer.engines import Reply, Sampler, Session
    from trainer.environments import Env, PromptOptions
    from trainer.integrations.episode import Result
    from trainer.partner import Listening, PolicyPartner
    from trainer.policy import Policy
    from trainer.vision import Picture

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Task:
    """Task and seed of one rollout. Rollouts of a group share both, and so the first state."""

    task_id: str
    group: int
    seed: int


def draw_tasks(panel: Panel, *, tasks: int, rollouts: int, seed: int, step: int) -> list[Task]:
    """Draw `tasks` different tasks, each with `rollouts` consecutive entries.

    If the panel has fewer tasks, some repeat, in groups of their own.
    """
    rng = np.random.default_rng([seed, step, len("tasks")])
    rows = drawn(len(panel.task_ids), tasks, rng)
    seeds = rng.integers(2**31, size=tasks)
    return [
        Task(panel.task_ids[row], group, int(seeds[group]))
        for group, row in enumerate(rows)
        for _ in range(rollouts)
    ]


def expanded(policy: Policy, ids: Sequence[int], images: Sequence[Picture]) -> list[int]:
    """Tokens with the token of each image repeated as often as the policy encodes it.

    Raises:
        ValueError: There are images, and the policy is text-only.
    """
    if policy.vision is not None:
        return policy.vision.expanded(ids, images)
    if images:
        raise ValueError(
            "the environment shows images, but this model reads only text; use a vision-language "
            "model, or a text observation of the environment"
        )
    return list(ids)


def reset(env: gym.Env[str, str], task: Task) -> tuple[Any, dict[str, Any]]:
    """Observation and info at the start of a task."""
    return guarded(partial(env.reset, seed=task.seed, options={"task_id": task.task_id}))


def together(
    envs: Sequence[gym.Env[str, str]], calls: Sequence[Callable[[], _Made]]
) -> list[_Made]:
    """Results of one call for each environment; in threads if the environments wait for servers."""
    return at_once(calls) if any(map(waits, envs)) else [call() for call in calls]


@dataclass(frozen=True)
class Start:
    """Where a rollout starts: after the turns of a running episode.

    Attributes:
        actor: The episode; it is copied, so it can be the start of several.
        begun: How the first reply begins.
    """

    actor: Actor
    begun: Begun = UNBEGUN


@dataclass(frozen=True)
class Rollouts:
    """Plays tasks of one split; environments are made once and reused.

    Attributes:
        env: The recipe's environment section.
        prompt: The recipe's prompt section.
        split: Split whose tasks are played.
        rows: Episodes played at the same time, 0 for all.
        max_tokens: Length at which an episode ends as truncated.
        blind: Blind prompts to record for each turn, by the part that they leave out: "goal",
            "history", "both" of them, or "observation".
        partner: Policy that plays the other side of a conversation.
    """

    env: Env
    prompt: PromptOptions
    split: str
    rows: int = 0
    max_tokens: int = 4096
    blind: tuple[str, ...] = ()
    partner: PolicyPartner | None = None
    _pool: list[gym.Env[str, str]] = field(default_factory=list, repr=False, compare=False)

    def envs(self, count: int) -> list[gym.Env[str, str]]:
        """The first `count` environments of the pool.

        Raises:
            RecipeError: One cannot be made, see `make_env`.
        """
        if self.env.processes:
            self._pool.extend(self._workers.make(len(self._pool), count))
        while len(self._pool) < count:
            self._pool.append(
                make_env(self.env, self.prompt, split=self.split, partner=self.partner)
            )
        return self._pool[:count]

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self.env, self.prompt, self.split, self.blind)

    @property
    def panel(self) -> Panel:
        """The tasks of the split."""
        panel: Panel = self.envs(1)[0].unwrapped.panel  # type: ignore[attr-defined]
        return panel

    def graded(self) -> bool:
        """Whether the environment declares that outcomes may be other numbers than 0 and 1."""
        return applied(self.envs(1)[0], graded)

    def turn_rewards(self) -> bool:
        """Whether the environment reports turn rewards; steps it once with an empty reply."""
        env = self.envs(1)[0]
        self._tried(lambda: env.reset(seed=0, options={"task": 0}))
        return bool(self._tried(lambda: env.step(""))[-1].get("turn_reward"))

    def answers(self) -> bool:
        """Whether the environment reports which answers it accepts."""
        env = self.envs(1)[0]
        return bool(answer_of(self._tried(lambda: env.reset(seed=0, options={"task": 0}))[1]))

    def _tried(self, call: Callable[[], _Made]) -> _Made:
        """The result of a call that shows what the environment reports, before the run.

        Raises:
            RecipeError: It failed.
        """
        try:
            return guarded(call)
        except Exception as error:
            if failures.costs_the_run(error):
                raise
            raise RecipeError(
                f"env.id={self.env.id!r} fails in its first task: {failures.said(error)}"
            ) from error

    def play(
        self, tasks: Sequence[Task], sampler: Sampler, seed: int, *, first: int = 0
    ) -> list[Episode]:
        """Play one episode of each task, in the order of `tasks`; see `attempt`.

        Raises:
            Exception: An environment failed: its error, after all others have played.
        """
        return failures.episodes(self.attempt(tasks, sampler, seed, first=first))

    def attempt(
        self, tasks: Sequence[Task], sampler: Sampler, seed: int, *, first: int = 0
    ) -> list[Episode | Failure]:
        """Play one episode of each task, in the order of `tasks`; some environments may fail.

        Args:
            tasks: The tasks.
            sampler: Draws the replies.
            seed: Seed of all replies; they do not depend on what is played at the same time.
            first: Number of the first task, where these are a part of all tasks of the seed.

        Raises:
            ValueError: A task's first prompt leaves no room for a reply.
        """
        seeds = conversation_seeds(seed, first, len(tasks))
        size = self.rows or len(tasks) or 1
        played: list[Episode | Failure] = []
        for at in range(0, len(tasks), size):
            part = tasks[at : at + size]
            starts = list(zip(self.envs(len(part)), part, strict=True))
            try:
                wave = run(self._wave(starts, sampler, seeds[at : at + size]))
            except BaseException:
                self._pool.clear()  # some may be in the middle of a step
                self._workers.kill()
                raise
            for (env, _), one in zip(starts, wave, strict=True):
                if isinstance(one, Failure):
                    self.discard(env)
            played += wave
        return played

    def discard(self, env: gym.Env[str, str]) -> None:
        """Take an environment that failed out of the pool, and close it as far as it can."""

        def close() -> None:
            with suppress(CAUGHT):
                guarded(env.close)

        self._pool[:] = [one for one in self._pool if one is not env]
        if waits(env):
            with suppress(RuntimeError):  # no thread can be started
                in_thread(close)  # it may hang
        else:
            close()

    def start(self, task: Task, policy: Policy, env: gym.Env[str, str]) -> Actor:
        """The start of an episode of a task in this environment, which is reset."""
        played = self.opened(task, env)
        return Actor(env, task, played, policy, context=self.prompt.context, blind=self.blind)

    def opened(self, task: Task, env: gym.Env[str, str]) -> TextEpisode:
        """The start of an episode as text."""
        played = TextEpisode(env, reset(env, task), context=self.prompt.context)
        check_reported(played.message, played.info)
        return played

    def resume(self, starts: Sequence[Start], sampler: Sampler, seed: int) -> list[Episode]:
        """Play one episode from each start on; see `attempt_from`.

        Raises:
            Exception: An environment failed: its error, after all others have played.
        """
        return failures.episodes(self.attempt_from(starts, sampler, seed))

    def attempt_from(
        self, starts: Sequence[Start], sampler: Sampler, seed: int
    ) -> list[Episode | Failure]:
        """Play one episode from each start on; its first steps are those of the start.

        The n-th start draws its replies with the n-th seed of `seed`, whatever else is played.

        Raises:
            ValueError: There is a policy as partner, whose conversation cannot be continued.
        """
        if self.partner is not None:
            raise ValueError("an episode with a policy as partner cannot be continued from a copy")
        seeds = conversation_seeds(seed, 0, len(starts))
        size = self.rows or len(starts) or 1
        played: list[Episode | Failure] = []
        for at in range(0, len(starts), size):
            part = [_forked(one) for one in starts[at : at + size]]
            played += run(self._wave(part, sampler, seeds[at : at + size]))
        return played

    async def _wave(
        self,
        starts: Sequence[tuple[gym.Env[str, str], Task] | Start | Failure],
        sampler: Sampler,
        seeds: Sequence[int],
    ) -> list[Episode | Failure]:
        """Play these tasks, or from these starts on, at the same time."""
        wave = _Wave(
            self,
            sampler,
            sampler.open(seeds, fresh=self.prompt.context == "turn"),
            None if self.partner is None else self.partner.listening(len(starts)),
        )
        running = [
            asyncio.ensure_future(_whole(wave.begin(row, start)))
            for row, start in enumerate(starts)
        ]
        if running:
            _, rest = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            for one in rest:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)  # no error is left unread
        return [one.result() for one in running if not one.cancelled()]


def _forked(start: Start) -> Start | Failure:
    """The start with a copy of its episode, or the failure of its environment to be copied."""
    try:
        return Start(start.actor.fork(), start.begun)
    except CAUGHT as error:
        return start.actor.failure(error)


async def _whole(playing: Coroutine[Any, Any, _Made]) -> _Made:
    """The result of an episode; one that nobody cancelled is an error, not a cancelled task.

    Raises:
        RaisedError: A call in it raised CancelledError.
    """
    try:
        return await playing
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RaisedError(told(error)) from error


@dataclass(frozen=True)
class _Wave:
    """Episodes that are played at the same time."""

    rollouts: Rollouts
    sampler: Sampler
    session: Session
    listening: Listening | None

    async def begin(
        self, row: int, start: tuple[gym.Env[str, str], Task] | Start | Failure
    ) -> Episode | Failure:
        """Play what starts so as conversation `row`."""
        if isinstance(start, Failure):
            return self._left(row, start)
        if isinstance(start, Start):
            return await self.go_on(row, start.actor, start.begun)
        return await self.episode(row, *start)

    async def episode(self, row: int, env: gym.Env[str, str], task: Task) -> Episode | Failure:
        """Play one task as conversation `row`."""
        rollouts = self.rollouts
        start = partial(rollouts.opened, task, env)
        try:
            # A policy as partner may speak first; it samples in this thread.
            played = await called(env, start) if self.listening is None else guarded(start)
        except CAUGHT as error:
            failure = failures.failed(error, task=(task.task_id, task.group, task.seed))
            return self._left(row, failure)
        policy, context = self.sampler.policy, rollouts.prompt.context
        actor = Actor(env, task, played, policy, context=context, blind=rollouts.blind)
        return await self.go_on(row, actor)

    async def go_on(self, row: int, actor: Actor, begun: Begun = UNBEGUN) -> Episode | Failure:
        """Play an episode from where it is as conversation `row`."""
        constrained = self.sampler.decoding.decode == "admissible"
        past = actor.past()
        while not actor.played.done:
            actions = actor.played.info["admissible_actions"]
            try:
                size = self._longest(actor.env, actions) if constrained else 0
            except ContractError as error:
                return self._left(row, actor.failure(error))
            if not self._fits(actor, self.session.room(row) - len(past.ids), size):
                break
            reply = await self.session.reply(
                row,
                [*past.ids, *actor.prompt],
                images=[*past.images, *actor.played.images],
                admissible=actions if constrained else None,
                begun=begun,
            )
            past, begun = _NOTHING, UNBEGUN
            if self.listening is not None:
                await self.listening.ask(row, (actor.env, reply.text))
            before = actor.before(constrained=constrained)
            try:
                blinded = actor.blinded()
                record = await actor.step(reply)
            except CAUGHT as error:
                return self._left(row, actor.failure(error, (before.observation, reply.text)))
            actor.record(reply, blinded, before, record)
        return self._left(row, actor.episode)

    def _left(self, row: int, played: Episode | Failure) -> Episode | Failure:
        """The result of conversation `row`, which is left."""
        self.session.leave(row)
        if self.listening is not None:
            self.listening.leave(row)
        return played

    def _longest(self, env: gym.Env[str, str], actions: Sequence[str]) -> int:
        """Tokens of the longest reply that gives one of these actions.

        Raises:
            ContractError: There are none, or a reply cannot give one of them.
        """
        if not actions:
            raise ContractError(_NO_ACTIONS)
        if form := form_of(env):
            raise ContractError(
                f"replies to {env.unwrapped} have the form {form!r}, and "
                f'sampling.decode="admissible" writes {FORM!r}; set sampling.decode=free'
            )
        most = getattr(env.unwrapped, "action_length", ACTION_LENGTH)
        chat = self.sampler.policy.chat
        return max(choice_size(chat, action, most) for action in actions)

    def _fits(self, actor: Actor, free: int, longest: int) -> bool:
        """Whether there is room for a reply, also if it has `longest` tokens.

        If there is none, the episode ends as truncated.
        """
        size = max(self.sampler.decoding.max_reply_tokens, longest)
        most = self.rollouts.max_tokens
        if min(most - actor.used, free) - len(actor.prompt) >= size:
            return True
        if not actor.episode.steps:
            raise ValueError(
                f"the first prompt of {actor.episode.task_id} has {len(actor.prompt)} tokens: "
                f"no room for a reply of {size} in {most}, or in "
                f"the model's {free}; raise sampling.max_tokens or shorten replies"
            )
        actor.stop()
        return False


@lru_cache(maxsize=1 << 16)
def choice_size(chat: Chat, action: str, most: int) -> int:
    """Tokens of the reply that gives an admissible action of at most so many characters.

    Raises:
        ContractError: No reply gives this action.
    """
    reply = FORM.format(thought="", action=action)
    ids = chat.reply(reply)
    read = action_in(chat.text(ids), _TAGS)
    if read != action or len(action) > most:
        given = "nothing" if read is None else repr(read[:60])
        found = f"{len(action)} characters" if read == action else f"{given} is read from it"
        raise ContractError(
            f"info['admissible_actions'] has {action!r:.60}, but no reply can give it: {found}. An "
            f"action is text of 1 to {most} characters that the tokenizer of the policy can write, "
            "without blanks around it and without tags such as <action>; list others, or set "
            "sampling.decode=free"
        )
    return len(ids)


class Before(NamedTuple):
    """What was known before a reply; `admissible` is None unless decoding is constrained."""

    observation: str
    images: list[Picture]
    admissible: list[str] | None


class _Past(NamedTuple):
    """Tokens of the turns so far, and their images."""

    ids: list[int]
    images: list[Picture]


_NOTHING = _Past([], [])
_TAGS = ("think", "action")
_NO_ACTIONS = (
    'info["admissible_actions"] is empty, and sampling.decode="admissible" samples one of them; '
    "list at least one in every state, or set sampling.decode=free"
)


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

    def past(self) -> _Past:
        """What the next prompt follows: with context "history" all turns so far, else nothing."""
        steps = self.episode.steps if self.context == "history" else []
        ids = [token for step in steps for token in (*step.prompt_ids, *step.reply_ids)]
        return _Past(ids, [image for step in steps for image in step.images])

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
        seen, goal = self.played.observation, unmarked(self.played.goal)
        steps = self.episode.steps
        past = self.past().ids
        if what == "goal":
            length = len(steps[0].prompt_ids) if steps else len(self.prompt)
            first, images = self.first
            aimless = self._tokens(without_goal(first, goal), images)
            return [*aimless, *[*past, *self.prompt][length:]]
        if what == "observation":
            ending = self.policy.chat.after(steps[-1].reply_ids, "...") if steps else []
            return [*past, *ending] or self._tokens(goal, [])
        if what == "both":
            seen = without_goal(seen, goal)
        elif goal not in seen:
            seen = f"{goal}\n\n{seen}"
        return self._tokens(seen, self.played.images)
