"""Rollouts: all episodes run at the same time, each as fast as its replies and environment allow.

The engine decides which replies are sampled together. Environments that wait for a server or are in
worker processes are stepped in threads at the same time. An environment that fails loses its
episode and is replaced (`trainer.play.failures`); the others play on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from agent_envs.contract import ContractError
from agent_envs.imports import describe_error
from agent_envs.prompt import escape_marks, leave_out_goal
from agent_envs.replies import read_action
from agent_envs.spaces import ACTION_LENGTH
from agent_envs.vector import call_in_thread, waits
from trainer.engine import FORM, UNBEGUN, Begun, Prompt, Reply, conversation_seeds
from trainer.engine.own import run
from trainer.errors import RecipeError
from trainer.play.environments import make_env, reply_form
from trainer.play.episode import Stepped, TextEpisode, call_env, draw_numbers
from trainer.play.failures import Failure, concerns_the_run, require_episodes
from trainer.play.records import Episode
from trainer.scale.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    import gymnasium as gym

    from agent_envs.panels import Panel
    from trainer.engine import Sampler, Session
    from trainer.model.chat import Chat
    from trainer.model.policy import Policy
    from trainer.model.vision import Picture
    from trainer.play.environments import Env, PromptOptions
    from trainer.play.partner import Listening, PolicyPartner
    from trainer.play.records import Step


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
    rows = draw_numbers(len(panel.task_ids), tasks, rng)
    seeds = rng.integers(2**31, size=tasks)
    return [
        Task(panel.task_ids[row], group, int(seeds[group]))
        for group, row in enumerate(rows)
        for _ in range(rollouts)
    ]


class Past(NamedTuple):
    """Tokens of the turns so far, and their images."""

    ids: list[int]
    images: list[Picture]


class TokenEpisode(TextEpisode):
    """A running episode with the tokens of its prompts and replies.

    Args:
        env: The environment.
        start: What its `reset` returned.
        context: As for `TextEpisode`.
        task: The task.
        policy: The policy whose chat template makes the prompts.
        blind: Blind prompts to record for each turn, see `Rollouts.blind`.

    Attributes:
        prompt: Tokens of the next prompt; with context "history", those since the last reply.
        used: Tokens of the conversation so far.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        start: tuple[Any, dict[str, Any]],
        *,
        context: str,
        task: Task,
        policy: Policy,
        blind: tuple[str, ...] = (),
    ) -> None:
        super().__init__(env, start, context=context)
        self.task, self.policy, self.blind = task, policy, blind
        self.task_type: str = self.info.get("task_type", "")
        self.answer = find_answer(self.info)
        self.used = 0
        self.first = self.observation, self.images
        self.prompt = self._encode(self.message, self.images)

    @property
    def episode(self) -> Episode:
        """The episode as it is recorded."""
        return Episode(
            task_id=self.task_id,
            goal=self.goal,
            group=self.task.group,
            seed=self.task.seed,
            context=self.context,
            steps=self.steps,
            success=self.success,
            outcome=self.outcome,
            task_type=self.task_type,
            truncated=self.truncated,
            partner_outcome=self.partner_outcome,
            answer=self.answer,
            answer_opening=render_answer_opening(self.env),
        )

    def past(self) -> Past:
        """What the next prompt follows: with context "history" all turns so far, else nothing."""
        steps = self.steps if self.context == "history" else []
        ids = [token for step in steps for token in (*step.prompt_ids, *step.reply_ids)]
        return Past(ids, [image for step in steps for image in step.images])

    def render_blind(self) -> dict[str, list[int]]:
        """Blind prompts of the turn, by the part that they leave out."""
        return {what: self._without(what) for what in self.blind}

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
            self.prompt = self._encode(self.message, self.images)
        return step

    def fail(self, error: Exception, now: tuple[str, str] | None = None) -> Failure:
        """The record of an error, if in a turn with its (observation, reply)."""
        task = self.task_id, self.task.group, self.task.seed
        return Failure.of(error, task=task, steps=self.steps, now=now)

    def _encode(self, message: str, images: Sequence[Picture]) -> list[int]:
        """Tokens of the first message of a conversation, or of a turn's whole prompt."""
        return expand_images(self.policy, self.policy.chat.opening(message), images)

    def _without(self, what: str) -> list[int]:
        """The prompt of the turn without goal, history, both or observation."""
        if self.context == "turn":
            images = [] if what == "observation" else self.images
            return self._encode(self.env.blind(what), images)  # type: ignore[attr-defined]
        seen, goal = self.observation, escape_marks(self.goal)
        past = self.past().ids
        if what == "goal":
            length = len(self.steps[0].prompt_ids) if self.steps else len(self.prompt)
            first, images = self.first
            aimless = self._encode(leave_out_goal(first, goal), images)
            return [*aimless, *[*past, *self.prompt][length:]]
        if what == "observation":
            ending = self.policy.chat.after(self.steps[-1].reply_ids, "...") if self.steps else []
            return [*past, *ending] or self._encode(goal, [])
        if what == "both":
            seen = leave_out_goal(seen, goal)
        elif goal not in seen:
            seen = f"{goal}\n\n{seen}"
        return self._encode(seen, self.images)


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

    @property
    def graded(self) -> bool:
        """Whether the environment declares that outcomes may be other numbers than 0 and 1."""
        return bool(getattr(self.envs(1)[0].unwrapped, "graded", False))

    def probe(self) -> list[dict[str, Any]]:
        """What the environment reports at its first reset and after an empty reply.

        Raises:
            RecipeError: It fails.
        """
        env = self.envs(1)[0]
        try:
            return [env.reset(seed=0, options={"task": 0})[1], env.step("")[-1]]
        except Exception as error:
            if concerns_the_run(error):
                raise
            raise RecipeError(
                f"env.id={self.env.id!r} fails in its first task: {describe_error(error)}"
            ) from error

    def play(
        self, tasks: Sequence[Task], sampler: Sampler, seed: int, *, first: int = 0
    ) -> list[Episode]:
        """Play one episode of each task, in the order of `tasks`; see `attempt`.

        Raises:
            Exception: An environment failed: its error, after all others have played.
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

        Raises:
            ValueError: A task's first prompt leaves no room for a reply.
        """
        seeds = conversation_seeds(seed, first, len(tasks))
        size = self.rows or len(tasks) or 1
        played: list[Episode | Failure] = []
        for at in range(0, len(tasks), size):
            part = tasks[at : at + size]
            envs = self.envs(len(part))
            wave = _Wave.open(self, sampler, seeds[at : at + size])
            starts = [
                wave.begin(row, env, task)
                for row, (env, task) in enumerate(zip(envs, part, strict=True))
            ]
            try:
                found = run(_play_together(starts))
            except BaseException:
                self._pool.clear()  # some may be in the middle of a step
                self._workers.kill()
                raise
            for env, one in zip(envs, found, strict=True):
                if isinstance(one, Failure):
                    self.discard(env)
            played += found
        return played

    def discard(self, env: gym.Env[str, str]) -> None:
        """Take an environment that failed out of the pool, and close it as far as it can."""

        def close() -> None:
            with suppress(Exception):
                env.close()

        self._pool[:] = [one for one in self._pool if one is not env]
        if waits(env):
            with suppress(RuntimeError):  # no thread can be started
                call_in_thread(close)  # it may hang
        else:
            close()

    def start(self, task: Task, policy: Policy, env: gym.Env[str, str]) -> TokenEpisode:
        """The start of an episode of a task in this environment, which is reset."""
        return TokenEpisode(
            env,
            env.reset(seed=task.seed, options={"task_id": task.task_id}),
            context=self.prompt.context,
            task=task,
            policy=policy,
            blind=self.blind,
        )

    def resume(self, starts: Sequence[Start], sampler: Sampler, seed: int) -> list[Episode]:
        """Play one episode from each start on; see `attempt_from`.

        Raises:
            Exception: An environment failed: its error, after all others have played.
        """
        return require_episodes(self.attempt_from(starts, sampler, seed))

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
            wave = _Wave.open(self, sampler, seeds[at : at + size])
            part = starts[at : at + size]
            played += run(_play_together([wave.resume(row, one) for row, one in enumerate(part)]))
        return played


async def _play_together(
    episodes: Sequence[Coroutine[Any, Any, Episode | Failure]],
) -> list[Episode | Failure]:
    """The results of episodes that are played at the same time; the first error ends them all."""
    running = [asyncio.ensure_future(one) for one in episodes]
    if running:
        _, rest = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        for one in rest:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)  # no error is left unread
    return [one.result() for one in running if not one.cancelled()]


@dataclass(frozen=True)
class _Wave:
    """Episodes that are played at the same time, each as one conversation of a session."""

    rollouts: Rollouts
    sampler: Sampler
    session: Session
    listening: Listening | None

    @classmethod
    def open(cls, rollouts: Rollouts, sampler: Sampler, seeds: Sequence[int]) -> Self:
        """Start the conversations with these seeds."""
        session = sampler.open(seeds, fresh=rollouts.prompt.context == "turn")
        partner = rollouts.partner
        return cls(rollouts, sampler, session, partner.listening(len(seeds)) if partner else None)

    async def begin(self, row: int, env: gym.Env[str, str], task: Task) -> Episode | Failure:
        """Play one task as conversation `row`."""
        start = partial(self.rollouts.start, task, self.sampler.policy, env)
        try:
            # A policy as partner may speak first; it samples in this thread.
            episode = await call_env(env, start) if self.listening is None else start()
        except Exception as error:  # noqa: BLE001 - the episode is lost, or Failure.of raises
            lost = Failure.of(error, task=(task.task_id, task.group, task.seed))
            return self._leave(row, lost)
        return await self.play(row, episode)

    async def resume(self, row: int, start: Start) -> Episode | Failure:
        """Play a copy of a running episode to its end as conversation `row`."""
        try:
            episode = start.episode.fork()
        except Exception as error:  # noqa: BLE001 - as above
            return self._leave(row, start.episode.fail(error))
        return await self.play(row, episode, start.begun)

    async def play(
        self, row: int, episode: TokenEpisode, begun: Begun = UNBEGUN
    ) -> Episode | Failure:
        """Play an episode from where it is as conversation `row`."""
        constrained = self.sampler.decoding.decode == "admissible"
        past = episode.past()
        while not episode.done:
            actions = episode.info["admissible_actions"]
            try:
                size = self._measure_longest(episode.env, actions) if constrained else 0
            except ContractError as error:
                return self._leave(row, episode.fail(error))
            if not self._fits(episode, self.session.room(row) - len(past.ids), size):
                break
            ids, images = [*past.ids, *episode.prompt], [*past.images, *episode.images]
            reply = await self.session.reply(row, Prompt(ids, images, actions, begun))
            past, begun = _NOTHING, UNBEGUN
            if self.listening is not None:
                await self.listening.ask(row, (episode.env, reply.text))
            try:
                blind = episode.render_blind()
                stepped = await call_env(episode.env, partial(episode.env.step, reply.text))
            except Exception as error:  # noqa: BLE001 - as above
                return self._leave(row, episode.fail(error, (episode.observation, reply.text)))
            episode.take_reply(reply, blind, stepped)
        return self._leave(row, episode.episode)

    def _leave(self, row: int, played: Episode | Failure) -> Episode | Failure:
        """The result of conversation `row`, which is left."""
        self.session.leave(row)
        if self.listening is not None:
            self.listening.leave(row)
        return played

    def _measure_longest(self, env: gym.Env[str, str], actions: Sequence[str]) -> int:
        """Tokens of the longest reply that gives one of these actions.

        Raises:
            ContractError: There are none, or a reply cannot give one of them.
        """
        if not actions:
            raise ContractError(_NO_ACTIONS)
        if (form := reply_form(env)) not in {"", FORM}:
            raise ContractError(
                f"replies to {env.unwrapped} have the form {form!r}, and "
                f'sampling.decode="admissible" writes {FORM!r}; set sampling.decode=free'
            )
        most = getattr(env.unwrapped, "action_length", ACTION_LENGTH)
        chat = self.sampler.policy.chat
        return max(_measure_choice(chat, action, most) for action in actions)

    def _fits(self, episode: TokenEpisode, free: int, longest: int) -> bool:
        """Whether there is room for a reply, also if it has `longest` tokens.

        If there is none, the episode ends as truncated.
        """
        size = max(self.sampler.decoding.max_reply_tokens, longest)
        most = self.rollouts.max_tokens
        if min(most - episode.used, free) - len(episode.prompt) >= size:
            return True
        if not episode.steps:
            raise ValueError(
                f"the first prompt of {episode.task_id} has {len(episode.prompt)} tokens: "
                f"no room for a reply of {size} in {most}, or in "
                f"the model's {free}; raise sampling.max_tokens or shorten replies"
            )
        episode.stop()
        return False


def find_answer(info: dict[str, Any]) -> str:
    """The first answer that the environment accepts, "" if it reports none."""
    return next(iter(info.get("answers", ())), "")


def render_answer_opening(env: gym.Env[str, str]) -> str:
    """What a reply without thoughts says before an answer."""
    form = reply_form(env)
    return form.format(thought="", action="<answer>") if form else "<think></think><action>"


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


@lru_cache(maxsize=1 << 16)
def _measure_choice(chat: Chat, action: str, most: int) -> int:
    """Tokens of the reply that gives an admissible action of at most so many characters.

    Raises:
        ContractError: No reply gives this action.
    """
    ids = chat.reply(FORM.format(thought="", action=action))
    if read_action(chat.text(ids)) != action or len(action) > most:
        raise ContractError(
            f"info['admissible_actions'] has {action!r:.60}, but no reply can give it. An action "
            f"is text of 1 to {most} characters that the tokenizer of the policy can write, "
            "without blanks around it and without tags such as <action>; list others, or set "
            "sampling.decode=free"
        )
    return len(ids)


_NOTHING = Past([], [])
_NO_ACTIONS = (
    'info["admissible_actions"] is empty, and sampling.decode="admissible" samples one of them; '
    "list at least one in every state, or set sampling.decode=free"
)
