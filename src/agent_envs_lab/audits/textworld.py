"""Audits of TextWorld: walks that return to earlier states, and players that ignore the task.

A walk follows the Explorer for some turns, undoes commands, says them in other words, and tries
what is impossible or not meant for the game.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_envs.experts import expert
from agent_envs_lab.audits.rewards import follow_script

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.testing.episodes import Actor, Env

ODD = (
    "", "xyzzy", "take", "key", "the key", "take it", "again", "undo", "restart", "drop all",
    "take all", "go up", "enter bed", "wait", "open door", "put all on table", "look then look",
    "close chest", "take key and coin", "score", "stand on table", "push chest north",
)  # fmt: skip
"""Commands that mean nothing in most states, are ambiguous, or depend on earlier ones."""
UNDONE = {
    re.compile(r"take (.+) from (.+)"): (r"put \1 on \2", r"insert \1 into \2"),
    re.compile(r"take (.+)"): (r"drop \1",),
    re.compile(r"drop (.+)"): (r"take \1",),
    re.compile(r"(?:put|insert) (.+) (?:on|into) (.+)"): (r"take \1 from \2",),
    re.compile(r"open (.+)"): (r"close \1",),
    re.compile(r"close (.+)"): (r"open \1",),
    re.compile(r"unlock (.+)"): (r"lock \1",),
    re.compile(r"lock (.+)"): (r"unlock \1",),
    re.compile(r"go north"): ("go south",),
    re.compile(r"go south"): ("go north",),
    re.compile(r"go east"): ("go west",),
    re.compile(r"go west"): ("go east",),
}
OTHER_WORDS = {"take ": "get ", "examine ": "x ", "inventory": "i", "go ": "walk ", "look": "l"}


def actions(env: Env, rng: np.random.Generator) -> Actor:
    """An actor that partly follows the Explorer, and else undoes, wanders and makes errors."""
    share = float(rng.choice((0.0, 0.3, 0.7)))
    explorer = expert(env)
    last = ""

    def act(_: str, info: dict[str, Any]) -> str:
        nonlocal last
        listed = info["admissible_actions"]
        if rng.random() < share:
            last = explorer.act()
            return last
        kind = rng.choice(("listed", "undo", "words", "odd"), p=(0.45, 0.25, 0.1, 0.2))
        undone = [command for command in _undo(last) if command in listed]
        choices = undone if kind == "undo" and undone else ODD if kind == "odd" else listed
        last = str(choices[int(rng.integers(len(choices)))])
        return _say_otherwise(last) if kind == "words" else last

    return act


def _undo(command: str) -> list[str]:
    """The commands that may undo another."""
    for form, inverses in UNDONE.items():
        if found := form.fullmatch(command):
            return [found.expand(inverse) for inverse in inverses]
    return []


def _say_otherwise(command: str) -> str:
    """A command in other words that the game knows, too."""
    for words, others in OTHER_WORDS.items():
        if command.startswith(words):
            return others + command.removeprefix(words)
    return command


def _take_first(*verbs: str) -> Callable[[np.random.Generator], Actor]:
    """A player of possible commands with the first of these verbs, at random; else it walks."""

    def make(rng: np.random.Generator) -> Actor:
        def act(_: str, info: dict[str, Any]) -> str:
            listed = info["admissible_actions"]
            for verb in (*verbs, ""):
                if found := [command for command in listed if command.startswith(verb)]:
                    return str(found[int(rng.integers(len(found)))])
            return "look"

        return act

    return make


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "looks": follow_script(["look"]),
    "copies the task": lambda _: lambda _observation, info: str(info["goal"]),
    "possible commands at random": _take_first(),
    "takes and opens all, walks at random": _take_first("take ", "open ", "unlock ", "go "),
    "prepares and eats": _take_first("eat ", "prepare ", "cook ", "take "),
}
