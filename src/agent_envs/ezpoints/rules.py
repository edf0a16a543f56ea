"""The rules of EZPoints and Points: deals, values of formulas, solutions and rewards.

Turns and signals are in `env`, the image in `cards`. All arithmetic is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import combinations, combinations_with_replacement, product
from typing import NamedTuple, TypeVar

import numpy as np

from agent_envs.panels import Panel, one_of

NUMBERS = {str(n): n for n in range(1, 11)}
VALUES = {"A": 1} | {str(n): n for n in range(2, 11)} | dict.fromkeys("JQK", 10)
SUITS = {"C": "clubs", "D": "diamonds", "H": "hearts", "S": "spades"}
SPLITS = ("train", "val", "test", "all")
DEALS = 4
"""Deals of each hand of numbers in Points."""
PRIME = 2**61 - 1
"""Values are residues modulo this prime. Numerators and denominators of formulas of the cards are
far below its root, so equal residues are equal values, and only 0 has the residue 0."""
SHARE = 10
"""Every how many hands of numbers of Points one is in `val`, and one in `test`."""


class Card(NamedTuple):
    """A card: its rank as printed, a key of `VALUES`, and a letter of `SUITS`."""

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


Hand = tuple[Card, ...]
Key = TypeVar("Key")
Numbers = tuple[int, ...]
"""Numbers of cards."""
Way = tuple[str, ...]
"""Symbols to append to a formula."""


class Game(NamedTuple):
    """What differs between the games.

    target, signs: of their formulas. whole: what a formula must use.
    turns: turn limit. longest: most symbols of a formula with "rl4vlm".
    """

    target: int
    signs: str
    whole: str
    turns: int
    longest: int

    @property
    def symbols(self) -> Way:
        """All symbols of a formula, and "="."""
        return (*NUMBERS, *self.signs, "=")


EZPOINTS = Game(12, "+*", "both cards", turns=8, longest=6)
POINTS = Game(24, "+-*/()", "all cards", turns=24, longest=21)


@cache
def list_deals() -> dict[str, Hand]:
    """The 304 deals of EZPoints by id, each once.

    The first card is any from 2 to king, with value v. The second has the value 12 - v or, if that
    is an integer, 12 / v. Suits and order are arbitrary.
    """
    hands = dict[Hand, None]()
    target = EZPOINTS.target
    for rank, by_product in product([rank for rank in VALUES if rank != "A"], (False, True)):
        value = VALUES[rank]
        second = target // value if by_product and target % value == 0 else target - value
        for one, other in product(SUITS, repeat=2):
            hand = Card(rank, one), Card(str(second), other)
            hands |= dict.fromkeys((hand, hand[::-1]))
    return {f"{i:03}-{a.code}-{b.code}": (a, b) for i, (a, b) in enumerate(hands)}


@cache
def list_hands() -> dict[str, list[Numbers]]:
    """The numbers of four cards that can make 24, by split; no two splits share any."""
    hands = combinations_with_replacement(NUMBERS.values(), 4)
    good: list[Numbers] = [hand for hand in hands if _can_make(hand, POINTS)]
    good.sort(key=lambda hand: blake2b(repr(hand).encode(), digest_size=8).digest())
    part = len(good) // SHARE
    return {"test": good[:part], "val": good[part : 2 * part], "train": good[2 * part :]}


@cache
def list_points(split: str) -> dict[str, Hand]:
    """The deals of Points in a split by id, "<numbers>/<deal>", the same on every machine.

    Order, suits and which card counts 10 are drawn from a generator whose seed is the numbers.
    """
    hands, known = list_hands(), [*VALUES.items()]
    deals: dict[str, Hand] = {}
    for numbers in sorted(hand for own in hands if split in ("all", own) for hand in hands[own]):
        rng = np.random.default_rng(numbers)
        ranks = {number: [rank for rank, value in known if value == number] for number in numbers}
        own = dict[Hand, None]()
        while len(own) < DEALS:
            drawn = [ranks[n][rng.integers(len(ranks[n]))] for n in rng.permutation(numbers)]
            own[tuple(Card(rank, "CDHS"[rng.integers(4)]) for rank in drawn)] = None
        deals |= {f"{'-'.join(map(str, numbers))}/{deal}": hand for deal, hand in enumerate(own)}
    return deals


@cache
def open_panel(split: str) -> Panel:
    """The deals of EZPoints, by suits, so that all splits have the same distribution of numbers.

    Raises:
        ValueError: no such split.
    """
    one_of("split", split, SPLITS)
    own = (task for task, hand in list_deals().items() if split in ("all", _find_split(hand)))
    return Panel(split, tuple(own))


@cache
def open_points(split: str) -> Panel:
    """The deals of Points, by numbers, which are their origins.

    Raises:
        ValueError: no such split.
    """
    one_of("split", split, SPLITS)
    origins = {task: task.partition("/")[0] for task in list_points(split)}
    return Panel(split, tuple(origins), origins=origins)


def _find_split(hand: Hand) -> str:
    suits = {card.suit for card in hand}
    return "val" if suits <= {"C", "H"} else "test" if suits <= {"D", "S"} else "train"


class Frame(NamedTuple):
    """A formula, or what follows an open parenthesis, read from the left.

    total: sum of the terms before the current one.
    term: product of the current term so far, with its sign.
    divides: whether the next factor divides it.
    """

    total: int = 0
    term: int = 1
    divides: bool = False

    @property
    def value(self) -> int:
        """The value of what is complete."""
        return (self.total + self.term) % PRIME

    def take(self, factor: int) -> Frame | None:
        """The frame after a factor; None for a division by 0."""
        if self.divides:
            if not factor:
                return None
            factor = _invert(factor)
        return Frame(self.total, self.term * factor % PRIME)


START = Frame()
_UNITS = 1, PRIME - 1


class Formula(NamedTuple):
    """The state of a formula: a frame for each open parenthesis within it, the innermost last.

    ended: whether it ends in a number or a closed parenthesis.
    sound: whether it is the beginning of a valid formula. As in Python, `+` and `-` may be signs
        before a factor, and spaces between symbols are ignored. Adjacent numbers, `**` and `//` are
        none.
    """

    frames: tuple[Frame, ...] = (START,)
    ended: bool = False
    sound: bool = True

    @property
    def value(self) -> int | None:
        """The value, None if the formula is not complete."""
        complete = self.ended and self.sound and len(self.frames) == 1
        return self.frames[0].value if complete else None


UNSOUND = Formula(sound=False)


@lru_cache(maxsize=200_000)
def append_symbol(formula: Formula, symbol: str) -> Formula:
    """The formula with one more symbol: a number, a sign other than "=", or a space."""
    (*outer, frame), ended, sound = formula
    if symbol == " " or not sound:
        return formula
    after: Frame | None = None
    if symbol in {"+", "-"}:
        sign = 1 if symbol == "+" else PRIME - 1
        changed = frame._replace(term=sign * frame.term % PRIME)
        return Formula((*outer, Frame(frame.value, sign) if ended else changed))
    if symbol == "(" and not ended:
        return Formula((*outer, frame, START))
    if symbol in {"*", "/"} and ended:
        return Formula((*outer, frame._replace(divides=symbol == "/")))
    if symbol == ")" and ended and outer:
        after = outer.pop().take(frame.value)
    elif symbol in NUMBERS and not ended:
        after = frame.take(NUMBERS[symbol])
    return Formula((*outer, after), ended=True) if after else UNSOUND


def remove_number(numbers: Numbers, used: int) -> Numbers:
    """The numbers without one occurrence of `used`, which must be among them."""
    place = numbers.index(used)
    return numbers[:place] + numbers[place + 1 :]


@lru_cache(maxsize=200_000)
def find_solution(formula: Formula, left: Numbers, game: Game) -> Way:
    """The fewest symbols that make it the target with the numbers left, then "="; () if none do."""
    if not formula.sound:
        return ()
    *outer, frame = formula.frames
    states = {(frame, left): Way()}
    ended = formula.ended
    for around in reversed(outer):
        states = _keep_shortest(
            ((after, rest), (*before, *way, *last, ")"))
            for (inner, numbers), before in states.items()
            for term, way, others in _end_term(inner, numbers, game.signs, ended=ended)
            for part, rest in _divide(others)
            for summand, last in _make_sums(part, game.signs).items()
            if (after := around.take((inner.total + term + summand) % PRIME))
        )
        ended = True
    best, least = Way(), {key: len(way) + 2 * len(key[1]) + ended for key, way in states.items()}
    for inner, numbers in sorted(states, key=least.__getitem__):
        if best and least[inner, numbers] >= len(best):
            break
        for term, way, rest in _end_term(inner, numbers, game.signs, ended=ended):
            missing = (game.target - inner.total - term) % PRIME
            last = _make_sums(rest, game.signs).get(missing)
            if last is not None:
                whole = (*states[inner, numbers], *way, *last, "=")
                best = min(best or whole, whole, key=len)
                if len(best) == least[inner, numbers]:
                    break
    return best


def _end_term(
    frame: Frame, numbers: Numbers, signs: str, *, ended: bool
) -> Iterator[tuple[int, Way, Numbers]]:
    """Values of the current term at its end, ways to them, and the numbers that are left.

    Only here a sign before a factor can be needed; elsewhere, exchanged "+" and "-" are shorter.
    """
    heads: Iterable[tuple[Frame, Way, Numbers]] = [(frame, (), numbers)]
    if not ended:
        heads = (
            (after, way, rest)
            for part, rest in _divide(numbers)
            if part and (rest or len(part) == 1 or frame.divides or frame.term not in _UNITS)
            for value, way in _make_operands(part, signs).items()
            if (after := frame.take(value))
        )
    for head, before, others in heads:
        for part, rest in _divide(others):
            for factor, last in _make_factors(part, signs).items():
                way = before + last
                yield head.term * factor % PRIME, way, rest
                if way and "-" in signs:
                    signed = (*way[:ended], "-", *way[ended:])
                    yield -head.term * factor % PRIME, signed, rest


@cache
def _make_operands(numbers: Numbers, signs: str) -> dict[int, Way]:
    """A way to each value of a number, or of a parenthesis with all numbers."""
    if len(numbers) == 1:
        return {numbers[0]: (str(numbers[0]),)}
    if "(" not in signs:
        return {}
    return _keep_shortest(
        ((value + summand) % PRIME, ("(", *way, *last, ")"))
        for part, rest in _divide(numbers)
        for value, way in _make_terms(part, signs).items()
        for summand, last in _make_sums(rest, signs).items()
    )


@cache
def _make_terms(numbers: Numbers, signs: str) -> dict[int, Way]:
    """A way to each value of one term of all numbers, unless it is a parenthesis."""
    return _keep_shortest(
        (value * factor % PRIME, way + last)
        for part, rest in _divide(numbers)
        if part and (rest or len(part) == 1)
        for value, way in _make_operands(part, signs).items()
        for factor, last in _make_factors(rest, signs).items()
    )


@cache
def _make_factors(numbers: Numbers, signs: str) -> dict[int, Way]:
    """A way to each value of factors of all numbers, which start with "*" or "/"."""
    if not numbers:
        return {1: ()}
    return _keep_shortest(
        ((_invert(value) if sign == "/" else value) * factor % PRIME, (sign, *way, *last))
        for part, rest in _divide(numbers)
        if part
        for value, way in _make_operands(part, signs).items()
        for sign in "*/"
        if sign in signs and (value or sign == "*")
        for factor, last in _make_factors(rest, signs).items()
    )


@cache
def _make_sums(numbers: Numbers, signs: str) -> dict[int, Way]:
    """A way to each value of terms of all numbers, which start with "+" or "-"."""
    if not numbers:
        return {0: ()}
    return _keep_shortest(
        (((value if sign == "+" else -value) + summand) % PRIME, (sign, *way, *last))
        for part, rest in _divide(numbers)
        if part
        for value, way in _make_terms(part, signs).items()
        for sign in "+-"
        if sign in signs
        for summand, last in _make_sums(rest, signs).items()
    )


def _can_make(numbers: Numbers, game: Game) -> bool:
    """Whether some formula of all numbers has the value of the target, by its last operation."""
    target = game.target
    return any(
        needed in _make_operands(part, game.signs)
        for part, rest in _divide(numbers)
        if len(part) >= len(rest) > 0
        for value in _make_operands(rest, game.signs)
        for needed in (
            (target - value) % PRIME,
            (target + value) % PRIME,
            (value - target) % PRIME,
            *((target * _invert(value) % PRIME, target * value % PRIME) if value else ()),
            *((value * _invert(target) % PRIME,) if value else ()),
        )
    )


@cache
def _invert(value: int) -> int:
    return pow(value, -1, PRIME)


@cache
def _divide(numbers: Numbers) -> tuple[tuple[Numbers, Numbers], ...]:
    """All divisions of the numbers in two parts, which may be empty, each once."""
    places = range(len(numbers))
    chosen = [set(some) for size in range(len(numbers) + 1) for some in combinations(places, size)]
    return tuple(
        dict.fromkeys(
            (
                tuple(numbers[p] for p in places if p in some),
                tuple(numbers[p] for p in places if p not in some),
            )
            for some in chosen
        )
    )


def _keep_shortest(ways: Iterable[tuple[Key, Way]]) -> dict[Key, Way]:
    best: dict[Key, Way] = {}
    for value, way in ways:
        if value not in best or len(way) < len(best[value]):
            best[value] = way
    return best


class Scheme(NamedTuple):
    """The rewards of the game, and its treatment of unusable numbers.

    right, wrong: rewards of "=" if the formula has the target with all cards, and if not.
    unusable: reward of a number that is not on the cards or already used.
    is_bounded: whether formulas have a most of symbols; then unusable numbers add a space.
    """

    right: float
    wrong: float = 0.0
    unusable: float = 0.0
    is_bounded: bool = False


SCHEMES = {
    "success": Scheme(right=1.0),
    "verl-agent": Scheme(right=10.0),
    "rl4vlm": Scheme(right=10.0, wrong=-1.0, unusable=-1.0, is_bounded=True),
}
