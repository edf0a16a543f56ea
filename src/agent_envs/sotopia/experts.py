"""The experts of Sotopia-v1: an Explorer that asks and reads, an Oracle that knows the facts.

The Explorer knows the sentences of the generated scenes and finds the fact that each says. It reads
the shown half of the game, its own, and nothing of the partner but its words.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent_envs.experts import Expert, playing
from agent_envs.sotopia.env import SotopiaFacts
from agent_envs.sotopia.scene import WORLD, Fact
from agent_envs.sotopia.talk import Act

if TYPE_CHECKING:
    import gymnasium as gym

_SLOT = re.compile(r"\\\{(\w+)\\\}")


class Explorer(Expert):
    """Asks about every topic, reads the answers, and offers the best deal that they allow.

    Raises:
        ValueError: self-chat, in which nobody answers.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, SotopiaFacts)
        if self._env.external:
            raise ValueError("the Explorer of Sotopia needs a partner that answers, not self-chat")

    def act(self) -> str:
        """The next act; it is not executed."""
        talk, side = self._env.talk, self._env.side
        game = self._env.game
        heard = [act.argument for who, act in talk.said if who != side and act.argument]
        known = {fact.topic: fact for line in heard for fact in read_line(line, game.topics)}
        asked = {act.ask for who, act in talk.said if who == side}
        for topic in game.topics:
            if topic not in known and topic not in asked:
                return Act("speak", ask=topic).to_json(game)
        if len(known) < len(game.topics):
            return Act("leave").to_json(game)
        learnt = replace(game, facts=tuple(known[topic] for topic in game.topics))
        return Act("speak", offer=learnt.best).to_json(game)


class Oracle(Expert):
    """Offers the best deal at once."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, SotopiaFacts)

    def act(self) -> str:
        """The next act; it is not executed."""
        game = self._env.game
        return Act("speak", offer=game.best).to_json(game)


def read_line(line: str, topics: tuple[str, ...]) -> list[Fact]:
    """The fact that a line of the scripted partner says, in a list; empty for none."""
    for kind, sentence in _list_sentences():
        found = sentence.search(line)
        if found is None:
            continue
        given = found.groupdict()
        topic = given.get("topic", "price").lower()
        if topic in topics:
            return [Fact(kind, topic, _fold(given["yes"]), _fold(given["no"]))]
    return []


def _fold(word: str) -> str:
    """A word of the middle of a sentence as it is in the lists; the sentence may begin with it."""
    return _list_words().get(word.lower(), word)


@lru_cache(maxsize=1)
def _list_words() -> dict[str, str]:
    """The words of options, by their lower-case form."""
    lists = [*WORLD["issues"].values(), *WORLD["traits"].values()]
    texts = [text for one in lists for text in ([one] if isinstance(one, str) else one.values())]
    return {word.lower(): word for text in texts for word in text.split()}


@lru_cache(maxsize=1)
def _list_sentences() -> list[tuple[str, re.Pattern[str]]]:
    """The sentences of all splits as patterns at the end of a line, each with its kind."""
    return [
        (kind, re.compile(rf"(?:^|[.!?] ){_make_pattern(text)}$", re.IGNORECASE))
        for kind, splits in WORLD["wordings"].items()
        for texts in splits.values()
        for text in texts
    ]


def _make_pattern(text: str) -> str:
    """The pattern of a sentence: its slots are groups, and later ones must repeat them."""
    seen: set[str] = set()

    def name(found: re.Match[str]) -> str:
        slot = found[1]
        if slot in seen:
            return f"(?P={slot})"
        seen.add(slot)
        return rf"(?P<{slot}>[\w:-]+)"

    return _SLOT.sub(name, re.escape(text))
