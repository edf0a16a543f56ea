"""The expert of EZPoints: it finishes the formula in the fewest symbols.

Cards and formula are all that there is to know, and the agent is shown both. So the Explorer is a
solver, and there is no Oracle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import playing
from agent_envs.ezpoints.env import EZPoints
from agent_envs.ezpoints.rules import TARGET

if TYPE_CHECKING:
    import gymnasium as gym


class Explorer:
    """Says a shortest solution, or "=" where the formula can no longer make it."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, EZPoints)

    def act(self) -> str:
        """The next action; nothing is done."""
        return self.plan()[0]

    def think(self) -> str:
        """What the next action is for."""
        way, formula = self._env.solution(), "".join(self._env.said)
        if not way:
            return f"this cannot make {TARGET} any more, so end it"
        if way == ("=",):
            return f"{formula} makes {TARGET}"
        return f"{formula}{''.join(way[:-1])} would make {TARGET}"

    def plan(self) -> list[str]:
        """All actions from here to the end."""
        return list(self._env.solution()) or ["="]
