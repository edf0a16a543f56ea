"""Scenes about a friend in common: two strangers find out which friend they share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agent_envs.sotopia.people import pair
from agent_envs.sotopia.scene import Scene, no_offer
from agent_envs.sotopia.subjects import TEXTS

if TYPE_CHECKING:
    from random import Random

    from agent_envs.sotopia.scene import Deal


_ADDRESSED = re.compile(  # a name after these is the speaker's, the listener's or a namesake's
    r"(?:\b(?:i am|(?:first |last |middle )?names? (?:is|was)|call me|called|named|hello|hi|hey|bye"
    r"|goodbye|thanks|thank you|cheers|dear|mr|mrs|ms|dr|sorry|welcome|good (?:morning|day"
    r"|evening|night)"
    r"|meet(?:ing)? you|see you(?: \w+)?|nice to \w+ you|after|cousin|uncle|aunt"
    r"|(?:my|your|his|her|our|their) (?!friend)\w+(?: \w+)?)[\s,.!]*|\w['’]s? )$",
    re.IGNORECASE,
)
_MEANT = re.compile(
    r"\b(?:know|knows|known|knew|met|friends?|common|mean|means|meant|both|acquainted|familiar"
    r"|guess"
    r"|(?:could|would|might|must) (?:it|that) be|is (?:it|that)|(?:it|that) (?:is|must be|has to be"
    r"|could be|might be)|(?:what|how) about|heard of|think of|thinking of|remember|works|lives"
    r"|likes"
    r"|propose|suggest|say)\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"['’]s\b|,? (?:here|speaking)\b", re.IGNORECASE)  # the same after a name
_WORD = re.compile(r"\w+")
_FEW_WORDS = 3  # a line with at most so many other words is a guess of a name


class Friend(NamedTuple):
    """A friend in a scene; each of the four fields is one word."""

    name: str
    works: str
    town: str
    sport: str

    @property
    def traits(self) -> frozenset[str]:
        """Workplace, town and sport."""
        return frozenset(self[1:])

    def told(self) -> str:
        """Name and all traits."""
        return f"{self.name} works at the {self.works}, lives in {self.town}, likes {self.sport}"


@dataclass(frozen=True)
class Friends:
    """A deal is the number of a friend, of all friends of either side.

    known: the friends of each side. shared: the friend in common.
    """

    asks: ClassVar[bool] = True
    friends: tuple[Friend, ...]
    known: tuple[frozenset[int], frozenset[int]]
    shared: int

    @cached_property
    def deals(self) -> tuple[Deal, ...]:
        """Each friend."""
        return tuple((place,) for place in range(len(self.friends)))

    @property
    def wordings(self) -> tuple[Friends, Friends]:
        """Both sides state names alike."""
        return self, self

    def read(self, text: str) -> Deal | None:
        """The friend in a line, if there is exactly one: a list of names is not a proposal.

        The names of the speaker, the listener and namesakes do not count.
        """
        names = [word for word in _WORD.finditer(text) if word[0] in self._places]
        if len({name[0] for name in names}) != 1 or _ADDRESSED.search(text[: names[0].start()]):
            return None
        found = names[0]
        rest = text[: found.start()] + text[found.end() :]
        own = _OWN.match(text, found.end())
        meant = _MEANT.search(rest) or len(rest.split()) < _FEW_WORDS
        return (self._places[found[0]],) if meant and not own else None

    def named(self, text: str) -> list[int]:
        """All friends whose names occur in a text."""
        names = dict.fromkeys(_WORD.findall(text))
        return [self._places[name] for name in names if name in self._places]

    def described(self, text: str) -> list[str]:
        """All workplaces, towns and sports in a text, in alphabetical order."""
        words = {word.lower() for word in _WORD.findall(text)}
        return sorted(self._spelt[word] for word in words & self._spelt.keys())

    @cached_property
    def _places(self) -> dict[str, int]:
        return {friend.name: place for place, friend in enumerate(self.friends)}

    @cached_property
    def _spelt(self) -> dict[str, str]:
        return {trait.lower(): trait for friend in self.friends for trait in sorted(friend.traits)}

    def tell(self, deal: Deal) -> str:
        """`Do you know Anouk?`."""
        return f"Do you know {self.friends[deal[0]].name}?"

    def terms(self, deal: Deal) -> str:
        """`Anouk is the friend in common`."""
        return f"{self.friends[deal[0]].name} is the friend in common"

    @property
    def form(self) -> str:
        """`{"friend": "<name>"}`."""
        return '{"friend": "<name>"}'

    def offer(self, deal: Deal) -> dict[str, Any]:
        """`{"friend": "Anouk"}`."""
        return {"friend": self.friends[deal[0]].name}

    def offered(self, offer: object) -> Deal:
        """The friend, of all friends of either side.

        Raises:
            ValueError: an unknown friend.
        """
        name = offer.get("friend") if isinstance(offer, dict) and len(offer) == 1 else None
        if not isinstance(name, str) or name not in self._places:
            raise no_offer(self.form, offer)
        return (self._places[name],)

    def value(self, deal: Deal, side: int) -> float:  # noqa: ARG002  a friend is shared or not
        """1 for the friend in common, else -1."""
        return 1.0 if deal[0] == self.shared else -1.0

    def values(self, side: int) -> list[float]:
        """The value of each deal."""
        return [self.value(deal, side) for deal in self.deals]

    def material(self, deal: Deal, side: int) -> float:  # noqa: ARG002  nobody pays
        """Always 0."""
        return 0.0


_TEXTS = TEXTS["friend"]
_FEW, _MANY = 6, 9


def friend(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """Strangers with lists of friends and one friend in common; tight scenes have long lists."""
    party = _TEXTS["parties"][number]
    game = _drawn(_MANY if tight else _FEW, rng)
    return Scene(
        codename=f"friend_at_{party.removeprefix('a ').replace(' ', '_').replace('-', '_')}",
        scenario=f"Two strangers start to talk at {party}. They have exactly one friend in common.",
        goals=(_goal(game, 0), _goal(game, 1)),
        relationship=0,
        characters=pair(rng, temper),
        facts=(_facts(game, 0), _facts(game, 1)),
        game=game,
        family="friend",
        temper=temper,
        openings=(
            "Hello! What brings you here?",
            "Hello! It is full of people here.",
        ),
    )


def _drawn(count: int, rng: Random) -> Friends:
    names = rng.sample(_TEXTS["names"], 2 * count - 1)
    friends = tuple(
        Friend(name, *(rng.choice(_TEXTS[trait]) for trait in ("works", "towns", "sports")))
        for name in names
    )
    shared = rng.randrange(count)
    own = frozenset(range(count))
    return Friends(friends, (own, frozenset({shared, *range(count, len(names))})), shared)


def _goal(game: Friends, side: int) -> str:
    known = sorted((game.friends[place] for place in game.known[side]), key=lambda f: f.name)
    return (
        "Find out which friend you have in common. Just reading out names would be rude. "
        f"<extra_info>Your friends: {'; '.join(one.told() for one in known)}.</extra_info>"
    )


def _facts(game: Friends, side: int) -> tuple[str, ...]:
    """The most common workplace, town and sport among a side's friends."""
    known = [game.friends[place] for place in sorted(game.known[side])]
    works, towns, sports = (
        max(dict.fromkeys(values), key=values.count)
        for values in ([one[trait] for one in known] for trait in (1, 2, 3))
    )
    return (
        f"I often go to the {works} since a friend works there.",
        f"I know {towns} well because a friend lives there.",
        f"I watch {sports} because a friend of mine does it.",
    )
