"""An episode behind plain text, with a record of every turn: the core of all adapters.

The trainer's own rollouts play through it, too. Nothing here needs torch.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, TypeVar

import numpy as np
from gymnasium.error import ResetNeeded
from pydantic import ValidationError

from agent_envs.prompt import IMAGE, escape_marks
from agent_envs.vector import call_in_thread, waits
from credit.rows import TurnRecord, rows_of
from trainer.model.vision import Picture
from trainer.options import explained
from trainer.play.environments import (
    OWN_REWARD,
    Env,
    PromptOptions,
    check_success,
    check_turn_reward,
    form_of,
    graded,
    make_env,
)
from trainer.play.raised import guarded
from trainer.recipes import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from agent_envs.panels import Panel
    from credit import Estimator

_Made = TypeVar("_Made")
Result = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""What `env.step` returns."""

INSTRUCTION = (
    "Solve the task, one action per reply. "
    "Reply with <think>your thoughts</think><action>your action</action>."
)
"""Text before the first observation with context "history"."""


def opening(env: gym.Env[str, str], observation: str) -> str:
    """The first message of a conversation.

    An environment that parses whole replies gives the instruction itself.
    """
    return observation if form_of(env) else f"{INSTRUCTION}\n\n{observation}"


def answer_of(info: dict[str, Any]) -> str:
    """The first answer that the environment accepts, "" if it reports none."""
    return next(iter(info.get("answers", ())), "")


def answer_opening(env: gym.Env[str, str]) -> str:
    """What a reply without thoughts says before an answer."""
    form = form_of(env)
    return form.format(thought="", action="<answer>") if form else "<think></think><action>"


def shown(env: gym.Env[str, str], observation: Any, goal: str = "") -> tuple[str, list[Picture]]:
    """An observation as text, with `<image>` for each image, and the images.

    An observation that is an image does not say the `goal`, so the text begins with it.
    """
    if isinstance(observation, str):
        images: list[Any] | None = getattr(env, "images", None)  # set by the Prompt wrapper
        if images is None:
            return escape_marks(observation), []
        return observation, [Picture.of(image) for image in images]
    return f"{escape_marks(goal)}\n\n{IMAGE}" if goal else IMAGE, [Picture.of(observation)]


async def called(env: gym.Env[str, str], call: Callable[[], _Made]) -> _Made:
    """The result of a guarded call; if the environment waits for a server, made in a thread.

    The thread does not hold up an exit.
    """
    if not waits(env):
        return guarded(call)

    def outcome() -> _Made | Exception:  # asyncio exchanges some errors for others of its own
        try:
            return guarded(call)
        except Exception as error:  # noqa: BLE001 - raised below
            return error

    found = await asyncio.wrap_future(call_in_thread(outcome))
    if isinstance(found, Exception):
        raise found
    return found


def drawn(size: int, count: int, rng: np.random.Generator) -> list[int]:
    """`count` of the numbers below `size`, without repeats until all have occurred."""
    rounds = [rng.permutation(size) for _ in range(-(-count // size))]
    rows: list[int] = np.concatenate(rounds)[:count].tolist()
    return rows


class TextEpisode:
    """One running episode: what the model reads next, and the records of its turns.

    Args:
        env: Environment of `make_env`.
        opened: What its `reset` returned.
        context: "history" for one conversation, "turn" for a new prompt at every turn.

    Attributes:
        message: What the model reads next. With context "history" the first message also says the
            form of a reply.
        images: Images in `message`, in the order of its `<image>` marks.
        info: The environment's last `info`.
        done: Whether the episode has ended.
        success: Whether the task is solved.
        truncated: Whether it was cut off, by the limit on turns or by `stop`.
        outcome: Terminal reward of the environment, without reward wrappers; 0 before the end.
        partner_outcome: Outcome of the other side of a conversation; None without one.
        records: The turns so far; the last one has the outcome when the episode has ended.
    """

    def __init__(
        self, env: gym.Env[str, str], opened: tuple[Any, dict[str, Any]], *, context: str
    ) -> None:
        self.env, self.context = env, context
        seen, self.info = opened
        self.goal: str = self.info["goal"]
        self.task_id: str = self.info["task_id"]
        talk = context == "history"
        self.observation, self.images = shown(env, seen, self.goal if talk else "")
        self.message = opening(env, self.observation) if talk else self.observation
        self.done = self.success = self.truncated = False
        self.outcome = 0.0
        self.partner_outcome: float | None = None
        self.records: list[TurnRecord] = []
        self._names: set[str] = set()
        self._own = 0.0  # what the environment itself paid for the last turn

    def step(self, reply: str) -> tuple[str, bool]:
        """Step with a model's whole reply: the next message, and whether the episode has ended.

        Raises:
            gymnasium.error.ResetNeeded: The episode has ended.
        """
        self._check_running()
        self.took(self.env.step(reply))
        return self.message, self.done

    async def astep(self, reply: str) -> tuple[str, bool]:
        """`step` that lets others run while the environment waits for a server."""
        self._check_running()
        self.took(await called(self.env, partial(self.env.step, reply)))
        return self.message, self.done

    def took(self, result: Result) -> TurnRecord:
        """Record a turn from what `env.step` returned.

        Raises:
            RecipeError: The environment or a wrapper reports turn rewards of other names, or what
                are no numbers.
        """
        anchor = self.info["anchor"]
        observation, reward, terminated, truncated, self.info = result
        self.observation, self.images = shown(self.env, observation)
        self.message = self.observation
        self.done = terminated or truncated
        self.success = self.info["success"]
        self.truncated = truncated and not terminated
        self._own = float(self.info[OWN_REWARD])
        paid = float(reward)
        if self.done:
            self.outcome = self._own
            paid -= self.outcome
            self.partner_outcome = self.info.get("partner_reward")
        self._check_turn_reward()
        record = TurnRecord(
            task_id=self.task_id,
            goal=self.goal,
            step=len(self.records),
            action=self.info["action"],
            anchor=anchor,
            valid=self.info["valid"],
            invalid_reason=self.info["invalid_reason"],
            progress=self.info["progress"],
            reward=paid,
            turn_reward=dict(self.info.get("turn_reward", {})),
            outcome=self.outcome if self.done else None,
            success=self.success if self.done else None,
        )
        self.records.append(record)
        return record

    def ended(self) -> list[TurnRecord]:
        """The records as they are if the episode ends here; it goes on.

        As at the limit on turns, what the environment itself paid for the last turn is the outcome.
        """
        if self.done or not self.records:
            return [*self.records]
        *before, last = self.records
        reward = last.reward - self._own
        return [*before, replace(last, reward=reward, outcome=self._own, success=self.success)]

    def stop(self) -> None:
        """End the episode where it is, as truncated, e.g. because the tokens are used up."""
        if not self.done:
            self.records[:] = self.ended()
            self.outcome = self._own
            self.done = self.truncated = True

    def fork(self) -> TextEpisode:
        """A copy that continues as this episode would; neither changes the other.

        Use `Episodes.fork`, which takes the copy's environment back.

        Raises:
            gymnasium.error.ResetNeeded: The episode has ended.
            TypeError: The environment cannot be copied.
        """
        self._check_running()
        copied = copy.copy(self)
        copied.env, copied.info = copy.deepcopy((self.env, self.info))
        copied.records = [*self.records]
        return copied

    def check_text(self) -> None:
        """Check that the model reads only text next.

        Raises:
            ValueError: It has images.
        """
        if self.images:
            raise ValueError(
                f"the environment of {self.task_id!r} shows images, and this adapter plays text; "
                "use the environment's text observation, or agent-envs train"
            )

    def _check_running(self) -> None:
        if self.done:
            raise ResetNeeded(f"the episode of {self.task_id!r} has ended; start another one")

    def _check_turn_reward(self) -> None:
        """Check the turn rewards of wrappers, too, and that every turn has the same ones."""
        inner = self.env.unwrapped
        name = getattr(inner, "kind", type(inner).__name__)  # of one in a worker process
        source = f"the environment {name} with its wrappers"
        check_turn_reward(self.info, source)
        names = set(self.info.get("turn_reward", {}))
        if self.records and names != self._names:
            raise RecipeError(
                f"{source} reports info['turn_reward'] of {sorted(names)} after one of "
                f"{sorted(self._names)}; every turn needs the same names"
            )
        self._names = names


class Episodes:
    """Starts episodes of one environment; the environments of ended ones are used again.

    Safe to use from several threads, and to pickle: a copy makes environments of its own.

    Args:
        env: Registered id ("AlfWorld-v0", "package:Id-v0"), or "package.module:Class" of an
            `agent_envs.AgentEnv`.
        context: "history" for one conversation, or "turn" for a new prompt at every turn.
        template: With context "turn", the template as "package.module:NAME"; "" for the
            environment's own.
        history: With context "turn", past turns that the prompt shows.
        options: `split`, `data`, `max_turns`, `invalid_penalty` and `wrappers` as in a recipe's
            section `env`; anything else goes to the environment.

    Raises:
        RecipeError: The environment, a wrapper or the template does not exist or does not fit.
    """

    def __init__(
        self,
        env: str,
        *,
        context: Literal["history", "turn"] = "history",
        template: str = "",
        history: int = 2,
        **options: Any,
    ) -> None:
        ours = {
            name: options.pop(name)
            for name in ("split", "data", "max_turns", "invalid_penalty", "wrappers")
            if name in options
        }
        try:
            self.env = Env(id=env, **ours, options=options)
            self.prompt = PromptOptions(context=context, template=template, history=history)
        except ValidationError as error:
            raise RecipeError(f"the options of {env!r:.200}: {explained(error)}") from error
        self._idle = deque([self._made()])
        self._lent: dict[int, TextEpisode] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"env": self.env, "prompt": self.prompt}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _idle=deque(), _lent={})

    @property
    def panel(self) -> Panel:
        """The tasks of the split."""
        env = self._taken()
        self._idle.append(env)
        inner: Any = env.unwrapped
        panel: Panel = inner.panel
        return panel

    @property
    def graded(self) -> bool:
        """Whether the environment declares that outcomes may be other numbers than 0 and 1."""
        env = self._taken()
        self._idle.append(env)
        return graded(env)

    def tasks(self, count: int = 0, *, seed: int = 0) -> list[dict[str, Any]]:
        """Tasks for a trainer's data set, as keyword arguments of `start` and JSON values.

        Args:
            count: Number of tasks, drawn without repeats until all have occurred; 0 takes the
                panel in its order.
            seed: Seed of the draw and of the episodes' seeds.

        Raises:
            ValueError: `count` is no number of tasks, or `seed` is no integer of at least 0.
        """
        if type(count) is not int or count < 0:
            raise ValueError(f"count must be a number of tasks, 0 for all, got {count!r:.60}")
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {seed!r:.60}")
        rng, ids = np.random.default_rng(seed), self.panel.task_ids
        order = drawn(len(ids), count, rng) if count else range(len(ids))
        seeds = rng.integers(2**31, size=len(order)).tolist()
        return [{"task": ids[row], "seed": one} for row, one in zip(order, seeds, strict=True)]

    def start(self, *, task: int | str | None = None, seed: int | None = None) -> TextEpisode:
        """Start an episode; `release` it when it has ended.

        Args:
            task: Number or id of the task; None draws one by the seed.
            seed: Seed of the episode.

        Raises:
            ValueError: There is no such task.
        """
        env = self._taken()
        named = {"task_id": task} if isinstance(task, str) else {"task": task}
        with ExitStack() as failing:
            failing.callback(self._idle.append, env)
            opened = env.reset(seed=seed, options=named if task is not None else None)
            episode = TextEpisode(env, opened, context=self.prompt.context)
            failing.pop_all()
        self._lent[id(episode)] = episode
        return episode

    def fork(self, episode: TextEpisode) -> TextEpisode:
        """A copy of a running episode, as `TextEpisode.fork`; `release` it when it has ended.

        Raises:
            TypeError: It is no episode, or its environment cannot be copied.
            gymnasium.error.ResetNeeded: The episode has ended.
        """
        _check_episode("fork", episode)
        copied = episode.fork()
        self._lent[id(copied)] = copied
        return copied

    def release(self, episode: TextEpisode) -> None:
        """Take an episode's environment back; the episode is stopped if it still runs.

        Raises:
            TypeError: It is no episode.
        """
        _check_episode("release", episode)
        episode.stop()
        if self._lent.pop(id(episode), None) is not None:
            self._idle.append(episode.env)

    def close(self) -> None:
        """Close the environments that no episode uses."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> gym.Env[str, str]:
        try:
            return self._idle.pop()
        except IndexError:
            return self._made()

    def _made(self) -> gym.Env[str, str]:
        return make_env(self.env, self.prompt, split=self.env.split)


def _check_episode(call: str, given: Any) -> None:
    if not isinstance(given, TextEpisode):
        raise TypeError(f"{call} takes an episode that start or fork returned, got {given!r:.60}")


def check_fit(method: str, estimator: Estimator, episodes: Episodes) -> None:
    """Check that an environment reports what an estimator reads, by an episode of one empty reply.

    Args:
        method: The estimator as errors name it.
        estimator: Credit method. The adapter gives the entropies if `needs` lists them.
        episodes: Episodes of the environment.

    Raises:
        RecipeError: A column is missing, or an outcome is not what the estimator reads.
    """
    check_success(method, estimator, episodes.env.id, graded=episodes.graded)
    episode = episodes.start(task=0, seed=0)
    try:
        episode.step("")
    finally:
        episodes.release(episode)
    entropy = 0.0 if "entropy" in getattr(estimator, "needs", ()) else None
    records = [replace(one, entropy=entropy) for one in episode.records]
    try:
        estimator(rows_of([records, records], ["probe"] * 2).turns, np.random.default_rng(0))
    except ValueError as error:
        raise RecipeError(f"{method} does not fit {episodes.env.id}: {error}") from error


def text_episodes(env: str, **options: Any) -> Episodes:
    """Episodes for a trainer whose episodes are one conversation of text.

    Args:
        env: As for `Episodes`.
        options: As for `Episodes`; `context` and its options are fixed.

    Raises:
        RecipeError: As `Episodes`; an option of context "turn"; or the environment shows images.
    """
    for name in ("context", "template", "history"):
        if name in options:
            raise RecipeError(
                f"option {name}={options[name]!r} is for prompts of one turn; here an episode is "
                "one conversation: leave it out"
            )
    made = Episodes(env, **options)
    first = made.start(seed=0)
    made.release(first)
    if first.images:
        raise RecipeError(
            f"{env} shows images, and only text is carried here; choose its text observations"
        )
    return made
