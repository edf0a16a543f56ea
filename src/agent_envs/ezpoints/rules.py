"""The rules of EZPoints: deals, values of formulas, solutions and rewards.

Turns and signals are in `env`, the image in `cards`.
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
"""Number of symbols of a solution: two numbers, the sign between them and "="."""
VALUES = {str(n): n for n in range(2, 11)} | dict.fromkeys("JQK", 10)
SUITS = {"C": "clubs", "D": "diamonds", "H": "hearts", "S": "spades"}
SPLITS = ("train", "val", "test", "all")


class Card(NamedTuple):
    """A card: its rank as printed, "2" to "10", "J", "Q" or "K", and a letter of `SUITS`."""

    rank: str
    suit: str

    @property
    def code(self) -> str:
        """Rank and suit, such as "10H"."""
        return self.rank + self.suit

    @property
    def name(self) -> str:
        """The full name, such as "10 of hearts"."""
        return f"{self.rank} of {SUITS[self.suit]}"


Hand = tuple[Card, Card]


@cache
def list_deals() -> dict[str, Hand]:
    """The 768 equally likely deals by id; a hand with two ways to be dealt occurs twice.

    The first card is any from 2 to king, with value v. The second has the value 12 - v or, if that
    is an integer, with probability one half 12 / v. Suits are arbitrary; another coin swaps them.
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
    """The deals of a split, by suits, so that all splits have the same distribution of numbers.

    Raises:
        ValueError: no such split.
    """
    one_of("split", split, SPLITS)
    own = (task for task, hand in list_deals().items() if split in ("all", _find_split(hand)))
    return Panel(split, tuple(own))


def _find_split(hand: Hand) -> str:
    suits = {card.suit for card in hand}
    return "val" if suits == {"C", "H"} else "test" if suits == {"D", "S"} else "train"


class Formula(NamedTuple):
    """The state of a formula of integers, `+` and `*`, read from the left.

    total: sum of the terms before the current one.
    term: product of the current term.
    ended: whether it ends in a number.
    sound: whether it is the beginning of a valid formula. As in Python, `+` may be a sign before a
        number, and spaces between symbols are ignored; `**` is not an operator here, since no power
        makes 12.
    """

    total: int = 0
    term: int = 1
    ended: bool = False
    sound: bool = True

    @property
    def value(self) -> int | None:
        """The value, None if the formula is not complete."""
        return self.total + self.term if self.ended and self.sound else None


def append_symbol(formula: Formula, symbol: str) -> Formula:
    """The formula with one more symbol: a number, `+`, `*` or a space."""
    total, term, ended, sound = formula
    if symbol == "*":
        return Formula(total, term, ended=False, sound=sound and ended)
    if symbol == "+" and ended:
        return Formula(total + term, 1, ended=False, sound=sound)
    if symbol in {"+", " "}:
        return formula
    return Formula(total, term * NUMBERS[symbol], ended=True, sound=sound and not ended)


def remove_number(numbers: tuple[int, ...], used: int) -> tuple[int, ...]:
    """The numbers without one occurrence of `used`, which must be among them."""
    place = numbers.index(used)
    return numbers[:place] + numbers[place + 1 :]


@cache
def find_solution(formula: Formula, left: tuple[int, ...]) -> tuple[str, ...]:
    """The fewest symbols that make it 12 with the numbers left, then "="; () if none do."""
    if not left:
        return ("=",) if formula.value == TARGET else ()
    if not formula.ended:
        following = [(str(n), remove_number(left, n)) for n in left]
    else:
        following = [("+", left), ("*", left)]
    for symbol, rest in following:  # all ways from here are equally long
        way = find_solution(append_symbol(formula, symbol), rest)
        if way:
            return (symbol, *way)
    return ()


class Scheme(NamedTuple):
    """The rewards of the game, and its treatment of unusable numbers.

    right, wrong: rewards of "=" if the formula is 12 with both cards, and if not.
    unusable: reward of a number that is not on the cards or already used.
    longest: most symbols of a formula; with a limit, unusable numbers add a space. None for no
        limit and no spaces.
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
