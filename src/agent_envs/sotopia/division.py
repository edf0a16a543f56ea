"""Scenes about things to divide; each side has its own points for each thing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from operator import mul
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

_NUMBERS = {"no": 0, "a": 1, "an": 1, "the": 1, "one": 1, "two": 2, "three": 3, "four": 4}
_MANY = {"all": 9, "every": 9, "both": 2}
_PERSON = re.compile(r"\b(i(?:['’]\w+)?|me|my|you(?:['’]\w+)?|your|yours)\b", re.IGNORECASE)
_GIVES = re.compile(  # after a person: the words that assign the following things
    r"\W*(?:(?:will|would|can|could|may|shall|should|must|have to|also|just|only|then|gladly"
    r"|happily|really|still|am going to|are going to|like to|love to|be happy to|be glad to|want to"
    r"|need to|ll|d)\W+)*(?P<verb>keep|keeping|take|taking|get|getting|claim|claiming|want|need|ask"
    r"|give|offer|leave|let|share|portion|part)\b|\W*(?:(?:would|d|really|also)\W+)*(?:would"
    r"|d)\W+(?:\w+ly\W+)?(?:like|love|prefer)\b|\W*(?:will|would|can|could|may|shall|should|d|ll)"
    r"(?:\W+(?:also|just|only|then|gladly))*\W+have\b|\W*(?:have|propose|suggest)\s+(?=(?:the"
    r"|all|both)\b)"
    r"|\W*(?:(?:with|and|just|only|also|for)\W+)*(?:the|all|both|every|no|an?|one|two|three|four"
    r"|\d+)\b(?=.)",
    re.IGNORECASE | re.DOTALL,
)
_SHARED = re.compile(r"\W*(?:share|part|half|portion|side|pile)\b", re.IGNORECASE)  # after "my"
_BELOW = re.compile(r"[-−–]\d")


class Thing(NamedTuple):
    """One kind of thing: singular, plural and number."""

    one: str
    many: str
    total: int

    def name_count(self, count: int) -> str:
        """`2 lamps`, `1 lamp`."""
        return f"{count} {self.one if count == 1 else self.many}"


@dataclass(frozen=True)
class Keeping:
    """How a side states divisions: by what it keeps. Deals are counted as those of side 0."""

    things: tuple[Thing, ...]
    side: int

    def _swap(self, counts: Deal) -> Deal:
        """What the side gets by a deal; or the deal, by what the side gets."""
        if self.side == 0:
            return counts
        return tuple([thing.total - n for thing, n in zip(self.things, counts, strict=True)])

    def read_deal(self, text: str) -> Deal | None:
        """The division by the line's last mention of each thing; the rest goes to the other.

        None if the line assigns nothing, or counts do not match the things.
        """
        if _BELOW.search(text):
            return None
        shares = self._read_shares(text)
        if not any(shares):
            return None
        mine, yours = shares
        rest_is_mine = not mine
        got = []
        for place, thing in enumerate(self.things):
            own, other = mine.get(place), yours.get(place)
            if own is None:
                own = thing.total - other if other is not None else thing.total * rest_is_mine
            if not 0 <= own <= thing.total or (other or 0) + own > thing.total:
                return None
            got.append(own)
        return self._swap(tuple(got))

    def _read_shares(self, text: str) -> tuple[dict[int, int], dict[int, int]]:
        """Counts of things for the speaker and the listener, as stated."""
        mine: dict[int, int] = {}
        yours: dict[int, int] = {}
        parts = _PERSON.split(text)
        for person, part in zip(parts[1::2], parts[2::2], strict=True):
            gets = _SHARED if person.lower() in ("my", "your") else _GIVES
            if gets.match(person[1:] + part if person[:1] in "iI" else part):
                whose = yours if person.lower().startswith("you") else mine
                whose.update(self._read_counts(part))
        return mine, yours

    def _read_counts(self, text: str) -> dict[int, int]:
        counts = {}
        for count, name in _compile_counts(self._names).findall(text.lower()):
            place = next(i for i, t in enumerate(self.things) if name in (t.one, t.many))
            thing = self.things[place]
            number = min(_MANY[count], thing.total) if count in _MANY else _number(count)
            if count == "the" and name == thing.many:
                number = thing.total
            counts[place] = number
        return counts

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for thing in self.things for name in (thing.many, thing.one))

    def propose(self, deal: Deal) -> str:
        """`I keep 2 lamps and 1 rug, you get 1 vase`."""
        kept = self._swap(deal)
        rest = tuple(t.total - n for t, n in zip(self.things, kept, strict=True))
        mine, yours = self._list_things(kept), self._list_things(rest)
        if not mine:
            return f"you get {yours}"
        return f"I keep {mine}, you get {yours}" if yours else f"I keep {mine}"

    describe = propose

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """`{"keep": {"lamp": 2}}`: what the speaker keeps; the rest goes to the other."""
        kept = zip(self.things, self._swap(deal), strict=True)
        return {"keep": {thing.one: number for thing, number in kept}}

    @property
    def form(self) -> str:
        """`{"keep": {"lamp": <how many>, ...}}`."""
        counts = ", ".join(f'"{thing.one}": <0 to {thing.total}>' for thing in self.things)
        return f'{{"keep": {{{counts}}}}}'

    def read_offer(self, offer: object) -> Deal:
        """The division; things that are not named go to the other.

        Raises:
            ValueError: no such things, or more than there are.
        """
        kept = offer.get("keep") if isinstance(offer, dict) and len(offer) == 1 else None
        counts = dict.fromkeys(self.things, 0)
        if not isinstance(kept, dict):
            raise offer_error(self.form, offer)
        for name, number in kept.items():
            thing = next((t for t in self.things if name in (t.one, t.many)), None)
            if thing is None or type(number) is not int or not 0 <= number <= thing.total:
                raise offer_error(self.form, offer)
            counts[thing] = number
        return self._swap(tuple(counts.values()))

    def _list_things(self, share: Deal) -> str:
        parts = [t.name_count(n) for t, n in zip(self.things, share, strict=True) if n]
        return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


@dataclass(frozen=True)
class Division(Game):
    """A deal is how many of each thing side 0 gets; side 1 gets the rest.

    worth: points of each thing, for each side. least, hoped: limit and target of each side in
    points.
    """

    things: tuple[Thing, ...]
    worth: tuple[tuple[int, ...], tuple[int, ...]]
    least: tuple[int, int]
    hoped: tuple[int, int]

    @cached_property
    def deals(self) -> tuple[Deal, ...]:
        """Every way to divide them."""
        return tuple(product(*(range(thing.total + 1) for thing in self.things)))

    @cached_property
    def wordings(self) -> tuple[Keeping, Keeping]:
        """Each side says what it keeps."""
        return Keeping(self.things, 0), Keeping(self.things, 1)

    @property
    def form(self) -> str:
        """`{"keep": {"lamp": <how many>, ...}}`."""
        return self.wordings[0].form

    def points(self, deal: Deal, side: int) -> int:
        """The points of a side's things."""
        points: int = sum(map(mul, deal, self.worth[side]))
        return points if side == 0 else self._points_of_all - points

    @cached_property
    def _points_of_all(self) -> int:
        """The points of all things for side 1."""
        return sum(t.total * w for t, w in zip(self.things, self.worth[1], strict=True))

    def value(self, deal: Deal, side: int) -> float:
        """0 at the side's limit of points, 1 at its target."""
        least = self.least[side]
        return (self.points(deal, side) - least) / (self.hoped[side] - least)

    def values(self, side: int) -> list[float]:
        """The value of each deal."""
        least, span = self.least[side], self.hoped[side] - self.least[side]
        counted = [range(thing.total + 1) for thing in self.things]
        counts = counted if side == 0 else [range(len(one) - 1, -1, -1) for one in counted]
        points = [[w * n for n in own] for own, w in zip(counts, self.worth[side], strict=True)]
        return [(sum(own) - least) / span for own in product(*points)]

    def material(self, deal: Deal, side: int) -> float:
        """The value, clipped to [-1, 1]."""
        return max(-1.0, min(1.0, self.value(deal, side)))


@lru_cache(maxsize=256)
def _compile_counts(names: tuple[str, ...]) -> re.Pattern[str]:
    """A number followed by one of these names."""
    counts = "|".join((*_NUMBERS, *_MANY))
    known = "|".join(map(re.escape, names))
    return re.compile(rf"\b({counts}|\d{{1,6}})\s+(?:of\s+)?(?:the\s+)?({known})\b")


def _number(text: str) -> int:
    return _NUMBERS[text] if text in _NUMBERS else int(text)


_TEXTS = TEXTS["divide"]
_LEAST, _HOPED = 0.25, 0.85  # of all points


def draw_division(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """Three kinds of things for two people who value them differently."""
    occasion, things = _TEXTS["occasions"][number]
    names = [(name, _TEXTS["plurals"].get(name, f"{name}s")) for name in things.split()]
    game = _draw_game(names, tight, rng)
    first, second, third = (thing.name_count(thing.total) for thing in game.things)
    return Scene(
        codename=f"divide_{things.replace(' ', '_')}",
        scenario=f"{occasion} and have to divide {first}, {second} and {third}.",
        goals=(_write_goal(game, 0), _write_goal(game, 1)),
        relationship=5 if "siblings" in occasion or "cousins" in occasion else 3,
        characters=draw_characters(rng, temper),
        facts=(_write_facts(game, 0, rng), _write_facts(game, 1, rng)),
        game=game,
        family="divide",
        temper=temper,
        openings=("So, let us divide these things.", "So, who takes what?"),
    )


def _draw_game(names: list[tuple[str, str]], tight: bool, rng: Random) -> Division:
    """Random counts and points, such that both sides can do well (in tight scenes only just)."""
    low, high = (0.68, 0.86) if tight else (0.86, 9.0)
    while True:
        things = tuple(Thing(one, many, rng.randint(1, 3)) for one, many in names)
        worths = [tuple(rng.randint(1, 9) for _ in things) for _ in range(2)]
        totals = [sum(t.total * w for t, w in zip(things, w, strict=True)) for w in worths]
        least = tuple(round(_LEAST * total) for total in totals)
        hoped = tuple(round(_HOPED * total) for total in totals)
        game = Division(things, (worths[0], worths[1]), (least[0], least[1]), (hoped[0], hoped[1]))
        if all(low <= find_best_value(game, side) < high for side in (0, 1)):
            return game


def _write_goal(game: Division, side: int) -> str:
    worth = ", ".join(f"{t.one} {w}" for t, w in zip(game.things, game.worth[side], strict=True))
    return (
        "Get the things that are worth most to you. <extra_info>Your points for one of each: "
        f"{worth}. Fewer than {game.least[side]} points would be worse than no agreement, and "
        f"{game.hoped[side]} would be splendid.</extra_info>"
    )


def _write_facts(game: Division, side: int, rng: Random) -> tuple[str, ...]:
    order = sorted(range(len(game.things)), key=lambda i: -game.worth[side][i])
    first, last = game.things[order[0]], game.things[order[-1]]
    return (
        f"I am fond of the {first.many} because {rng.choice(_TEXTS['fondness'])}.",
        f"Of the {last.many} I could spare some since {rng.choice(_TEXTS['sparing'])}.",
        "I would rather settle it today because tomorrow I work.",
    )
