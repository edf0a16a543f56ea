"""Scenes: two characters, their knowledge of each other, and their private goals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from agent_envs.assets import table

if TYPE_CHECKING:
    from random import Random

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
"""Terms that can be agreed on, as numbers whose meaning is the game's."""


class Character(NamedTuple):
    """A character; unknown fields are "".

    hints: for each part of the secret the words that reveal it, separated by |.
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


class Wording(Protocol):
    """How one side of a game states deals, in words and in the fields of an act."""

    def read_deal(self, text: str) -> Deal | None:
        """The terms in a line; None for no terms or impossible ones."""

    def propose(self, deal: Deal) -> str:
        """The words that propose a deal; `read_deal` is the inverse."""

    def describe(self, deal: Deal) -> str:
        """A deal in words."""

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """A deal as the field `offer` of an act; `read_offer` is the inverse."""

    def read_offer(self, offer: object) -> Deal:
        """The deal in the field `offer` of an act.

        Raises:
            ValueError: not a possible offer; the message has the form of one.
        """


class Game(Protocol):
    """The negotiation in a scene: the possible deals and their values to each side.

    form: the form of an offer in an act's field. asks: whether a question alone proposes.
    wordings: how sides 0 and 1 state deals; a game that both state alike is its own wording.
    """

    asks: ClassVar[bool] = False

    @property
    def form(self) -> str:
        """The form of an offer."""

    @property
    def deals(self) -> Sequence[Deal]:
        """All deals that a scripted character may propose."""

    @property
    def wordings(self) -> tuple[Wording, Wording]:
        """How each side states deals."""

    def value(self, deal: Deal, side: int) -> float:
        """The value to a side: 0 at its limit, 1 at its target."""

    def values(self, side: int) -> list[float]:
        """The value of each of `deals` to a side."""
        return [self.value(deal, side) for deal in self.deals]

    def material(self, deal: Deal, side: int) -> float:  # noqa: ARG002  most deals bring none
        """The benefit of a side in money or goods, in [-1, 1]."""
        return 0.0


TEXTS: dict[str, dict[str, Any]] = table("sotopia/subjects.toml")
"""Subjects of generated scenes: by family, then by name."""
_PEOPLE = table("sotopia/people.toml")
_FIRST = [(name, pronoun) for pronoun, some in _PEOPLE["first_names"].items() for name in some]
_LIVES = list(_PEOPLE["lives"].items())
SECRETS = [(secret["text"], tuple(secret["hints"])) for secret in _PEOPLE["secrets"]]
"""Secrets, each with the words that reveal each of its parts."""


def draw_characters(rng: Random, temper: tuple[str, str]) -> tuple[Character, Character]:
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


@dataclass(frozen=True)
class Scene:
    """Two characters in a situation; side 0 begins.

    facts: the sentences that each side may tell about itself.
    game: the negotiation; None for scenes that consist only of text.
    temper: the temper of each side if it is scripted.
    openings: the greeting of each side if it is scripted.
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

    def show_goal(self, side: int) -> str:
        """The private goal of a side, hints included, as text without markup."""
        return strip_markup(self.goals[side], side)

    def name_side(self, side: int) -> str:
        """The name of a side as seen by the other."""
        known = self.relationship >= _NAME
        return self.characters[side].first_name if known else STRANGER

    def render_background(self, side: int) -> str:
        """Everything that a side knows at the start: the situation, itself, the other, its goal."""
        own = self.characters[side]
        lines = [
            f"Situation: {strip_markup(self.scenario, side)}",
            f"You are {own.name}. {_describe_public(own)} {_describe_personal(own)}",
            f"Your secret: {own.secret}",
            self._describe_other(1 - side),
            f"Your goal: {self.show_goal(side)}",
            _explain_offer(self.game) if self.game else "",
        ]
        return "\n".join(line for line in lines if line and not line.endswith(": "))

    def _describe_other(self, side: int) -> str:
        other, level = self.characters[side], self.relationship
        known = [
            f"{other.name}." if level >= _NAME else "someone you do not know.",
            _describe_public(other) if level >= _PUBLIC else "",
            _describe_personal(other) if level >= _PERSONAL else "",
        ]
        between = f" You two are {RELATIONSHIPS[level]}." if level >= _PUBLIC else ""
        return f"You talk with {' '.join(filter(None, known))}{between}"


def offer_error(form: str, given: object) -> ValueError:
    """The error for an invalid field `offer`."""
    return ValueError(f"An offer here is written {form}, got {given!r:.120}.")


def _explain_offer(game: Game) -> str:
    return (
        'To bind yourself at once: {"action_type": "speak", "argument": "...", "offer": '
        f'{game.form}}}, or "accept": true in place of the offer.'
    )


def find_best_value(game: Game, side: int, other: float = 0.4) -> float:
    """The highest value for a side of a deal with at least the value `other` for the other."""
    both = zip(game.values(side), game.values(1 - side), strict=True)
    return max([own for own, theirs in both if theirs >= other], default=-1.0)


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


def _describe_personal(who: Character) -> str:
    parts = {
        "Personality": who.big_five,
        "Values": ", ".join(who.moral_values),
        "Decides": who.decision_making_style,
    }
    return " ".join(f"{name}: {text}." for name, text in parts.items() if text)
