"""The expert of Sokoban: it plays a shortest solution.

The board is all that there is to know, and the agent is shown all of it. So the Explorer is a
solver, and there is no Oracle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import playing
from agent_envs.sokoban.env import Sokoban
from agent_envs.sokoban.solver import Solver

if TYPE_CHECKING:
    import gymnasium as gym

BUDGET = 500_000
"""Positions that the search for a solution looks at: some ten seconds."""


class Explorer:
    """Plays a shortest solution; where it finds none, the first of all actions."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Sokoban)

    def act(self) -> str:
        """The next action; nothing is done."""
        return [*self.plan(), *self._env.actions][0]

    def think(self) -> str:
        """What it is going to do, from here to the end."""
        return " ".join(self.plan()) or "no push can save this"

    def plan(self) -> list[str]:
        """All actions of a shortest solution from here; none where none exists or was found."""
        env = self._env
        word = {direction: word for word, (direction, push) in env.actions.items() if push}
        return [word[direction] for direction in Solver(env.room, BUDGET).plan(env.state)]
