"""Audits of AlfWorld: walks that return to earlier states, and players that ignore the task.

A walk follows the Explorer for some turns, undoes commands, and tries impossible ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_envs.alfworld.experts import Searcher
from agent_envs_lab.audits.rewards import follow_script

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.testing.episodes import Actor, Env

ODD = ("", "xyzzy", "look at everything", "take all", "Look", "go to nowhere 1", "use desklamp 1")
"""Commands that have no effect in most states."""
UNDONE = {
    re.compile(r"take (.+) from (.+)"): r"move \1 to \2",
    re.compile(r"move (.+) to (.+)"): r"take \1 from \2",
    re.compile(r"open (.+)"): r"close \1",
    re.compile(r"close (.+)"): r"open \1",
}


def actions(_: Env, rng: np.random.Generator) -> Actor:
    """An actor that partly follows the Explorer, and else undoes, wanders and makes errors."""
    return _Walker(rng)


class _Walker:
    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._share = float(rng.choice((0.0, 0.4, 0.8)))
        self._expert: Searcher | None = None
        self._last = ""

    def __call__(self, observation: str, info: dict[str, Any]) -> str:
        if self._expert is None:
            self._expert = Searcher(observation, self._rng)
        else:
            self._expert.observe(self._last, observation)
        self._last = self._next(self._expert, info["admissible_actions"])
        return self._last

    def _next(self, expert: Searcher, listed: list[str]) -> str:
        if self._rng.random() < self._share:
            return expert.act()
        kind = self._rng.choice(("listed", "undo", "again", "odd"), p=(0.5, 0.3, 0.1, 0.1))
        if kind == "undo" and (undone := _undone(self._last)):
            return undone
        if kind == "again" and self._last:
            return self._last
        choices = ODD if kind == "odd" else listed
        return choices[int(self._rng.integers(len(choices)))]


def _undone(command: str) -> str:
    """The command that undoes another, "" if there is none."""
    for form, inverse in UNDONE.items():
        if found := form.fullmatch(command):
            return found.expand(inverse)
    return ""


def _take_listed(place: int) -> Callable[[np.random.Generator], Actor]:
    """Always the first or the last admissible action."""
    return lambda _: lambda _observation, info: str(info["admissible_actions"][place])


def _copier(_: np.random.Generator) -> Actor:
    """The task as the command."""
    return lambda _observation, info: str(info["goal"])


def _hoarder(rng: np.random.Generator) -> Actor:
    """Takes things, carries them elsewhere and drops them, regardless of the task."""

    def act(_: str, info: dict[str, Any]) -> str:
        listed = info["admissible_actions"]
        for verb in ("move ", "take ", "open ", "go to "):
            found = [command for command in listed if command.startswith(verb)]
            if found and not (verb == "move " and rng.integers(2)):
                return str(found[int(rng.integers(len(found)))])
        return "look"

    return act


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "looks": follow_script(["look"]),
    "first listed": _take_listed(0),
    "last listed": _take_listed(-1),
    "copies the task": _copier,
    "hoards": _hoarder,
}
