"""What an expert does from here to the end, without doing it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from agent_envs.experts import Expert


def planned(env: gym.Env, made: Callable[[gym.Env], Expert]) -> list[str]:
    """The expert's actions, played on a copy."""
    played, actions, over = copy.deepcopy(env.unwrapped), list[str](), False
    expert = made(played)
    while not over:
        actions.append(expert.act())
        _, _, terminated, truncated, _ = played.step(actions[-1])
        over = terminated or truncated
    return actions
