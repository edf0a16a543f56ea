"""Lexicon: words and phrases of English in a TOML file, as sets of words and as patterns."""

from __future__ import annotations

import re

from agent_envs.assets import table
from agent_envs.sotopia.indexed import compiled
from agent_envs.sotopia.phrases import Phrases


class Lexicon:
    """The entries of a file of this package: lists of words, or patterns.

    In a pattern a line break means `|` (a `|` at the beginning of the next line is optional), and
    `{name}` inserts the pattern of another entry.
    """

    def __init__(self, name: str) -> None:
        self._entries: dict[str, str] = table(f"sotopia/{name}.toml")

    def words(self, name: str) -> frozenset[str]:
        """The words of an entry."""
        return frozenset(self._entries[name].split())

    def pattern(self, name: str) -> re.Pattern[str]:
        """An entry as a compiled pattern."""
        return compiled(self.plain(name))

    def phrases(self, name: str) -> Phrases:
        """An entry as phrases."""
        return Phrases(self.plain(name))

    def plain(self, name: str) -> str:
        """An entry as one pattern, its alternatives as they are written."""
        lines = self._entries[name].splitlines()
        text = "|".join(line.removeprefix("|") for line in lines)
        return f"(?:{re.sub(r'{([a-z_]+)}', lambda part: self.plain(part[1]), text)})"
