"""Audits of Sokoban: walks that return to earlier states, and players that ignore the board."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_envs.sokoban.experts import Explorer
from agent_envs_lab.audits.rewards import follow_script

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.testing.episodes import Actor, Env

BACK = {"up": "down", "down": "up", "left": "right", "right": "left"}
ODD = ("", "xyzzy", "3", "push", " UP ", "upp")
"""Texts that are mostly not actions."""


def actions(env: Env, rng: np.random.Generator) -> Actor:
    """An actor that follows a solution in some turns, and else steps back and forth."""
    share, solution = float(rng.choice((0.0, 0.5, 0.9))), Explorer(env).plan()
    last = ""

    def act(_: Any, info: dict[str, Any]) -> str:
        nonlocal last
        listed = info["admissible_actions"]
        kind = rng.choice(("listed", "back", "again", "odd"), p=(0.6, 0.25, 0.1, 0.05))
        if solution and rng.random() < share:
            last = solution.pop(0)
        elif kind == "back" and last.split():
            *verb, way = last.split()
            last = " ".join([*verb, BACK.get(way, way)])
        elif kind != "again" or not last:
            choices = ODD if kind == "odd" else listed
            last = choices[int(rng.integers(len(choices)))]
        return last

    return act


def _repeat(*directions: str) -> Callable[[np.random.Generator], Actor]:
    """Repeats the same directions."""
    return follow_script(directions * 100)


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    **{direction: follow_script([direction]) for direction in BACK},
    "circles": _repeat("up", "right", "down", "left"),
    "sweeps": _repeat(*["right"] * 4, "down", *["left"] * 4, "up"),
}
