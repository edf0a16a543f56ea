"""Scenes about a favour between friends: hours of help, and something in return."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.sotopia.scene import (
    TEXTS,
    Game,
    Scene,
    draw_characters,
    find_best_value,
    offer_error,
)

if TYPE_CHECKING:
    from random import Random

    from agent_envs.sotopia.scene import Deal

HOURS = range(1, 7)
_PER_HOUR = 2  # points of an hour of help for the receiver; it costs the helper 1
_FRIENDSHIP = 3  # points of helping a friend
_LEAST, _HOPED = (2, 0), (10, 5)
_WORDS = {"an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_TIME = re.compile(
    r"(?<![\w.,-])(?<!half )(?<!in )(?<!past )(?<!last )(?<!by )("
    + "|".join(_WORDS)
    + r"|\d{1,3})\s+hours?\b",
    re.IGNORECASE,
)


class Return(NamedTuple):
    """A return for help: its keyword, its text as a promise, its text as a wish."""

    word: str
    promised: str
    wished: str


RETURNS = (
    Return("nothing", "give nothing in return", "ask for nothing in return"),
    Return("dinner", "cook you dinner", "get dinner from you"),
    Return("garden", "weed your garden", "get my garden weeded"),
    Return("dog", "walk your dog", "get my dog walked"),
    Return("computer", "repair your computer", "get my computer repaired"),
    Return("guitar", "give you guitar lessons", "get guitar lessons from you"),
)
_FORM = (
    f'{{"hours": <{HOURS[0]} to {HOURS[-1]}>, '
    f'"return": "<{", ".join(one.word for one in RETURNS)}>"}}'
)
_DEALS = tuple(product(HOURS, range(len(RETURNS))))
_RETURN = re.compile(
    r"(?P<no>\b(?:no|not|without|never|instead of|rather than)\s(?:(?:for|a|any|the|your|my"
    r"|about)\s)*)?"
    r"\b(?P<what>" + "|".join(r.word for r in RETURNS) + r")\b",
    re.IGNORECASE,
)
_NO_HELP = re.compile(  # after hours: they do not measure the help on Saturday
    r"\s*(?:/|\b(?:a|an|per|each|every|ago|old|long|away|later|earlier|late|early|before|after"
    r"|drive|ride|walk|flight|trip|journey|shift|film|class|nap)\b)",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"\b(?:"
    + "|".join(_WORDS)
    + r"|\d+)\s?(?:-|–|or|to)\s?(?:"
    + "|".join(_WORDS)
    + r"|\d+)\s+hours?\b"
    r"|\bbetween\s\w+\sand\s\w+\s+hours\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Help:
    """How a side states deals: side 0 is helped, side 1 helps."""

    side: int

    def read_deal(self, text: str) -> Deal | None:
        """The last number of hours and the last return that is not denied (default: nothing).

        None for a range of hours, and for hours per day, ago or as a time of day.
        """
        hours = [m for m in _TIME.finditer(text) if not _NO_HELP.match(text, m.end())]
        if not hours or _RANGE.search(text):
            return None
        count = _WORDS.get(hours[-1][1].lower()) or int(hours[-1][1])
        returns = [found["what"].lower() for found in _RETURN.finditer(text) if not found["no"]]
        named = returns[-1] if returns else "nothing"
        place = next(i for i, one in enumerate(RETURNS) if one.word == named)
        return (count, place) if count in HOURS else None

    def propose(self, deal: Deal) -> str:
        """`3 hours of your help, and I cook you dinner`."""
        time = f"{deal[0]} hour{'s' * (deal[0] > 1)}"
        if self.side == 0:
            return f"{time} of your help, and I {RETURNS[deal[1]].promised}"
        return f"{time} of my help, and I {RETURNS[deal[1]].wished}"

    describe = propose

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """`{"hours": 3, "return": "dinner"}`."""
        return {"hours": deal[0], "return": RETURNS[deal[1]].word}

    def read_offer(self, offer: object) -> Deal:
        """The hours and the return, nothing by default.

        Raises:
            ValueError: no such hours or return.
        """
        given: dict[str, Any] = {"return": RETURNS[0].word}
        given |= offer if isinstance(offer, dict) else {}
        hours, words = given.get("hours"), [one.word for one in RETURNS]
        if len(given) != 2 or type(hours) is not int or hours not in HOURS:  # noqa: PLR2004
            raise offer_error(_FORM, offer)
        if given["return"] not in words:
            raise offer_error(_FORM, offer)
        return hours, words.index(given["return"])


_WORDINGS = Help(0), Help(1)


@dataclass(frozen=True)
class Favour(Game):
    """Side 0 asks side 1 for help; a deal is the hours and the number of the return.

    costs: cost of each return to side 0. gains: its value to side 1.
    """

    costs: tuple[int, ...]
    gains: tuple[int, ...]

    @property
    def deals(self) -> tuple[Deal, ...]:
        """All hours with all returns."""
        return _DEALS

    @property
    def wordings(self) -> tuple[Help, Help]:
        """In deals of both sides the same side helps."""
        return _WORDINGS

    @property
    def form(self) -> str:
        """`{"hours": <1 to 6>, "return": <dinner, ...>}`."""
        return _FORM

    def points(self, deal: Deal, side: int) -> int:
        """Points of help and friendship minus their costs."""
        if side == 0:
            return _PER_HOUR * deal[0] - self.costs[deal[1]]
        return _FRIENDSHIP - deal[0] + self.gains[deal[1]]

    def value(self, deal: Deal, side: int) -> float:
        """0 at the side's limit of points, 1 at its target."""
        return (self.points(deal, side) - _LEAST[side]) / (_HOPED[side] - _LEAST[side])

    def material(self, deal: Deal, side: int) -> float:
        """The return alone: its cost to side 0, its value to side 1, divided by 10."""
        return -self.costs[deal[1]] / 10 if side == 0 else self.gains[deal[1]] / 10


_TEXTS = TEXTS["favour"]


def draw_favour(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """A friend asks a friend for help."""
    task = _TEXTS["tasks"][number]
    game = _draw_game(tight, rng)
    return Scene(
        codename=f"favour_{task.replace(' ', '_')}",
        scenario=f"Two friends have coffee. One of them has to {task} on Saturday and hopes for "
        "the other one's help, up to six hours of it. The help may be repaid with dinner, weeding "
        "the garden, walking the dog, repairing the computer, guitar lessons, or nothing.",
        goals=(
            (
                f"Get help to {task}, for as long as you can and as little as you can in return. "
                f"<extra_info>An hour of help is worth {_PER_HOUR} points to you. In return costs "
                f"you: {_list_points(game.costs)}. Fewer than {_LEAST[0]} points and you would "
                f"rather do without; {_HOPED[0]} would be splendid.</extra_info>"
            ),
            (
                "Help your friend, but not for too long and not for nothing. <extra_info>Helping "
                f"is worth {_FRIENDSHIP} points, an hour costs you 1. In return you value: "
                f"{_list_points(game.gains)}. Fewer than {_LEAST[1]} points and you would rather "
                f"stay at home; {_HOPED[1]} would be splendid.</extra_info>"
            ),
        ),
        relationship=3,
        characters=draw_characters(rng, temper),
        facts=(_write_asker_facts(game, rng), _write_helper_facts(game, rng)),
        game=game,
        family="favour",
        temper=temper,
        openings=(f"I have to {task} on Saturday.", f"I hear you have to {task}?"),
    )


def _draw_game(tight: bool, rng: Random) -> Favour:
    """Random costs and gains, such that both sides can do well (in tight scenes only just)."""
    low, high = (0.65, 0.85) if tight else (0.85, 9.0)
    while True:
        game = Favour(
            (0, *(rng.randint(1, 5) for _ in RETURNS[1:])),
            (0, *(rng.randint(1, 6) for _ in RETURNS[1:])),
        )
        if all(low <= find_best_value(game, side) < high for side in (0, 1)):
            return game


def _list_points(points: tuple[int, ...]) -> str:
    return ", ".join(f"{r.word} {p}" for r, p in zip(RETURNS[1:], points[1:], strict=True))


def _write_asker_facts(game: Favour, rng: Random) -> tuple[str, ...]:
    cheapest = min(range(1, len(RETURNS)), key=lambda i: game.costs[i])
    return (
        f"I cannot do it alone because {rng.choice(_TEXTS['alone'])}.",
        f"For the {RETURNS[cheapest].word} I have time anyway because I enjoy it.",
        "It has to be this Saturday since later it rains.",
    )


def _write_helper_facts(game: Favour, rng: Random) -> tuple[str, ...]:
    dearest = max(range(1, len(RETURNS)), key=lambda i: game.gains[i])
    return (
        f"I could use help with the {RETURNS[dearest].word} because {rng.choice(_TEXTS['need'])}.",
        "My Saturdays are short because I visit my aunt.",
        "My shoulder hurts since I fell off a ladder.",
    )
