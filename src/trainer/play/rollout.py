"""Rollouts: all episodes run at the same time, each as fast as its replies and environment allow.

The engine decides which replies are sampled together. Environments that wait for a server or are in
worker processes are stepped in threads at the same time. The environment's last reward is the
outcome of the episode; every other reward belongs to its turn. An environment that fails loses its
episode and is replaced (`trainer.play.failures`); the others play on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agent_envs.contract import ContractError
from agent_envs.imports import describe_error
from agent_envs.replies import read_action
from agent_envs.spaces import ACTION_LENGTH
from agent_envs.vector import call_concurrently, call_in_thread, waits
from trainer.engine import FORM, UNBEGUN, Begun, Prompt, conversation_seeds
from trainer.engine.own import run
from trainer.play import failures
from trainer.play.actor import Actor, Past, Task
from trainer.play.environments import form_of, graded, make_env
from trainer.play.episode import (
    TextEpisode,
    answer_of,
    called,
    drawn,
)
from trainer.play.failures import CAUGHT, Failure, check_reported
from trainer.play.raised import RaisedError, guarded
from trainer.recipes import RecipeError
from trainer.scale.workers import Workers, applied

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import gymnasium as gym

    from agent_envs.panels import Panel
    from trainer.engine import Sampler, Session
    from trainer.model.chat import Chat
    from trainer.model.policy import Policy
    from trainer.play.environments import Env, PromptOptions
    from trainer.play.partner import Listening, PolicyPartner
    from trainer.play.records import Episode

_Made = TypeVar("_Made")


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


def reset(env: gym.Env[str, str], task: Task) -> tuple[Any, dict[str, Any]]:
    """Observation and info at the start of a task."""
    return guarded(partial(env.reset, seed=task.seed, options={"task_id": task.task_id}))


def together(
    envs: Sequence[gym.Env[str, str]], calls: Sequence[Callable[[], _Made]]
) -> list[_Made]:
    """Results of one call for each environment; in threads if the environments wait for servers."""
    return call_concurrently(calls) if any(map(waits, envs)) else [call() for call in calls]


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
                call_in_thread(close)  # it may hang
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
        raise RaisedError(describe_error(error)) from error


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
            ids, images = [*past.ids, *actor.prompt], [*past.images, *actor.played.images]
            reply = await self.session.reply(row, Prompt(ids, images, actions, begun))
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
        if (form := form_of(env)) not in {"", FORM}:
            raise ContractError(
                f"replies to {env.unwrapped} have the form {form!r}, and "
                f'sampling.decode="admissible" writes {FORM!r}; set sampling.decode=free'
            )
        most = getattr(env.unwrapped, "action_length", ACTION_LENGTH)
        chat = self.sampler.policy.chat
        return max(_choice_size(chat, action, most) for action in actions)

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
def _choice_size(chat: Chat, action: str, most: int) -> int:
    """Tokens of the reply that gives an admissible action of at most so many characters.

    Raises:
        ContractError: No reply gives this action.
    """
    reply = FORM.format(thought="", action=action)
    ids = chat.reply(reply)
    read = read_action(chat.text(ids))
    if read != action or len(action) > most:
        if action != action.strip() or not action:
            found = "it has blanks around it" if action.strip() else "it is blank"
        elif len(action) > most:
            found = f"it has {len(action)} characters"
        else:
            found = f"{'nothing' if read is None else repr(read[:60])} is read from it"
        raise ContractError(
            f"info['admissible_actions'] has {action!r:.60}, but no reply can give it: {found}. An "
            f"action is text of 1 to {most} characters that the tokenizer of the policy can write, "
            "without blanks around it and without tags such as <action>; list others, or set "
            "sampling.decode=free"
        )
    return len(ids)


_NOTHING = Past([], [])
_NO_ACTIONS = (
    'info["admissible_actions"] is empty, and sampling.decode="admissible" samples one of them; '
    "list at least one in every state, or set sampling.decode=free"
)
