"""Audits of EZPoints and Points: formulas in many orders, and guessing players."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from agent_envs.ezpoints.rules import EZPOINTS
from agent_envs_lab.audits.rewards import follow_script

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.ezpoints.env import EZPoints
    from agent_envs.testing.episodes import Actor, Env

LIMIT = 0.45
"""Limit for the best guess: `2+10=` is right for all hands of a 2 and a card of value 10."""
ODD = ("", "12", "x", "2+2", " 2 ", "-", "==")
"""Texts that are mostly not symbols."""


def actions(env: Env, rng: np.random.Generator) -> Actor:
    """An actor that takes listed actions, mixed with many that change nothing."""
    symbols = cast("EZPoints", env.unwrapped).game.symbols

    def act(_: Any, info: dict[str, Any]) -> str:
        listed = [symbol for symbol in info["admissible_actions"] if symbol != "="] or ["="]
        choices = (listed, symbols, ODD, ["="])[int(rng.choice(4, p=(0.45, 0.15, 0.3, 0.1)))]
        return choices[int(rng.integers(len(choices)))]

    return act


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "ends at once": follow_script(["="]),
    "says 2+10=": follow_script(["2", "+", "10", "="]),
    "says 2*6=": follow_script(["2", "*", "6", "="]),
    "says 5+7=": follow_script(["5", "+", "7", "="]),
    "says all symbols": follow_script([*EZPOINTS.symbols]),
}
