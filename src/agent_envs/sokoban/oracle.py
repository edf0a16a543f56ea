"""Shortest solutions as actions of the environment, for demonstrations, tests and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agent_envs.sokoban.solver import Solver

if TYPE_CHECKING:
    from typing import Any

    import gymnasium as gym

    from agent_envs.sokoban.env import Sokoban

BUDGET = 500_000
"""Positions that the search for a solution looks at: some ten seconds."""


class Solution:
    """The shortest solution in one episode: `act()` says what to do next, `think()` why."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = cast("Sokoban", env.unwrapped)

    def act(self) -> str:
        """The next action; nothing is done. The first of all where there is no solution."""
        return [*oracle(self._env), *self._env.actions][0]

    def think(self) -> str:
        """What it is going to do, from here to the end."""
        return " ".join(oracle(self._env)) or "no push can save this"


def explorer(env: gym.Env[Any, Any]) -> Solution:
    """A shortest solution for the episode under way."""
    return Solution(env)


def oracle(env: gym.Env[Any, Any]) -> list[str]:
    """All actions of a shortest solution from here; none where there is none, or none was found."""
    sokoban = cast("Sokoban", env.unwrapped)
    word = {direction: word for word, (direction, push) in sokoban.actions.items() if push}
    return [word[direction] for direction in _plan(sokoban)]


def _plan(env: Sokoban) -> list[int]:
    return Solver(env.room, BUDGET).plan(env.state)
