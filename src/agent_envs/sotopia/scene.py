"""Scenes: two characters, what each of them knows of the other, and their private goals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

RELATIONSHIPS = (
    "strangers",
    "know each other by name",
    "acquaintances",
    "friends",
    "romantic partners",
    "family members",
)
_NAME, _PUBLIC, _PERSONAL = 1, 2, 3
"""From which relationship on a character knows the other's name, public life, personality."""
STRANGER = "Stranger"

_FOR_VIEWERS = re.compile(r'<p viewer="([^"]*)">(.*?)</p>', re.DOTALL)
_HINTS = re.compile(r"</?(?:extra_info|strategy_hint|clarification_hint)>")

Deal = tuple[int, ...]
"""Terms that can be agreed on, as numbers whose meaning is the game's."""


class Character(NamedTuple):
    """Who someone is; what is not known is "".

    hints: for each part of the secret the words by which it is known, with | between them.
    """

    first_name: str
    last_name: str
    age: int
    occupation: str
    pronoun: str
    public_info: str
    big_five: str
    moral_values: tuple[str, ...]
    decision_making_style: str
    secret: str
    hints: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}"


class Game(Protocol):
    """What a scene is about, in numbers: the deals there are and their worth to each side.

    form: how an offer is written as a field of an act. asks: whether a mere question proposes.
    """

    asks: ClassVar[bool]

    @property
    def form(self) -> str:
        """How an offer is written."""

    @property
    def deals(self) -> Sequence[Deal]:
        """All deals that a scripted character may propose."""

    def read(self, text: str, side: int) -> Deal | None:
        """The terms that `side` proposes by saying `text`; None for no or no possible terms."""

    def tell(self, deal: Deal, side: int) -> str:
        """Words by which `side` proposes a deal; `read` understands them."""

    def terms(self, deal: Deal, side: int) -> str:
        """What a deal is, in the words of `side`."""

    def offer(self, deal: Deal, side: int) -> dict[str, Any]:
        """A deal as the field `offer` of an act of `side`; `offered` reads it."""

    def offered(self, offer: object, side: int) -> Deal:
        """The deal that `side` proposes by the field `offer` of an act.

        Raises:
            ValueError: it is none that is possible; the message says how one is written.
        """

    def value(self, deal: Deal, side: int) -> float:
        """Worth for a side: 0 what it can just live with, 1 all that it hopes for."""

    def material(self, deal: Deal, side: int) -> float:
        """What a side gains in money or goods, in [-1, 1]."""


@dataclass(frozen=True)
class Scene:
    """Two characters in a situation; side 0 has the first word.

    facts: what each side may tell of itself, sentence by sentence.
    game: the terms at stake; None for scenes of which nothing is known but their text.
    temper: which persona plays a side when it is scripted.
    openings: how each side greets when it is scripted.
    """

    codename: str
    scenario: str
    goals: tuple[str, str]
    relationship: int
    characters: tuple[Character, Character]
    facts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    game: Game | None = None
    family: str = ""
    temper: tuple[str, str] = ("", "")
    openings: tuple[str, str] = ("", "")

    def goal(self, side: int) -> str:
        """The private goal of a side, hints included, as text without markup."""
        return shown(self.goals[side], side)

    def label(self, side: int) -> str:
        """What the other one calls a side."""
        known = self.relationship >= _NAME
        return self.characters[side].first_name if known else STRANGER

    def background(self, side: int) -> str:
        """All that a side knows at the start: the situation, itself, the other, its goal."""
        own = self.characters[side]
        lines = [
            f"Situation: {shown(self.scenario, side)}",
            f"You are {own.name}. {_public(own)} {_personal(own)}",
            f"Your secret: {own.secret}",
            self._other(1 - side),
            f"Your goal: {self.goal(side)}",
            _binding(self.game) if self.game else "",
        ]
        return "\n".join(line for line in lines if line and not line.endswith(": "))

    def _other(self, side: int) -> str:
        other, level = self.characters[side], self.relationship
        known = [
            f"{other.name}." if level >= _NAME else "someone you do not know.",
            _public(other) if level >= _PUBLIC else "",
            _personal(other) if level >= _PERSONAL else "",
        ]
        between = f" You two are {RELATIONSHIPS[level]}." if level >= _PUBLIC else ""
        return f"You talk with {' '.join(filter(None, known))}{between}"


def no_offer(form: str, given: object) -> ValueError:
    """The error for a field `offer` that cannot be one."""
    return ValueError(f"An offer here is written {form}, got {given!r:.120}.")


def _binding(game: Game) -> str:
    return (
        'To bind yourself at once: {"action_type": "speak", "argument": "...", "offer": '
        f'{game.form}}}, or "accept": true in place of the offer.'
    )


def attainable(game: Game, side: int, other: float = 0.4) -> float:
    """The most that a side can have of a deal which leaves the other one `other`."""
    value = game.value
    fitting = [deal for deal in game.deals if value(deal, 1 - side) >= other]
    return max([value(deal, side) for deal in fitting], default=-1.0)


def shown(text: str, side: int) -> str:
    """`text` as `side` reads it: what is for other viewers is left out, marks of hints go."""
    viewer = f"agent_{side}"
    text = _FOR_VIEWERS.sub(
        lambda found: found[2] if viewer in re.split(r"[\s,]+", found[1]) else "", text
    )
    return _HINTS.sub("", text).strip()


def _public(who: Character) -> str:
    about = ", ".join(filter(None, (str(who.age or ""), who.occupation, who.pronoun)))
    return " ".join(filter(None, (f"({about})" if about else "", who.public_info)))


def _personal(who: Character) -> str:
    parts = {
        "Personality": who.big_five,
        "Values": ", ".join(who.moral_values),
        "Decides": who.decision_making_style,
    }
    return " ".join(f"{name}: {text}." for name, text in parts.items() if text)
