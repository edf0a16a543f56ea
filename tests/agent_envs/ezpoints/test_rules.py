"""Deals counted by hand, formulas against Python's arithmetic, solutions by trying."""

import itertools
import random
from collections import Counter
from fractions import Fraction
from functools import reduce

import pytest

from agent_envs.ezpoints.rules import (
    EZPOINTS,
    NUMBERS,
    POINTS,
    PRIME,
    SPLITS,
    VALUES,
    Formula,
    append_symbol,
    find_solution,
    list_deals,
    list_hands,
    list_points,
    open_panel,
    open_points,
    remove_number,
)

# A pair of ranks has 2 orders x 16 pairs of suits = 32 deals, two sixes 16; four ranks count 10.
PAIRS = {(2, 10): 128, (6, 6): 16} | dict.fromkeys([(3, 9), (4, 8), (5, 7), (2, 6), (3, 4)], 32)


def count_pairs(split):
    hands = (list_deals()[task] for task in open_panel(split).task_ids)
    return Counter(tuple(sorted(VALUES[card.rank] for card in hand)) for hand in hands)


def evaluate(symbols):
    return reduce(append_symbol, symbols, Formula()).value


def evaluate_python(formula):
    try:
        return eval(formula)  # noqa: S307 - the numbers and signs of this file
    except SyntaxError:
        return None


@pytest.mark.parametrize(
    ("split", "share"), [("all", 1), ("train", 1 / 2), ("val", 1 / 4), ("test", 1 / 4)]
)
def test_deals_as_counted_by_hand_in_every_split(split, share):
    assert count_pairs(split) == {pair: count * share for pair, count in PAIRS.items()}
    hands = {*list_deals().values()}
    assert len(hands) == len(list_deals())  # no deal is there twice
    assert hands == {hand[::-1] for hand in hands}


def test_no_hand_is_in_two_splits():
    own = [{frozenset(list_deals()[task]) for task in open_panel(s).task_ids} for s in SPLITS[:3]]
    assert not any(a & b for a, b in itertools.combinations(own, 2))
    assert sum(len(open_panel(split)) for split in SPLITS[:3]) == len(open_panel("all")) == 304
    for split, suits in (("val", {"C", "H"}), ("test", {"D", "S"})):
        hands = [list_deals()[task] for task in open_panel(split).task_ids]
        assert all({card.suit for card in hand} <= suits for hand in hands)


@pytest.mark.parametrize("pair", PAIRS)
def test_what_python_takes_for_12_is_12(pair):
    # As written without blanks: numbers side by side run together and ** is a power.
    for symbols in itertools.product([*map(str, pair), "+", "*", " "], repeat=5):
        ours, theirs = evaluate(symbols), evaluate_python("".join(symbols).strip())
        assert ours == theirs if ours is not None else theirs != 12


def is_usable(symbols, pair):
    return not Counter(s for s in symbols if s.isdigit()) - Counter(map(str, pair))


def count_by_trying(symbols, pair):
    """How many symbols more make it 12 of both cards, "=" among them; 0 if none do."""
    for more in range(4):
        for rest in itertools.product({*map(str, pair), "+", "*"}, repeat=more):
            whole = (*symbols, *rest)
            used = sum(s.isdigit() for s in whole)
            if used == 2 and is_usable(whole, pair) and evaluate_python(" ".join(whole)) == 12:
                return more + 1
    return 0


@pytest.mark.parametrize("pair", PAIRS)
def test_solutions_are_the_shortest(pair):
    for length in range(4):
        for symbols in itertools.product(sorted({*map(str, pair), "+", "*"}), repeat=length):
            if not is_usable(symbols, pair):
                continue
            left = list(pair)
            for symbol in filter(str.isdigit, symbols):
                left.remove(int(symbol))
            way = find_solution(reduce(append_symbol, symbols, Formula()), tuple(left), EZPOINTS)
            assert len(way) == count_by_trying(symbols, pair)
            if way:
                assert evaluate([*symbols, *way[:-1]]) == 12


def test_hands_of_points_are_disjoint_and_can_be_solved():
    hands = list_hands()
    sizes = {split: len(found) for split, found in hands.items()}
    assert sizes == {"train": 454, "val": 56, "test": 56}  # 566 of 715 sets, as is well known
    assert len(set(itertools.chain(*hands.values()))) == 566
    for hand in hands["test"]:
        assert evaluate_exactly(find_solution(Formula(), hand, POINTS)[:-1]) == 24
    for split, found in hands.items():
        for task, cards in list_points(split).items():
            numbers = sorted(VALUES[card.rank] for card in cards)
            assert tuple(numbers) in found
            assert open_points(split).origins[task] == "-".join(map(str, numbers))


def evaluate_exactly(symbols):
    """Python's value of a formula in fractions, None if it has none or uses other operators."""
    spaced = " ".join(f"Fraction({s})" if s.isdigit() else s for s in symbols)
    if "* *" in spaced or "/ /" in spaced or ") (" in spaced or ") Fraction" in spaced:
        return None
    try:
        return eval(spaced.replace("( )", "!"), {"Fraction": Fraction})  # noqa: S307
    except (SyntaxError, ZeroDivisionError, TypeError):
        return None


def read(symbols):
    return reduce(append_symbol, symbols, Formula())


def test_values_are_those_of_python_in_fractions():
    rng = random.Random(1)
    agreed = 0
    for _ in range(20_000):
        symbols = rng.choices(["1", "3", "8", *POINTS.signs], k=rng.randint(1, 7))
        ours, theirs = read(symbols).value, evaluate_exactly(symbols)
        if theirs is None:
            assert ours is None, symbols
        else:
            agreed += 1
            assert ours * theirs.denominator % PRIME == theirs.numerator % PRIME, symbols
    assert agreed > 300


def search(symbols, left):
    """Fewest symbols to 24 by breadth, "=" among them; 0 if there are none of up to 9."""
    states = {(read(symbols), left)}
    for length in range(1, 10):
        if any(not rest and formula.value == 24 for formula, rest in states):
            return length
        states = {
            (after, remove_number(rest, NUMBERS[symbol]) if symbol in NUMBERS else rest)
            for formula, rest in states
            for symbol in (*map(str, set(rest)), *POINTS.signs)
            if (after := append_symbol(formula, symbol)).sound and len(after.frames) <= length + 1
        }
    return 0


@pytest.mark.parametrize(
    ("symbols", "left"),
    [
        ("3 * (", (2, 10)),
        ("3 * ( 2 - 10 )", (1,)),  # only *-1 or /-1 helps
        ("3 * ( 2 -", (1, 10)),
        ("8 / ( 3 - 8 /", (3,)),
        ("( ( 10", (2, 4)),
        ("6 / ( 1 -", (3, 4)),
        ("-", (4, 6)),
        ("10 * 2 +", (4,)),
        ("10 * 10 +", (1,)),
        ("5 / ( 1 - 1", (2,)),
        ("", (3, 8)),
        ("", (1, 8)),
    ],
)
def test_solutions_of_points_are_the_shortest(symbols, left):
    before = symbols.split()
    way = find_solution(read(before), left, POINTS)
    assert len(way) == search(before, left)
    if way:
        assert evaluate_exactly([*before, *way[:-1]]) == 24
