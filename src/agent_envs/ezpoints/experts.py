"""The expert of EZPoints: it finishes the formula in the fewest symbols.

The observation shows the complete state, so the Explorer is a solver and there is no Oracle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import playing
from agent_envs.ezpoints.env import EZPoints
from agent_envs.ezpoints.rules import TARGET

if TYPE_CHECKING:
    import gymnasium as gym


class Explorer:
    """Plays a shortest solution, or "=" if the formula can no longer make 12."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, EZPoints)

    def act(self) -> str:
        """The next action; it is not executed."""
        return self.plan()[0]

    def think(self) -> str:
        """The reason for the next action."""
        way, formula = self._env.find_solution(), "".join(self._env.symbols)
        if not way:
            return f"this cannot make {TARGET} any more, so end it"
        if way == ("=",):
            return f"{formula} makes {TARGET}"
        return f"{formula}{''.join(way[:-1])} would make {TARGET}"

    def plan(self) -> list[str]:
        """All actions from here to the end."""
        return list(self._env.find_solution()) or ["="]
