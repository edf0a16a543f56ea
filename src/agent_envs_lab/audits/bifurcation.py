"""Audits of Bifurcation: walks with every kind of word, and players that do not read the goal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_envs.bifurcation.env import BACK, LEAVE, WORDS
from agent_envs_lab.audits.rewards import follow_script

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.testing.episodes import Actor, Env

LIMIT = 0.2
"""Limit for the best guess: random doors succeed in 3%, who guesses the bells' rooms in 10%."""
ODD = ("", "door", "red door", " Red ", "go back", "1")
"""Texts that are mostly no words of the environment."""


def actions(_: Env, rng: np.random.Generator) -> Actor:
    """An actor that takes possible actions, mixed with many that change nothing."""

    def act(_: Any, info: dict[str, Any]) -> str:
        listed = [word for word in info["admissible_actions"] if word != LEAVE] or WORDS
        choices = (listed, WORDS, ODD)[int(rng.choice(3, p=(0.6, 0.25, 0.15)))]
        return choices[int(rng.integers(len(choices)))]

    return act


def _take_listed(place: int) -> Callable[[np.random.Generator], Actor]:
    """A player that takes the action at this place of the list."""
    return lambda _: lambda _, info: info["admissible_actions"][place]


def _guess_bells(rng: np.random.Generator) -> Actor:
    """A player that knows the rules and the goal's colour, and guesses the rooms of the bells."""
    guessed = rng.choice(range(1, 6), 2, replace=False)
    wrong = False  # it has come back from a side room

    def act(observation: Any, info: dict[str, Any]) -> str:
        nonlocal wrong
        ways: list[str] = info["admissible_actions"]
        if BACK in ways:
            wrong = True
            return BACK
        room = int(observation.splitlines()[-1].split()[1])
        if LEAVE in ways and room > max(guessed):
            return LEAVE
        named = next(way for way in ways if f"a {way} door" in info["goal"])
        takes = (room in guessed) != wrong
        wrong = False
        return named if takes else next(way for way in ways if way not in {named, LEAVE})

    return act


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "takes the first door": _take_listed(0),
    "takes the last action": _take_listed(-1),
    "says red": follow_script(["red"]),
    "leaves": follow_script([LEAVE]),
    "guesses where the bells are": _guess_bells,
}
