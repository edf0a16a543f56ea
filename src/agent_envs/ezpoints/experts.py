"""The expert of EZPoints and Points: it finishes the formula in the fewest symbols.

The observation shows the complete state, so the Explorer is a solver and there is no Oracle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import playing
from agent_envs.ezpoints.env import EZPoints

if TYPE_CHECKING:
    import gymnasium as gym


class Explorer:
    """Plays a shortest solution, or "=" if the formula can no longer make the target."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, EZPoints)

    def act(self) -> str:
        """The next action; it is not executed."""
        return self.plan()[0]

    def think(self) -> str:
        """The reason for the next action."""
        way, formula = self._env.find_solution(), "".join(self._env.symbols)
        target = self._env.game.target
        if not way:
            return f"this cannot make {target} any more, so end it"
        if way == ("=",):
            return f"{formula} makes {target}"
        return f"{formula}{''.join(way[:-1])} would make {target}"

    def plan(self) -> list[str]:
        """All actions from here to the end."""
        return list(self._env.find_solution()) or ["="]
