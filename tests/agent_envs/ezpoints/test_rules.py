"""Deals counted by hand, formulas against Python's arithmetic, solutions by trying."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.ezpoints.rules import (
    NUMBERS,
    SPLITS,
    VALUES,
    Card,
    Formula,
    deals,
    open_panel,
    read,
    solution,
)

# Of 12 first cards x 2 coins x 2 orders x 16 pairs of suits = 768 deals a first card has 64, and 32
# for each side of its coin where the coin matters (2, 3, 4, 6).
PAIRS = {
    (2, 10): 288,  # 2 by sum 32; 10, J, Q and K 4 x 64
    (3, 9): 96,  # 3 by sum 32; 9
    (4, 8): 96,  # 4 by sum 32; 8
    (5, 7): 128,  # 5; 7
    (6, 6): 32,  # 6 by sum 32
    (2, 6): 64,  # 2 by product 32; 6 by product 32
    (3, 4): 64,  # 3 by product 32; 4 by product 32
}


def numbers(hand):
    return tuple(VALUES[card.rank] for card in hand)


def pairs(split):
    hands = (deals()[task] for task in open_panel(split).task_ids)
    return Counter(tuple(sorted(numbers(hand))) for hand in hands)


def value(symbols):
    return reduce(read, symbols, Formula()).value


def python_value(formula):
    try:
        return eval(formula)  # noqa: S307 - the numbers and signs of this file
    except SyntaxError:
        return None


def test_deals_as_counted_by_hand():
    assert pairs("all") == PAIRS


@pytest.mark.parametrize(
    ("split", "share"), [("train", 12 / 16), ("val", 2 / 16), ("test", 2 / 16)]
)
def test_every_split_has_the_same_numbers(split, share):
    assert pairs(split) == {pair: count * share for pair, count in PAIRS.items()}


def test_ranks_of_tens():
    ranks = Counter(card.rank for hand in deals().values() for card in hand)
    # J, Q and K come as first cards only, 64 each; a 10 also beside the 2 by sum, 32.
    assert [ranks[rank] for rank in ("10", "J", "Q", "K")] == [96, 64, 64, 64]


def test_cards_are_swapped_half_the_time():
    hands = Counter(deals().values())
    assert hands == Counter(hand[::-1] for hand in deals().values())


def test_no_hand_is_in_two_splits():
    own = [{frozenset(deals()[task]) for task in open_panel(s).task_ids} for s in SPLITS[:3]]
    assert not any(a & b for a, b in itertools.combinations(own, 2))
    assert sum(len(open_panel(split)) for split in SPLITS[:3]) == len(open_panel("all")) == 768


@pytest.mark.parametrize(("split", "suits"), [("val", {"C", "H"}), ("test", {"D", "S"})])
def test_the_suits_that_are_held_out(split, suits):
    hands = [deals()[task] for task in open_panel(split).task_ids]
    assert all({card.suit for card in hand} == suits for hand in hands)


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="unknown split 'tain', did you mean 'train'"):
        open_panel("tain")


def test_names_of_a_card():
    assert (Card("10", "H").code, Card("10", "H").name) == ("10H", "10 of hearts")


@pytest.mark.parametrize(
    ("symbols", "worth"),
    [
        ("6", 6),
        ("3 * 4", 12),
        ("2 + 3 * 4", 14),  # 2 + 12
        ("2 * 3 + 4 * 5", 26),  # 6 + 20
        ("6 + + 6", 12),  # the second + is a sign
        ("+ 2 * + 6", 12),
        ("", None),
        ("6 +", None),
        ("* 6", None),
        ("6 6", None),
        ("2 * * 6", None),
    ],
)
def test_worked_values(symbols, worth):
    assert value(symbols.split()) == worth


@given(st.lists(st.sampled_from([*NUMBERS, "+", "*", " "]), max_size=30))
def test_values_are_pythons(symbols):
    # Blanks between keep numbers apart, and two * from being a power.
    assert value(symbols) == python_value(" ".join(symbols).strip())


@given(st.lists(st.lists(st.integers(1, 10), min_size=1), min_size=1))
def test_a_sum_is_worth_its_terms(terms):
    rows = [[symbol for number in term for symbol in ("*", str(number))][1:] for term in terms]
    whole = [symbol for row in rows for symbol in ("+", *row)]
    assert value(whole) == sum(map(value, rows))


@pytest.mark.parametrize("pair", PAIRS)
def test_what_python_takes_for_12_is_12(pair):
    # As written without blanks: numbers side by side run together and ** is a power.
    for symbols in itertools.product([*map(str, pair), "+", "*", " "], repeat=5):
        ours, theirs = value(symbols), python_value("".join(symbols).strip())
        assert ours == theirs if ours is not None else theirs != 12


def usable(symbols, pair):
    return not Counter(s for s in symbols if s.isdigit()) - Counter(map(str, pair))


def fewest(symbols, pair):
    """By trying: how many symbols more make it 12 of both cards, "=" among them; None if none."""
    for more in range(4):
        for rest in itertools.product({*map(str, pair), "+", "*"}, repeat=more):
            whole = (*symbols, *rest)
            used = sum(s.isdigit() for s in whole)
            if used == 2 and usable(whole, pair) and python_value(" ".join(whole)) == 12:
                return more + 1
    return None


@pytest.mark.parametrize("pair", PAIRS)
def test_solutions_are_the_shortest(pair):
    for length in range(4):
        for symbols in itertools.product(sorted({*map(str, pair), "+", "*"}), repeat=length):
            if not usable(symbols, pair):
                continue
            left = list(pair)
            for symbol in filter(str.isdigit, symbols):
                left.remove(int(symbol))
            way = solution(reduce(read, symbols, Formula()), tuple(left))
            assert len(way) == (fewest(symbols, pair) or 0)
            if way:
                assert value([*symbols, *way[:-1]]) == 12
