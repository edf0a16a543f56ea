"""Scenes about a friend in common, and the stranger who answers questions about its friends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.conduct import find_harm
from agent_envs.sotopia.scene import TEXTS, Game, Scene, draw_characters, offer_error
from agent_envs.sotopia.speech import hear_line

if TYPE_CHECKING:
    from random import Random

    import numpy as np

    from agent_envs.sotopia.scene import Deal
    from agent_envs.sotopia.talk import Talk


_ADDRESSED = re.compile(  # a name after these is the speaker's, the listener's or a namesake's
    r"(?:\b(?:i am|(?:first |last |middle )?names? (?:is|was)|call me|called|named|hello|hi|hey|bye"
    r"|goodbye|thanks|thank you|cheers|dear|mr|mrs|ms|dr|sorry|welcome|good (?:morning|day"
    r"|evening|night)|meet(?:ing)? you|see you(?: \w+)?|nice to \w+ you|after|cousin|uncle|aunt"
    r"|(?:my|your|his|her|our|their) (?!friend)\w+(?: \w+)?)[\s,.!]*|\w['’]s? )$",
    re.IGNORECASE,
)
_MEANT = re.compile(
    r"\b(?:know|knows|known|knew|met|friends?|common|mean|means|meant|both|acquainted|familiar"
    r"|guess"
    r"|(?:could|would|might|must) (?:it|that) be|is (?:it|that)|(?:it|that) (?:is|must be|has to be"
    r"|could be|might be)|(?:what|how) about|heard of|think of|thinking of|remember|works|lives"
    r"|likes|propose|suggest|say)\b",
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

    def render(self) -> str:
        """Name and all traits."""
        return f"{self.name} works at the {self.works}, lives in {self.town}, likes {self.sport}"


@dataclass(frozen=True)
class Friends(Game):
    """A deal is the number of a friend, of all friends of either side.

    known: the friends of each side. shared: the friend in common.
    """

    asks = True
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

    def read_deal(self, text: str) -> Deal | None:
        """The friend in a line, if there is exactly one: a list of names is not a proposal.

        The names of the speaker, the listener and namesakes do not count.
        """
        names = [word for word in _WORD.finditer(text) if word[0] in self._place_by_name]
        if len({name[0] for name in names}) != 1 or _ADDRESSED.search(text[: names[0].start()]):
            return None
        found = names[0]
        rest = text[: found.start()] + text[found.end() :]
        own = _OWN.match(text, found.end())
        meant = _MEANT.search(rest) or len(rest.split()) < _FEW_WORDS
        return (self._place_by_name[found[0]],) if meant and not own else None

    def find_names(self, text: str) -> list[int]:
        """All friends whose names occur in a text."""
        names = dict.fromkeys(_WORD.findall(text))
        return [self._place_by_name[name] for name in names if name in self._place_by_name]

    def find_traits(self, text: str) -> list[str]:
        """All workplaces, towns and sports in a text, in alphabetical order."""
        words = {word.lower() for word in _WORD.findall(text)}
        return sorted(self._trait_by_lower[word] for word in words & self._trait_by_lower.keys())

    @cached_property
    def _place_by_name(self) -> dict[str, int]:
        return {friend.name: place for place, friend in enumerate(self.friends)}

    @cached_property
    def _trait_by_lower(self) -> dict[str, str]:
        return {trait.lower(): trait for friend in self.friends for trait in sorted(friend.traits)}

    def propose(self, deal: Deal) -> str:
        """`Do you know Anouk?`."""
        return f"Do you know {self.friends[deal[0]].name}?"

    def describe(self, deal: Deal) -> str:
        """`Anouk is the friend in common`."""
        return f"{self.friends[deal[0]].name} is the friend in common"

    @property
    def form(self) -> str:
        """`{"friend": "<name>"}`."""
        return '{"friend": "<name>"}'

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """`{"friend": "Anouk"}`."""
        return {"friend": self.friends[deal[0]].name}

    def read_offer(self, offer: object) -> Deal:
        """The friend, of all friends of either side.

        Raises:
            ValueError: an unknown friend.
        """
        name = offer.get("friend") if isinstance(offer, dict) and len(offer) == 1 else None
        if not isinstance(name, str) or name not in self._place_by_name:
            raise offer_error(self.form, offer)
        return (self._place_by_name[name],)

    def value(self, deal: Deal, side: int) -> float:  # noqa: ARG002  a friend is shared or not
        """1 for the friend in common, else -1."""
        return 1.0 if deal[0] == self.shared else -1.0


_TEXTS = TEXTS["friend"]
_FEW, _MANY = 6, 9


def draw_strangers(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """Strangers with lists of friends and one friend in common; tight scenes have long lists."""
    party = _TEXTS["parties"][number]
    game = _draw_game(_MANY if tight else _FEW, rng)
    return Scene(
        codename=f"friend_at_{party.removeprefix('a ').replace(' ', '_').replace('-', '_')}",
        scenario=f"Two strangers start to talk at {party}. They have exactly one friend in common.",
        goals=(_write_goal(game, 0), _write_goal(game, 1)),
        relationship=0,
        characters=draw_characters(rng, temper),
        facts=(_write_facts(game, 0), _write_facts(game, 1)),
        game=game,
        family="friend",
        temper=temper,
        openings=(
            "Hello! What brings you here?",
            "Hello! It is full of people here.",
        ),
    )


def _draw_game(count: int, rng: Random) -> Friends:
    names = rng.sample(_TEXTS["names"], 2 * count - 1)
    friends = tuple(
        Friend(name, *(rng.choice(_TEXTS[trait]) for trait in ("works", "towns", "sports")))
        for name in names
    )
    shared = rng.randrange(count)
    own = frozenset(range(count))
    return Friends(friends, (own, frozenset({shared, *range(count, len(names))})), shared)


def _write_goal(game: Friends, side: int) -> str:
    known = sorted((game.friends[place] for place in game.known[side]), key=lambda f: f.name)
    return (
        "Find out which friend you have in common. Just reading out names would be rude. "
        f"<extra_info>Your friends: {'; '.join(one.render() for one in known)}.</extra_info>"
    )


def _write_facts(game: Friends, side: int) -> tuple[str, ...]:
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


class Manner(NamedTuple):
    """How a character talks to strangers.

    patience: idle turns that it tolerates. names: wrong names that it tolerates. hurry: turn from
    which on each turn costs patience. counts: whether it says how many friends fit. hints: whether
    it adds a hint.
    """

    patience: int
    names: int
    hurry: int
    counts: bool
    hints: bool


_NEVER = 99
MANNERS = {
    "stubborn": Manner(4, 1, _NEVER, False, False),
    "generous": Manner(6, 3, _NEVER, True, True),
    "impatient": Manner(3, 2, 5, False, False),
    "fair": Manner(5, 2, _NEVER, True, False),
}
_TRAITS = 2  # most traits in one question that it tolerates


class Mood(NamedTuple):
    """The state that its next answer depends on, besides the talk."""

    patience: int
    names: int
    turn: int = 0
    told: int = 0
    asked: frozenset[str] = frozenset()
    settled: bool = False


class Acquaintance:
    """Side `side` of a scene about a friend in common."""

    def __init__(self, scene: Scene, side: int, temper: str, rng: np.random.Generator) -> None:
        assert isinstance(scene.game, Friends)  # noqa: S101  the scripted partner has checked it
        self.scene, self.game, self.side = scene, scene.game, side
        self.manner = MANNERS[temper]
        self.mood = Mood(self.manner.patience, self.manner.names)
        self.wording = int(rng.integers(1000))

    @property
    def state(self) -> str:
        """The state that its next answers depend on, as text; turns as in `Negotiator.state`."""
        matters = min(self.mood.turn, self.manner.hurry if self.manner.hurry < _NEVER else 1)
        mood = self.mood._replace(turn=matters, asked=frozenset())
        return repr(mood) + repr(sorted(self.mood.asked))

    def reply(self, talk: Talk) -> Act:
        """Its next act; updates its mood."""
        self.mood = mood = self.mood._replace(turn=self.mood.turn + 1)
        if talk.accepted_terms is not None:
            done, self.mood = mood.settled, mood._replace(settled=True)
            return Act("leave") if done else speak("What a small world! It was nice to meet you.")
        self.mood = mood = mood._replace(settled=False)
        act = talk.said[-1].act if talk.said else Act("none")
        line = self._answer(talk, act)
        if mood.turn >= self.manner.hurry:
            self._lose_patience(1)
        if self.mood.patience <= 0 and not self.mood.settled:
            return Act("leave")
        greeting = self.scene.openings[self.side] if mood.turn == 1 else ""
        idle = 1 + (mood.turn + 1 >= self.manner.hurry)  # cost of the next idle turn
        warning = "I have to go soon." if self.mood.patience <= idle else ""
        said = speak(" ".join(filter(None, (greeting, line, warning))))
        known = (self.game.shared,) if self.mood.settled else None
        return said._replace(offer=known, worded=True)

    def _answer(self, talk: Talk, act: Act) -> str:
        """The answer to an act."""
        text = act.argument if act.kind == "speak" else ""
        words = hear_line(text)
        self._lose_patience(2 * find_harm(act.argument, deed=act.kind != "speak").rude)
        if talk.said and talk.said[-1] in talk.said[:-1]:
            self._lose_patience(1)
            return "You said that before."
        names = list(dict.fromkeys([*(act.offer or ()), *self.game.find_names(text)]))
        traits = self.game.find_traits(text)
        if len(names) > 1:
            self._lose_patience(2)
            return "Please, do not just read out names."
        if names and (act.offer or self.game.read_deal(text)):
            return self._answer_name(names[0])
        if traits and words.asks and " ".join(traits) not in self.mood.asked:
            return self._answer_traits(traits)
        return self._make_small_talk(asked=words.inquires)

    def _answer_name(self, place: int) -> str:
        name = self.game.friends[place].name
        if place == self.game.shared:
            self.mood = self.mood._replace(settled=True)
            return f"Yes, I know {name} too!"
        self.mood = self.mood._replace(names=self.mood.names - 1)
        self._lose_patience(99 if self.mood.names < 0 else 0)
        return _UNKNOWN[self.wording % len(_UNKNOWN)].format(name=name)

    def _answer_traits(self, traits: list[str]) -> str:
        """Whether a friend has all of the traits; more than two at once cost patience."""
        self._lose_patience(max(0, len(traits) - _TRAITS))
        self.mood = self.mood._replace(asked=self.mood.asked | {" ".join(traits)})
        known = [self.game.friends[place] for place in sorted(self.game.known[self.side])]
        fitting = [one for one in known if set(traits) <= one.traits]
        if not fitting:
            return "No, that fits none of my friends."
        counted = len(fitting) > 1 and self.manner.counts
        count = f"{len(fitting)} of my friends" if counted else "a friend of mine"
        hint = f" One works at the {fitting[0].works} and lives in {fitting[0].town}."
        return f"Yes, that fits {count}.{hint if self.manner.hints else ''}"

    def _make_small_talk(self, *, asked: bool) -> str:
        facts, told = self.scene.facts[self.side], self.mood.told
        if asked and told < len(facts):
            self.mood = self.mood._replace(told=told + 1)
            return facts[told]
        if self.mood.turn > 1:
            self._lose_patience(1)
        return _IDLE[(self.wording + self.mood.turn) % len(_IDLE)]

    def _lose_patience(self, patience: int) -> None:
        self.mood = self.mood._replace(patience=self.mood.patience - patience)


_UNKNOWN = ("I do not know {name}.", "I have never met {name}.")
_IDLE = (
    "I wonder whom we both know.",
    "Where do your friends work?",
    "Tell me something about your friends.",
)
