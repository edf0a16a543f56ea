"""The expert of Bifurcation: it takes the door that the goal names at the bells only.

Goal and observations say everything that is needed, so there is no Oracle.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent_envs.bifurcation.env import BACK, LEAVE, WORDS, Bifurcation
from agent_envs.experts import Planner, Step, playing

if TYPE_CHECKING:
    import gymnasium as gym

THINGS = re.compile(r"behind the (\w+) and the (\w+)")
WAY = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")


class Explorer(Planner):
    """Takes the named door at the bells, else another, and leaves as soon as that succeeds."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Bifurcation)

    def plan(self) -> Step:
        """An action and its reason."""
        *before, seen = [seen.splitlines()[-1] for _, seen in self._env.transcript]
        ways = WAY.findall(seen)  # less what just happened
        named = [colour for colour in ways if f"a {colour} door" in self._env.goal]
        rooms = [f"with a {thing}." for thing in THINGS.findall(self._env.goal)[0]]
        if any(room in seen for room in rooms):
            return Step(named[0], "a bell is here, so I take the door that the goal names")
        if BACK in ways:
            return Step(BACK, "this was the wrong door")
        if LEAVE in ways and all(any(room in past for past in before) for room in rooms):
            return Step(LEAVE, "both bells are behind me")
        other = next(way for way in ways if way not in named)
        return Step(other, "there is no bell here, so I avoid the door that the goal names")
