"""The picture: what it shows, and that a caller cannot spoil the next one."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.ezpoints.cards import BLACK, COLOURS, FITTING, RED, SIGNS, draw
from agent_envs.ezpoints.rules import SUITS, SYMBOLS, VALUES, Card

HAND = Card("K", "S"), Card("2", "H")
STRIP = slice(222, 282)  # the rows of the formula


def face(card):
    return draw((card, HAND[1]), "")[20:200, 18:142].astype(int)


def coloured(picture, colour):
    return int((picture == colour).all(axis=-1).sum())


def test_a_picture_is_the_callers_own():
    first, kept = draw(HAND, "2+"), draw(HAND, "2+")
    first[:] = 0
    assert (first.shape, first.dtype) == ((300, 300, 3), np.uint8)
    assert np.array_equal(draw(HAND, "2+"), kept)


def test_every_card_looks_different():
    deck = [Card(rank, suit) for rank in VALUES for suit in SUITS]
    assert len({face(card).tobytes() for card in deck}) == 48


@pytest.mark.parametrize("suit", SUITS)
def test_a_rank_has_so_many_pips(suit):
    # Beside the corners, whose ink differs with the rank's letters: the columns from 29 to 95.
    ink = [coloured(face(Card(str(n), suit))[:, 29:95], COLOURS[suit]) for n in range(2, 11)]
    assert np.array(ink) / np.arange(2, 11) == pytest.approx(ink[0] / 2, rel=0.05)


@pytest.mark.parametrize("rank", ["2", "4", "10"])
def test_a_card_turned_round_is_the_same(rank):
    card = face(Card(rank, "S"))
    assert np.array_equal(card, card[::-1, ::-1])


def test_the_formula_is_shown_in_the_strip_alone():
    empty, some = draw(HAND, ""), draw(HAND, "2+")
    changed = np.flatnonzero((empty != some).any(axis=(1, 2)))
    assert changed.min() >= STRIP.start
    assert changed.max() < STRIP.stop


def test_every_symbol_looks_different():
    shown = {draw(HAND, sign).tobytes() for sign in (*SYMBOLS, " ")}
    assert len(shown) == 14


def test_blanks_show_by_the_caret():
    assert not np.array_equal(draw(HAND, "2"), draw(HAND, "2 "))


def test_of_a_long_formula_the_end_is_shown():
    long = "+" * 50 + "2*6" * 4
    assert np.array_equal(draw(HAND, long), draw(HAND, long[-FITTING:]))
    assert not np.array_equal(draw(HAND, long), draw(HAND, long + "="))


def test_signs_stay_on_their_grid():
    points = [p for sign in SIGNS.values() for p in sign.replace(",", "").split()]
    assert {p[0] for p in points} <= set("01234")
    assert {p[1] for p in points} <= set("0123456")


@pytest.mark.parametrize(("suit", "red"), [("C", False), ("D", True), ("H", True), ("S", False)])
def test_hearts_and_diamonds_are_red(suit, red):
    picture = draw((Card("2", suit), Card("10", suit)), "")
    assert (coloured(picture, RED) > 0, coloured(picture, BLACK) > 0) == (red, not red)
