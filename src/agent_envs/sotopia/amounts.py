"""Scenes about an amount of money: bargaining over a price, asking for a donation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_envs.sotopia.english import Lexicon
from agent_envs.sotopia.scene import TEXTS, Game, Scene, draw_characters, offer_error

if TYPE_CHECKING:
    from random import Random

    from agent_envs.sotopia.scene import Deal

_NUMBER = r"(?P<number>\d+(?:[.,:]\d+)*)(?P<thousand>k\b)?"
_FIGURE = re.compile(
    rf"(?<![\w.,:/])(?P<minus>[-−–](?=[$\d]))?(?P<marked>\$\s?)?(?P<below>[-−–](?=\d))?{_NUMBER}"
    r"(?P<named>\s?(?:dollars?|bucks?|quid|pounds?|euros?)\b)?(?!\w|[.,]?\d|\s\d{3}\b)",
    re.IGNORECASE,
)
_LEXICON = Lexicon("amounts")
_MOVES, _SHARE, _BEFORE, _NO_AMOUNT, _RANGE, _UNITS, _BEHIND = (
    _LEXICON.pattern(name, re.IGNORECASE)
    for name in ("moves", "share", "before", "no_amount", "range", "units", "behind")
)
_PERIODS = _LEXICON.pattern("periods")
_PERIOD = re.compile(r"\s?(?:/|(?:a|an|per|each|every)\b)\s?(?P<what>[a-z]+)", re.IGNORECASE)
_PLAIN = re.compile(r"(\d{1,9}|\d{1,3}(?:,\d{3})+)(\.\d{1,2})?")
_SLACK = 0.05  # share of the range beyond a side's target
_HIGHEST = 10_000_000


@dataclass(frozen=True)
class Amount(Game):
    """One amount; each side wants it as far as possible from its own limit, towards the other's.

    limits: the limits of sides 0 and 1. unit: the text after an amount.
    gains: whether each side's own money is involved. name: field name of the amount in an offer.
    """

    limits: tuple[int, int]
    unit: str = ""
    gains: tuple[bool, bool] = (True, True)
    name: str = "price"

    @cached_property
    def deals(self) -> tuple[Deal, ...]:
        """Amounts between the limits, at most about two hundred."""
        low, high = sorted(self.limits)
        return tuple((amount,) for amount in range(low, high + 1, 1 + (high - low) // 200))

    @property
    def wordings(self) -> tuple[Amount, Amount]:
        """Both sides state amounts alike."""
        return self, self

    def read_deal(self, text: str) -> Deal | None:
        """The last amount of dollars, else the last number at a place where only an amount can be.

        Counts, measures, dates and ordinals are not amounts, and neither are shares, ranges,
        negative sums and yearly sums. Cents are dropped. None for other notations, such as $12,50
        or $1.000.
        """
        text = _MOVES.sub("go ", text)
        found = [match for match in _FIGURE.finditer(text) if self._is_amount(text, match)]
        marked = [match for match in found if match["marked"] or match["named"]] or found
        amount = _round_dollars(marked[-1]) if marked and not _RANGE.search(text) else None
        return (amount,) if amount is not None and amount < _HIGHEST else None

    def _is_amount(self, text: str, figure: re.Match[str]) -> bool:
        """Whether a figure is an amount that may be offered."""
        before, behind = text[: figure.start()], text[figure.end() :]
        if figure["minus"] or figure["below"] or _SHARE.search(before) or _UNITS.match(behind):
            return False
        period = _PERIOD.match(behind)
        each = period["what"].lower() if period else ""
        if _PERIODS.fullmatch(each) or (each.startswith("month") and not self.unit):
            return False
        if figure["marked"] or figure["named"]:
            return True
        clear = _BEFORE.search(before) and not _NO_AMOUNT.search(before)
        return bool(clear and _BEHIND.match(behind) and _PLAIN.fullmatch(figure["number"]))

    def propose(self, deal: Deal) -> str:
        """`$45`, and for a donation `$45 a month`."""
        return f"${deal[0]}{self.unit}"

    describe = propose

    @property
    def form(self) -> str:
        """`{"price": <whole dollars>}`."""
        return f'{{"{self.name}": <whole dollars>}}'

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """`{"price": 45}`."""
        return {self.name: deal[0]}

    def read_offer(self, offer: object) -> Deal:
        """The amount, from 0 to ten million.

        Raises:
            ValueError: something else.
        """
        amount = offer.get(self.name) if isinstance(offer, dict) and len(offer) == 1 else None
        if type(amount) is not int or not 0 <= amount < _HIGHEST:
            raise offer_error(self.form, offer)
        return (amount,)

    def value(self, deal: Deal, side: int) -> float:
        """0 at the side's own limit, 1 just before the other's limit; negative beyond its own."""
        own, other = self.limits[side], self.limits[1 - side]
        return (deal[0] - own) / ((1 - _SLACK) * (other - own))

    def infer_game(self, hoped: int, side: int) -> Amount:
        """The game as a side can infer it from its own limit and target."""
        own = self.limits[side]
        other = round(own + (hoped - own) / (1 - _SLACK))
        return replace(self, limits=(own, other) if side == 0 else (other, own))

    def material(self, deal: Deal, side: int) -> float:
        """The value of an agreed price; a gift costs its giver the share of the limit."""
        if not self.gains[side]:
            return 0.0
        if self.gains[1 - side]:
            return max(-1.0, min(1.0, self.value(deal, side)))
        return -min(1.0, deal[0] / max(self.limits[side], 1))


def _round_dollars(match: re.Match[str]) -> int | None:
    """`80`, `80.50`, `1,200`, `1.2k` as whole dollars."""
    plain = _PLAIN.fullmatch(match["number"])
    if plain is None:
        return None
    exact = float(match["number"].replace(",", ""))
    return int(exact * 1000 + 0.5) if match["thousand"] else int(exact)


def draw_bargain(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """A used thing for sale; side 0 buys, side 1 sells."""
    texts = TEXTS["bargain"]
    thing, base, why_sold, why_wanted = texts["goods"][number]
    price = round(base * rng.uniform(0.8, 1.2))
    lowest, most = (0.84, 1.04) if tight else (0.7, 1.1)
    seller, buyer = round(price * lowest), round(price * most)
    ask, hope = round(buyer - _SLACK * (buyer - seller)), round(seller + _SLACK * (buyer - seller))
    rival, fault = rng.choice(texts["rivals"]), rng.choice(texts["faults"])
    return Scene(
        codename=f"bargain_{thing.replace(' ', '_')}",
        scenario=f"A flea market on a Saturday morning. One person sells a used {thing}, "
        f"the tag says ${price}; the other one has stopped to look at it.",
        goals=(
            (f"Buy the {thing} as cheaply as you can. <extra_info>You can spend ${buyer} at the "
            f"very most, and ${hope} would be a splendid price.</extra_info>"),
            (f"Sell the {thing} for as much as you can. <extra_info>Below ${seller} you would "
            f"rather keep it, and ${ask} would be a splendid price.</extra_info>"),
        ),
        relationship=rng.choice((0, 1, 2)),
        characters=draw_characters(rng, temper),
        facts=(
            (f"I want it because {why_wanted}.", fault, "I pay in cash since I brought some."),
            (f"I am selling it because {why_sold}.", rival, "It is like new since I cared for it."),
        ),
        game=Amount((buyer, seller)),
        family="bargain",
        temper=temper,
        openings=(f"Good morning! That {thing} looks nice.", f"Hello! This {thing} is for sale."),
    )  # fmt: skip


def draw_donation(number: int, tight: bool, temper: tuple[str, str], rng: Random) -> Scene:
    """A collection; side 0 asks for a monthly donation, side 1 gives."""
    texts = TEXTS["donation"]
    cause, base, does, did = texts["causes"][number]
    most = round(base * rng.uniform(0.9, 1.3)) + (0 if tight else 20)
    least = round(most * (0.4 if tight else 0.2))
    hope, wish = (
        round(x) for x in (most - _SLACK * (most - least), least + _SLACK * (most - least))
    )
    return Scene(
        codename=f"donate_{cause.removeprefix('the ').replace(' ', '_')}",
        scenario=f"A stand in front of the town hall. A volunteer collects monthly donations for "
        f"{cause}, and a passer-by who likes the idea has stopped.",
        goals=(
            (f"Win the other one as a monthly donor of {cause}, with as much as possible. "
            f"<extra_info>Less than ${least} a month is not worth the paperwork, and ${hope} a "
            "month would be splendid.</extra_info>"),
            (f"Support {cause}, but spend as little as you can. <extra_info>You can spare ${most} "
            f"a month at the very most and would like to get away with ${wish}.</extra_info>"),
        ),
        relationship=rng.choice((0, 2, 3)),
        characters=draw_characters(rng, temper),
        facts=(
            (f"Every dollar counts because {does}.", f"It works, I say so because {did}.",
             "You can stop any time since there is no contract."),
            (rng.choice(texts["budgets"]), rng.choice(texts["giving"]),
             "I would give for a long time because I do not like to quit."),
        ),
        game=Amount((least, most), " a month", (False, True), "monthly"),
        family="donation",
        temper=temper,
        openings=(f"Hello! I collect for {cause}.", f"Hello! So you collect for {cause}?"),
    )  # fmt: skip
