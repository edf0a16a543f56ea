"""The rules of EZPoints: what is dealt, what a formula is worth, what solves a hand, what it pays.

Left out: turns and signals (`env`) and the picture (`cards`).
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

from agent_envs.panels import Panel, one_of

TARGET = 12
NUMBERS = {str(n): n for n in range(1, 11)}
SIGNS = ("+", "*", "=")
SYMBOLS = (*NUMBERS, *SIGNS)
SHORTEST = 4
"""How many symbols the solution of a hand has: two numbers, the sign between them and "="."""
VALUES = {str(n): n for n in range(2, 11)} | dict.fromkeys("JQK", 10)
SUITS = {"C": "clubs", "D": "diamonds", "H": "hearts", "S": "spades"}
SPLITS = ("train", "val", "test", "all")


class Card(NamedTuple):
    """A card: its rank as printed, "2" to "10", "J", "Q" or "K", and a letter of `SUITS`."""

    rank: str
    suit: str

    @property
    def code(self) -> str:
        """Rank and suit, as "10H"."""
        return self.rank + self.suit

    @property
    def name(self) -> str:
        """As people say it, "10 of hearts"."""
        return f"{self.rank} of {SUITS[self.suit]}"


Hand = tuple[Card, Card]


@cache
def deals() -> dict[str, Hand]:
    """The 768 equally likely deals by id; a hand that can be dealt in two ways is there twice.

    The first card is any from 2 to king. A coin says whether the second completes its value v to 12
    by 12 - v or, where that is whole, by 12 / v. Suits are free; another coin swaps the cards.
    """
    hands: list[Hand] = []
    for (rank, value), by_product in product(VALUES.items(), (False, True)):
        second = TARGET // value if by_product and TARGET % value == 0 else TARGET - value
        for one, other in product(SUITS, repeat=2):
            hand = Card(rank, one), Card(str(second), other)
            hands += [hand, hand[::-1]]
    return {f"{i:03}-{a.code}-{b.code}": (a, b) for i, (a, b) in enumerate(hands)}


@cache
def open_panel(split: str) -> Panel:
    """The deals of a split. By suits, so that every split has the same distribution of numbers.

    Raises:
        ValueError: no such split.
    """
    one_of("split", split, SPLITS)
    own = (task for task, hand in deals().items() if split in ("all", _split_of(hand)))
    return Panel(split, tuple(own))


def _split_of(hand: Hand) -> str:
    suits = {card.suit for card in hand}
    return "val" if suits == {"C", "H"} else "test" if suits == {"D", "S"} else "train"


class Formula(NamedTuple):
    """A formula of whole numbers, `+` and `*`, read from the left so far.

    total: sum of the terms before the running one.
    term: product of the running one.
    ended: whether it ends in a number.
    sound: whether it is the beginning of a formula at all. As in Python, a `+` may stand as a sign
        before a number and blanks between symbols mean nothing; `**` is no operator here, as no
        power makes 12.
    """

    total: int = 0
    term: int = 1
    ended: bool = False
    sound: bool = True

    @property
    def value(self) -> int | None:
        """What it amounts to, None where it is no whole formula."""
        return self.total + self.term if self.ended and self.sound else None


def read(formula: Formula, symbol: str) -> Formula:
    """The formula with one symbol more: a number, `+`, `*` or a blank."""
    total, term, ended, sound = formula
    if symbol == "*":
        return Formula(total, term, ended=False, sound=sound and ended)
    if symbol == "+" and ended:
        return Formula(total + term, 1, ended=False, sound=sound)
    if symbol in {"+", " "}:
        return formula
    return Formula(total, term * NUMBERS[symbol], ended=True, sound=sound and not ended)


def without(numbers: tuple[int, ...], used: int) -> tuple[int, ...]:
    """The numbers less one of that value, which is among them."""
    place = numbers.index(used)
    return numbers[:place] + numbers[place + 1 :]


@cache
def solution(formula: Formula, left: tuple[int, ...]) -> tuple[str, ...]:
    """The fewest symbols that make it 12 with the numbers left, then "="; none where none do."""
    if not left:
        return ("=",) if formula.value == TARGET else ()
    if not formula.ended:
        following = [(str(n), without(left, n)) for n in left]
    else:
        following = [("+", left), ("*", left)]
    for symbol, rest in following:  # all ways from here are equally long
        way = solution(read(formula, symbol), rest)
        if way:
            return (symbol, *way)
    return ()


class Scheme(NamedTuple):
    """What the game pays, and what it does about a number that cannot be used.

    right, wrong: for "=" when the formula is 12 of both cards, and when it is not.
    unusable: for a number that is not on the cards or is used up.
    longest: after so many symbols nothing more can be said, and a blank goes in for each unusable
        number; None for no such limit, and no blanks.
    """

    right: float
    wrong: float = 0.0
    unusable: float = 0.0
    longest: int | None = None


SCHEMES = {
    "success": Scheme(right=1.0),
    "verl-agent": Scheme(right=10.0),
    "rl4vlm": Scheme(right=10.0, wrong=-1.0, unusable=-1.0, longest=6),
}
