"""Scenes about an appointment: a day and an hour for both sides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

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

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
HOURS = (9, 11, 13, 15, 17)
_POINTS = (5, 4, 3, 1, 0)
"""Values of the best to the worst day, and of the best to the worst hour."""
_WORTH = tuple((day + hour) / (2 * _POINTS[0]) for day, hour in product(_POINTS, repeat=2))
_DAY = re.compile(r"\b(" + "|".join(DAYS) + r")s?\b", re.IGNORECASE)
_HOUR = re.compile(  # for a range like 13:00 to 15:00, its first hour
    r"\b(?:at|around|from|between)\s+(\d{1,2})(?::00)?(?![:.]?\d)(?:\s*([ap])\.?m\b|\s*o['’]clock)?"
    r"|(?<!\d to )(?<!m to )(?<!till )(?<!until )(?<!\d and )(?<!m and )(?<!00 – )(?<!00 - )"
    r"(?<![-–:.\d])(\d{1,2})(?::00\b|\s*([ap])\.?m\b)",
    re.IGNORECASE,
)
_EARLIEST, _NOON = 8, 12
_SLOTS = tuple(product(range(len(DAYS)), range(len(HOURS))))
_BUSY = 5  # busy slots of a week for a side


@dataclass(frozen=True)
class Week(Game):
    """A deal is the number of a day and of an hour, counted from 0.

    days, hours: each side's preferences, from best to worst. busy: its busy slots.
    """

    days: tuple[tuple[int, ...], tuple[int, ...]]
    hours: tuple[tuple[int, ...], tuple[int, ...]]
    busy: tuple[frozenset[Deal], frozenset[Deal]]

    @property
    def deals(self) -> tuple[Deal, ...]:
        """Every slot of the week."""
        return _SLOTS

    @property
    def wordings(self) -> tuple[Week, Week]:
        """Both sides state times alike."""
        return self, self

    def read_deal(self, text: str) -> Deal | None:
        """The last day and the last hour in the text, None unless both form a slot."""
        days, hours = _DAY.findall(text), _HOUR.findall(text)
        if not days or not hours:
            return None
        hour = _read_hour(*(a or b for a, b in zip(hours[-1][:2], hours[-1][2:], strict=True)))
        if hour not in HOURS:
            return None
        return DAYS.index(days[-1].capitalize()), HOURS.index(hour)

    def propose(self, deal: Deal) -> str:
        """`Tuesday at 15:00`."""
        return f"{DAYS[deal[0]]} at {HOURS[deal[1]]}:00"

    describe = propose

    @property
    def form(self) -> str:
        """`{"day": "<Monday, ...>", "hour": <9, ...>}`."""
        hours = ", ".join(map(str, HOURS))
        return f'{{"day": "<{DAYS[0]} to {DAYS[-1]}>", "hour": <{hours}>}}'

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """`{"day": "Tuesday", "hour": 15}`."""
        return {"day": DAYS[deal[0]], "hour": HOURS[deal[1]]}

    def read_offer(self, offer: object) -> Deal:
        """The slot.

        Raises:
            ValueError: no such day or hour.
        """
        given = offer if isinstance(offer, dict) and len(offer) == 2 else {}  # noqa: PLR2004
        day, hour = given.get("day"), given.get("hour")
        if day not in DAYS or type(hour) is not int or hour not in HOURS:
            raise offer_error(self.form, offer)
        return DAYS.index(day), HOURS.index(hour)

    def value(self, deal: Deal, side: int) -> float:
        """1 for the best hour of the best day, 0 for the worst of the worst, -1 when busy."""
        return self._worth[side][deal]

    @cached_property
    def _worth(self) -> tuple[dict[Deal, float], dict[Deal, float]]:
        return self._value_slots(0), self._value_slots(1)

    def _value_slots(self, side: int) -> dict[Deal, float]:
        slots = product(self.days[side], self.hours[side])
        return dict(zip(slots, _WORTH, strict=True)) | dict.fromkeys(self.busy[side], -1.0)


def _read_hour(number: str, half: str) -> int:
    """The hour of 24: 3, 3 pm and 15 all mean 15, since nobody meets at night."""
    hour = int(number)
    if half:
        return hour % _NOON + _NOON * (half.lower() == "p")
    return hour + _NOON if hour < _EARLIEST else hour


_TEXTS = TEXTS["schedule"]


def draw_schedule(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """Two busy people look for a time."""
    purpose, place = _TEXTS["purposes"][number]
    game = _draw_game(tight, rng)
    return Scene(
        codename=f"schedule_{place.replace(' ', '_')}_{purpose.split()[0]}",
        scenario=f"Two people want to {purpose} next week and talk about when to meet at the "
        f"{place}. It takes two hours, on a weekday, from {', '.join(f'{h}:00' for h in HOURS)}.",
        goals=(_write_goal(game, 0), _write_goal(game, 1)),
        relationship=rng.choice((2, 3)),
        characters=draw_characters(rng, temper),
        facts=(_write_facts(game, 0, rng), _write_facts(game, 1, rng)),
        game=game,
        family="schedule",
        temper=temper,
        openings=(f"Hello! When shall we {purpose}?", f"Hello! I would like to {purpose} soon."),
    )


def _draw_game(tight: bool, rng: Random) -> Week:
    """Random preferences and busy slots, such that both can do well (if tight, only just)."""
    low, high = (0.65, 0.85) if tight else (0.85, 9.0)

    def order(names: tuple[object, ...]) -> tuple[int, ...]:
        return tuple(rng.sample(range(len(names)), len(names)))

    while True:
        game = Week(
            (order(DAYS), order(DAYS)),
            (order(HOURS), order(HOURS)),
            (frozenset(rng.sample(_SLOTS, _BUSY)), frozenset(rng.sample(_SLOTS, _BUSY))),
        )
        if all(low <= find_best_value(game, side) < high for side in (0, 1)):
            return game


def _write_goal(game: Week, side: int) -> str:
    days = ", ".join(DAYS[day] for day in game.days[side])
    hours = ", ".join(f"{HOURS[hour]}:00" for hour in game.hours[side])
    busy = ", ".join(game.propose(slot) for slot in sorted(game.busy[side]))
    return (
        "Find a time that suits you as well as possible. <extra_info>Days from best to worst: "
        f"{days}. Hours from best to worst: {hours}. Both count alike. You cannot come on {busy}."
        "</extra_info>"
    )


def _write_facts(game: Week, side: int, rng: Random) -> tuple[str, ...]:
    days, hours = game.days[side], game.hours[side]
    return (
        f"I like {DAYS[days[0]]} best because {rng.choice(_TEXTS['quiet'])}.",
        f"{DAYS[days[-1]]} is hard for me since {rng.choice(_TEXTS['full'])}.",
        f"About {HOURS[hours[0]]}:00 is best for me because {rng.choice(_TEXTS['rest'])}.",
    )
