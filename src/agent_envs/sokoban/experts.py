"""The expert of Sokoban: it plays a shortest solution.

The observation shows the complete state, so the Explorer is a solver and there is no Oracle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import playing
from agent_envs.sokoban.env import Sokoban
from agent_envs.sokoban.solver import Solver

if TYPE_CHECKING:
    import gymnasium as gym

BUDGET = 500_000
"""Search budget for a solution in positions, about ten seconds."""


class Explorer:
    """Plays a shortest solution; if it finds none, the first action of the list."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Sokoban)

    def act(self) -> str:
        """The next action; it is not executed."""
        return [*self.plan(), *self._env.actions][0]

    def think(self) -> str:
        """The remaining actions of its plan."""
        return " ".join(self.plan()) or "no push can save this"

    def plan(self) -> list[str]:
        """All actions of a shortest solution from here; [] if none exists or was found."""
        env = self._env
        word = {direction: word for word, (direction, push) in env.actions.items() if push}
        return [word[direction] for direction in Solver(env.room, BUDGET).plan(env.state)]
