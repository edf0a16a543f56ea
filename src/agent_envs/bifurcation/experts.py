"""The expert of Bifurcation: it takes the door that the goal names at the bell only.

Goal and observations say everything that is needed, so there is no Oracle.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent_envs.bifurcation.env import BACK, LEAVE, WORDS, Bifurcation
from agent_envs.experts import Planner, Step, playing

if TYPE_CHECKING:
    import gymnasium as gym

THING = re.compile(r"behind the (\w+)")
WAY = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")


class Explorer(Planner):
    """Takes the named door at the bell, else another, and leaves as soon as that succeeds."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Bifurcation)

    def plan(self) -> Step:
        """An action and its reason."""
        seen = self._env.transcript[-1][1].splitlines()[-1]  # less what just happened
        ways = WAY.findall(seen)
        named = [colour for colour in ways if f"a {colour} door" in self._env.goal]
        if self._is_bell_in(seen):
            return Step(named[0], "the bell is here, so I take the door that the goal names")
        if BACK in ways:
            return Step(BACK, "this was the wrong door")
        if LEAVE in ways and any(self._is_bell_in(past) for _, past in self._env.transcript[:-1]):
            return Step(LEAVE, "the bell is behind me")
        other = next(way for way in ways if way not in named)
        return Step(other, "there is no bell here, so I avoid the door that the goal names")

    def _is_bell_in(self, seen: str) -> bool:
        """Whether the room has the thing that hides the bell."""
        found = THING.search(self._env.goal)
        return found is not None and f"with a {found[1]}." in seen
