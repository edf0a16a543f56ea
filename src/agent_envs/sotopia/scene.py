"""Scenes: two characters, what they know of each other, their private goals, and their game."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from agent_envs.assets import table
from agent_envs.panels import nearest

RELATIONSHIPS = (
    "strangers",
    "know each other by name",
    "acquaintances",
    "friends",
    "romantic partners",
    "family members",
)
_NAME, _PUBLIC, _PERSONAL = 1, 2, 3
"""The lowest relationships at which the name, public life and personality are known."""
STRANGER = "Stranger"

_FOR_VIEWERS = re.compile(r'<p viewer="([^"]*)">(.*?)</p>', re.DOTALL)
_HINTS = re.compile(r"</?(?:extra_info|strategy_hint|clarification_hint)>")


Deal = tuple[int, ...]
"""Terms as numbers, whose meaning is the game's."""
WORLD: dict[str, Any] = table("sotopia/world.toml")
WORDS = {"train": "train", "val": "val", "test": "test", "hard": "test"}
"""The lists of words that a split uses."""


class Unknown(ValueError):
    """An act names what the scene does not have."""


class Fact(NamedTuple):
    """What one side knows about a topic: `yes` holds and `no` does not.

    kind: the sentences that say it. In "if", `yes` of the topic needs `no`, of another topic.
    """

    kind: str
    topic: str
    yes: str
    no: str

    def say(self, split: str, wording: int) -> str:
        """One of the sentences of a split that say the fact."""
        sentences = WORLD["wordings"][self.kind][WORDS[split]]
        text: str = sentences[wording % len(sentences)]
        said = text.format(topic=self.topic, yes=self.yes, no=self.no)
        return said[0].upper() + said[1:]


@dataclass(frozen=True)
class Game:
    """A negotiation: the goal of side `asker`, and the private facts of the other side.

    names: of the asker and of the other. form: of an offer. situation: what both know.
    goal: what only the asker knows. demand: the other side's own offer, worth little to the asker.
    listed: whether `list_deals` has all deals, so that it gives nothing away.
    material: whether a deal brings money or goods.
    """

    asker: int
    names: tuple[str, str]
    split: str
    facts: tuple[Fact, ...]
    form: str
    situation: str
    goal: str
    demand: Deal | None
    listed: ClassVar[bool] = True
    material: ClassVar[bool] = False

    @property
    def topics(self) -> tuple[str, ...]:
        """What the asker can ask about."""
        return tuple(fact.topic for fact in self.facts)

    def list_deals(self) -> Iterator[Deal]:
        """All deals, or all that can be the best for the asker."""
        raise NotImplementedError

    def measure(self, deal: Deal) -> float:
        """The worth of a deal to the asker."""
        raise NotImplementedError

    def find_broken(self, deal: Deal) -> tuple[int, ...]:
        """The facts that speak against a deal; none if the other side accepts it."""
        raise NotImplementedError

    def read_offer(self, offer: object) -> Deal:
        """The deal in the field `offer` of an act.

        Raises:
            Unknown: it names what the scene does not have.
            ValueError: another impossible offer.
        """
        raise NotImplementedError

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """A deal as the field `offer` of an act."""
        raise NotImplementedError

    def describe(self, deal: Deal) -> str:
        """A deal in words."""
        return ", ".join(f"{name} {value}" for name, value in self.write_offer(deal).items())

    @cached_property
    def best(self) -> Deal:
        """The deal worth most to the asker among those that the other side accepts."""
        allowed = [deal for deal in self.list_deals() if not self.find_broken(deal)]
        return max(allowed, key=self.measure)

    def share(self, deal: Deal, side: int) -> float:
        """The worth to the asker as a share of the best deal's; of the other, if it accepts it."""
        if side != self.asker:
            return float(not self.find_broken(deal))
        return min(1.0, max(0.0, self.measure(deal) / self.measure(self.best)))

    @property
    def conditions(self) -> str:
        """The other side's facts, as itself sees them."""
        return " ".join(fact.say(self.split, place) for place, fact in enumerate(self.facts))

    def _take_fields(self, what: str, given: object, names: Sequence[str]) -> list[Any]:
        """The values of exactly these fields of an offer or of a part of it, which is `what`."""
        if not isinstance(given, dict):
            raise self._refuse(f"{what} has the fields {', '.join(names)}, got {given!r:.60}")
        for name in given:
            if name not in names:
                close = nearest(name, names)
                raise self._refuse(f"{what} has no field {name!r:.60}{close}", Unknown)
        for name in names:
            if name not in given:
                raise self._refuse(f"{what} lacks the field {name}")
        return [given[name] for name in names]

    def _take_number(self, name: str, given: object, most: int) -> int:
        """A number of an offer."""
        if type(given) is int and 0 <= given <= most:
            return given
        raise self._refuse(f"{name} is a whole number from 0 to {most}, got {given!r:.60}")

    def _find_word(self, name: str, given: object, allowed: Sequence[str]) -> int:
        """The place of a word of an offer among those that there are."""
        if given in allowed:
            return allowed.index(str(given))
        kind = Unknown if isinstance(given, str) else ValueError
        raise self._refuse(f"{name} is one of {', '.join(allowed)}, got {given!r:.60}", kind)

    def _refuse(self, wrong: str, kind: type[ValueError] = ValueError) -> ValueError:
        """The error for an impossible offer."""
        return kind(f"{wrong[0].upper()}{wrong[1:]}; an offer here is written {self.form}.")


class Character(NamedTuple):
    """A character; unknown fields are ""."""

    first_name: str
    last_name: str = ""
    age: int = 0
    occupation: str = ""
    pronoun: str = ""
    public_info: str = ""
    big_five: str = ""
    moral_values: tuple[str, ...] = ()
    decision_making_style: str = ""
    secret: str = ""

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}".strip()


@dataclass(frozen=True)
class Scene:
    """Two characters in a situation; side 0 begins.

    game: the negotiation of a generated scene; None for scenes that consist only of text.
    """

    codename: str
    scenario: str
    goals: tuple[str, str]
    relationship: int
    characters: tuple[Character, Character]
    game: Game | None = None

    def show_goal(self, side: int) -> str:
        """The private goal of a side, hints included, as text without markup."""
        return strip_markup(self.goals[side], side)

    def name_side(self, side: int) -> str:
        """The name of a side as seen by the other."""
        return self.characters[side].first_name if self.relationship >= _NAME else STRANGER

    def render_background(self, side: int) -> str:
        """Everything that a side knows at the start: the situation, itself, the other, its goal."""
        own = self.characters[side]
        lines = [
            f"Situation: {strip_markup(self.scenario, side)}",
            " ".join(
                filter(None, (f"You are {own.name}.", _describe_public(own), _describe_person(own)))
            ),
            f"Your secret: {own.secret}",
            self._describe_other(1 - side),
            f"Your goal: {self.show_goal(side)}",
            _explain_acts(self.game, side) if self.game else "",
        ]
        return "\n".join(line for line in lines if line and not line.endswith(": "))

    def _describe_other(self, side: int) -> str:
        other, level = self.characters[side], self.relationship
        known = [
            f"{other.name}." if level >= _NAME else "someone you do not know.",
            _describe_public(other) if level >= _PUBLIC else "",
            _describe_person(other) if level >= _PERSONAL else "",
        ]
        between = f" You two are {RELATIONSHIPS[level]}." if level >= _PUBLIC else ""
        return f"You talk with {' '.join(filter(None, known))}{between}"


def _explain_acts(game: Game, side: int) -> str:
    """The acts of a generated scene."""
    ask = f'{{"ask": "{game.topics[0]}"}} ({", ".join(game.topics)}), '
    return (
        f'Acts: {ask if side == game.asker else ""}{{"offer": {game.form}}}, {{"accept": true}}, '
        '{"leave": true}, with or without "say": "...". Plain text is talk and binds nobody.'
    )


def strip_markup(text: str, side: int) -> str:
    """`text` for `side`: without parts for other viewers, and without the tags of hints."""
    viewer = f"agent_{side}"
    text = _FOR_VIEWERS.sub(
        lambda found: found[2] if viewer in re.split(r"[\s,]+", found[1]) else "", text
    )
    return _HINTS.sub("", text).strip()


def _describe_public(who: Character) -> str:
    about = ", ".join(filter(None, (str(who.age or ""), who.occupation, who.pronoun)))
    return " ".join(filter(None, (f"({about})" if about else "", who.public_info)))


def _describe_person(who: Character) -> str:
    parts = {
        "Personality": who.big_five,
        "Values": ", ".join(who.moral_values),
        "Decides": who.decision_making_style,
    }
    return " ".join(f"{name}: {text}." for name, text in parts.items() if text)
