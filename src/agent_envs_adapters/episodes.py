"""Episodes for other trainers: started by task, one environment used again and again.

`Episodes.start` returns a `trainer.play.episode.TextEpisode`: a message, a step for each reply, and
the records of its turns.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ValidationError

from agent_envs.machine import explain_error
from agent_envs.panels import draw_numbers
from trainer.errors import RecipeError
from trainer.play.environments import Env, PromptOptions, make_env
from trainer.play.episode import TextEpisode

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.panels import Panel


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
        goal: With context "history", begin with the goal if the observation does not say it.
        options: `split`, `data`, `max_turns`, `invalid_penalty` and `wrappers` as in a recipe's
            section `env`; anything else goes to the environment.

    Raises:
        ValueError: The environment, a wrapper or the template does not exist or does not fit.
    """

    def __init__(
        self,
        env: str,
        *,
        context: Literal["history", "turn"] = "history",
        template: str = "",
        history: int = 2,
        goal: bool = True,
        **options: Any,
    ) -> None:
        ours = {
            name: options.pop(name)
            for name in ("split", "data", "max_turns", "invalid_penalty", "wrappers")
            if name in options
        }
        try:
            self.env = Env(id=env, **ours, options=options)
            self.prompt = PromptOptions(context, template, history, goal)
        except ValidationError as error:
            raise RecipeError(f"the options of {env!r:.200}: {explain_error(error)}") from error
        self.idle_envs = deque([self._make()])

    def __getstate__(self) -> dict[str, Any]:
        return {"env": self.env, "prompt": self.prompt}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, idle_envs=deque())

    @property
    def panel(self) -> Panel:
        """The tasks of the split."""
        self.idle_envs.append(env := self._take_env())
        panel: Panel = env.unwrapped.panel  # type: ignore[attr-defined]
        return panel

    def tasks(self, count: int = 0, *, seed: int = 0) -> list[dict[str, Any]]:
        """Tasks for a trainer's data set, as keyword arguments of `start` and JSON values.

        Args:
            count: Number of tasks, drawn without repeats until all have occurred; 0 takes the
                panel in its order.
            seed: Seed of the draw and of the episodes' seeds, at least 0.
        """
        rng, ids = np.random.default_rng(seed), self.panel.task_ids
        order = draw_numbers(len(ids), count, rng) if count else range(len(ids))
        seeds = rng.integers(2**31, size=len(order)).tolist()
        return [{"task": ids[row], "seed": one} for row, one in zip(order, seeds, strict=True)]

    def require_context(self, context: str, why: str) -> None:
        """Check the context, where a trainer plays only one.

        Raises:
            ValueError: It is another.
        """
        if self.prompt.context != context:
            raise ValueError(f"{why}; use Episodes(..., context={context!r})")

    def start(self, *, task: int | str | None = None, seed: int | None = None) -> TextEpisode:
        """Start an episode; `release` it when it has ended.

        Args:
            task: Number or id of the task; None draws one by the seed.
            seed: Seed of the episode.

        Raises:
            ValueError: There is no such task.
        """
        env = self._take_env()
        options = {"task_id": task} if isinstance(task, str) else {"task": task}
        try:
            start = env.reset(seed=seed, options=options if task is not None else None)
        except BaseException:
            self.idle_envs.append(env)
            raise
        return TextEpisode(env, start, self.prompt)

    def release(self, episode: TextEpisode) -> None:
        """Take the environment of an episode, or of a fork of one, back.

        The episode is stopped if it still runs, and has no environment afterwards; to release it
        again does nothing.
        """
        episode.stop()
        if (env := vars(episode).pop("env", None)) is not None:
            self.idle_envs.append(env)

    def close(self) -> None:
        """Close the environments that no episode uses."""
        while self.idle_envs:
            self.idle_envs.pop().close()

    def _take_env(self) -> gym.Env[str, str]:
        try:
            return self.idle_envs.pop()
        except IndexError:
            return self._make()

    def _make(self) -> gym.Env[str, str]:
        return make_env(self.env, self.prompt, split=self.env.split)


def text_episodes(env: str, **options: Any) -> Episodes:
    """Episodes for a trainer whose episodes are one conversation of text.

    Args:
        env: As for `Episodes`.
        options: As for `Episodes`, without those of context "turn".

    Raises:
        ValueError: As `Episodes`, or the environment shows images.
    """
    made = Episodes(env, context="history", **options)
    first = made.start(seed=0)
    made.release(first)
    require_text(first)
    return made


def require_text(episode: TextEpisode) -> None:
    """Check that the model reads only text.

    Raises:
        RecipeError: It has images.
    """
    if episode.images:
        raise RecipeError(
            f"the environment of {episode.task_id!r} shows images, and this adapter plays text; "
            "use the environment's text observation, or agent-envs train"
        )
