"""AlfWorld-v0: household tasks in text, with validity, progress, anchors and goals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.milestones import Milestones
from agent_envs.alfworld.world import World
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import nearest

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

ENGINES = ("native", "textworld")
PROGRESS = ("facts", "distance", "none")


class AlfWorld(AgentEnv):
    """Household tasks in text.

    Description:
        Find things in a room, use its appliances, put things where the task says.
    """

    def __init__(
        self,
        *,
        split: str = "train",
        engine: str = "native",
        data: str | os.PathLike[str] = "auto",
        task_types: Iterable[str] | str = (),
        max_turns: int = 50,
        progress: str = "facts",
        success_reward: float = 1.0,
        render_mode: str | None = None,
    ) -> None:
        self.library = open_library(data, split, task_types)
        super().__init__(self.library.panel, max_turns=max_turns, render_mode=render_mode)
        self.success_reward = success_reward

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The opening text of the task."""
        self.game = self.library.read(task_id)
        self.world = World(self.game)
        self.milestones = Milestones(self.world)
        return self.game.task, self._turn(self.world.intro)

    def act(self, action: str) -> Turn:
        """One command."""
        observation = self.world.execute(action)
        return self._turn(observation)

    def _turn(self, observation: str) -> Turn:
        world = self.world
        return Turn(
            observation,
            valid=world.accepted,
            invalid_reason="" if world.accepted else "refused",
            progress=self.milestones.progress(),
            anchor=world.anchor(),
            reward=self.success_reward if world.won else 0.0,
            success=world.won,
            admissible_actions=world.admissible(),
            extra={"task_type": self.game.task_type, "level": self.game.level},
        )
