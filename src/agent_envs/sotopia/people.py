"""The characters of generated scenes: invented people, drawn by the scene's generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.assets import table
from agent_envs.sotopia.scene import Character

if TYPE_CHECKING:
    from random import Random

_PEOPLE = table("sotopia/people.toml")
_FIRST = [(name, pronoun) for pronoun, some in _PEOPLE["first_names"].items() for name in some]
_LIVES = list(_PEOPLE["lives"].items())
SECRETS = [(secret["text"], tuple(secret["hints"])) for secret in _PEOPLE["secrets"]]
"""Secrets, each with the words that reveal each of its parts."""


def pair(rng: Random, temper: tuple[str, str]) -> tuple[Character, Character]:
    """Two people with these tempers and nothing in common."""
    first, last = rng.sample(_FIRST, 2), rng.sample(_PEOPLE["last_names"], 2)
    lives, secrets = rng.sample(_LIVES, 2), rng.sample(SECRETS, 2)

    def person(side: int) -> Character:
        name, pronoun = first[side]
        occupation, public = lives[side]
        personality, decides = _PEOPLE["tempers"][temper[side]]
        values = tuple(rng.sample(_PEOPLE["values"], 2))
        return Character(
            name, last[side], rng.randint(21, 67), occupation, pronoun,
            public, personality, values, decides, *secrets[side],
        )  # fmt: skip

    return person(0), person(1)
