"""Rollouts: all episodes run at the same time, each as fast as its replies and environment allow.

The engine decides which replies are sampled together. Environments that wait for a server or are in
worker processes are stepped in threads at the same time. An environment that fails loses its
episode and is replaced (`trainer.play.failures`); the others play on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agent_envs.vector import call_env, call_in_thread, run_coroutine
from agent_envs.workers import Workers
from trainer.engine import UNBEGUN, Begun, Prompt, conversation_seeds
from trainer.play.admissible import measure_longest
from trainer.play.blind import render_blind
from trainer.play.environments import find_form, make_env
from trainer.play.failures import EpisodeError, Failure, lose_episode, require_episodes
from trainer.play.mixture import Mixture
from trainer.play.partner import Listening
from trainer.play.tokens import Past, TokenEpisode

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.panels import Panel
    from trainer.engine import Sampler, Session
    from trainer.model.policy import Policy
    from trainer.play.environments import Env, PromptOptions
    from trainer.play.partner import PolicyPartner
    from trainer.play.records import Episode, Task

_Item = TypeVar("_Item")


class Start(NamedTuple):
    """Where a rollout starts: after the turns of a running episode.

    Attributes:
        episode: The episode; it is copied, so it can be the start of several.
        begun: How the first reply begins.
    """

    episode: TokenEpisode
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
            ValueError: One cannot be made, see `make_env`.
        """
        if self.env.processes:
            self._pool.extend(self._workers.make_envs(count - len(self._pool)))
        while len(self._pool) < count:
            made = make_env(self.env, self.prompt, split=self.split, partner=self.partner)
            self._pool.append(made)
        return self._pool[:count]

    @cached_property
    def _workers(self) -> Workers:
        make, env = partial(make_env, self.env, self.prompt, split=self.split), self.env
        return Workers(make, processes=env.processes, step_seconds=env.step_seconds, name=env.id)

    @property
    def panel(self) -> Panel:
        """The tasks of the split."""
        panel: Panel = self.envs(1)[0].get_wrapper_attr("panel")
        return panel

    @property
    def max_turns(self) -> int:
        """The largest turn limit of the environments."""
        return int(self.envs(1)[0].get_wrapper_attr("max_turns"))

    def list_worlds(self) -> dict[str, gym.Env[str, str]]:
        """The environment by its id, or those of a mixture by name."""
        (env,) = self.envs(1)
        return env.worlds if isinstance(env, Mixture) else {self.env.id: env}

    def play(
        self, tasks: Sequence[Task], sampler: Sampler, seed: int, *, first: int = 0
    ) -> list[Episode]:
        """Play one episode of each task, in the order of `tasks`; see `attempt`.

        Raises:
            EpisodeError: An environment failed, after all others have played.
        """
        return require_episodes(self.attempt(tasks, sampler, seed, first=first))

    def attempt(
        self, tasks: Sequence[Task], sampler: Sampler, seed: int, *, first: int = 0
    ) -> list[Episode | Failure]:
        """Play one episode of each task, in the order of `tasks`; some environments may fail.

        Args:
            tasks: The tasks.
            sampler: Draws the replies.
            seed: Seed of all replies; they do not depend on what is played at the same time.
            first: Number of the first task, where these are a part of all tasks of the seed.
        """
        played: list[Episode | Failure] = []
        for part, wave in self._open_waves(tasks, sampler, seed, first):
            envs = self.envs(len(part))
            starts = map(wave.start, envs, part)
            try:
                found = wave.play_all((start, UNBEGUN) for start in starts)
            except BaseException:  # some may be in the middle of a step
                self._pool.clear()
                self._workers.kill()
                raise
            for env, one in zip(envs, found, strict=True):
                if isinstance(one, Failure):
                    self.discard(env)
            played += found
        return played

    def attempt_from(
        self, starts: Sequence[Start], sampler: Sampler, seed: int
    ) -> list[Episode | Failure]:
        """Play one episode from each start on; its first steps are those of the start.

        The n-th start draws its replies with the n-th seed of `seed`, whatever else is played.
        """
        return [
            one
            for part, wave in self._open_waves(starts, sampler, seed)
            for one in wave.play_all((wave.copy(start.episode), start.begun) for start in part)
        ]

    def _open_waves(
        self, items: Sequence[_Item], sampler: Sampler, seed: int, first: int = 0
    ) -> Iterator[tuple[Sequence[_Item], _Wave]]:
        """The items that are played at the same time, and their conversations."""
        seeds = conversation_seeds(seed, first, len(items))
        size = self.rows or len(items) or 1
        for at in range(0, len(items), size):
            part = seeds[at : at + size]
            session = sampler.open(part, fresh=self.prompt.context == "turn")
            listening = Listening(self.partner, len(part)) if self.partner else None
            yield items[at : at + size], _Wave(self, sampler, session, listening)

    def discard(self, env: gym.Env[str, str]) -> None:
        """Take an environment that failed out of the pool, and close it as far as it can."""
        self._pool[:] = [one for one in self._pool if one is not env]
        with suppress(RuntimeError):  # no thread can be started
            call_in_thread(env.close)  # it may hang

    def start(self, task: Task, policy: Policy, env: gym.Env[str, str]) -> TokenEpisode:
        """The start of an episode of a task in this environment, which is reset."""
        start = env.reset(seed=task.seed, options={"task_id": task.task_id})
        return TokenEpisode(env, start, self.prompt, task=task, policy=policy)


@dataclass(frozen=True)
class _Wave:
    """Episodes that are played at the same time, each as one conversation of a session."""

    rollouts: Rollouts
    sampler: Sampler
    session: Session
    listening: Listening | None

    def play_all(
        self, starts: Iterable[tuple[Coroutine[Any, Any, TokenEpisode], Begun]]
    ) -> list[Episode | Failure]:
        """Play the episodes to their ends; the first error that is no failure ends them all."""

        async def gather() -> list[Episode | Failure]:
            rows = [self._play_row(row, *start) for row, start in enumerate(starts)]
            return await asyncio.gather(*rows)

        return run_coroutine(gather())

    async def start(self, env: gym.Env[str, str], task: Task) -> TokenEpisode:
        """The start of a task's episode."""
        start = partial(self.rollouts.start, task, self.sampler.policy, env)
        with lose_episode(task):
            # A policy as partner may speak first; it samples in this thread.
            return await call_env(env, start) if self.listening is None else start()

    async def copy(self, episode: TokenEpisode) -> TokenEpisode:
        """A copy of a running episode."""
        with lose_episode(episode.task, episode.steps):
            return episode.fork()

    async def _play_row(
        self, row: int, start: Coroutine[Any, Any, TokenEpisode], begun: Begun
    ) -> Episode | Failure:
        """Play an episode to its end as conversation `row`, and leave the conversation."""
        played: Episode | Failure
        try:
            played = await self._play(row, await start, begun)
        except EpisodeError as error:
            played = error.failure
        self.session.leave(row)
        if self.listening is not None:
            self.listening.leave(row)
        return played

    async def _play(self, row: int, episode: TokenEpisode, begun: Begun) -> Episode:
        """Play an episode from where it is: a reply, a step, until it ends."""
        past = episode.past()
        while not episode.done:
            actions, chat = episode.info["admissible_actions"], self.sampler.policy.chat
            chooses = self.sampler.decoding.constrains(actions, find_form(episode.env))
            with lose_episode(episode.task, episode.steps):
                longest = measure_longest(chat, episode.env, actions) if chooses else 0
                fits = self._fits(episode, self.session.room(row) - len(past.ids), longest)
            if not fits:
                break
            ids, images = [*past.ids, *episode.prompt], [*past.images, *episode.images]
            prompt = Prompt(ids, images, actions if chooses else (), begun)
            reply = await self.session.reply(row, prompt)
            past, begun = Past([], []), UNBEGUN
            now, step = (episode.observation, reply.text), partial(episode.env.step, reply.text)
            with lose_episode(episode.task, episode.steps, now):
                blind = {what: render_blind(episode, what) for what in self.rollouts.blind}
            if self.listening is not None:
                step = await self.listening.begin_step(row, episode.env, step)
            with lose_episode(episode.task, episode.steps, now):
                episode.take_reply(reply, blind, await call_env(episode.env, step))
        return episode.episode

    def _fits(self, episode: TokenEpisode, free: int, longest: int) -> bool:
        """Whether there is room for a reply, also if it has `longest` tokens.

        If there is none, the episode ends as truncated.
        """
        size = max(self.sampler.decoding.max_reply_tokens, longest)
        most = self.rollouts.max_tokens - episode.used
        if min(most, free) - len(episode.prompt) >= size:
            return True
        if not episode.steps:
            raise ValueError(
                f"the first prompt of {episode.task_id} has {len(episode.prompt)} tokens: "
                f"no room for a reply of {size} in {min(most, free)}; "
                + ("raise sampling.max_tokens" if most < free else "use a model of more positions")
                + ", or lower sampling.max_reply_tokens"
            )
        episode.stop()
        return False
