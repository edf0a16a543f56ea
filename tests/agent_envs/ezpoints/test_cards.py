"""The picture: what it shows, and that a caller cannot spoil the next one."""

import numpy as np

from agent_envs.ezpoints.cards import FITTING, RED, draw
from agent_envs.ezpoints.rules import SUITS, SYMBOLS, VALUES, Card

HAND = Card("K", "S"), Card("2", "H")


def draw_face(card):
    return draw((card, HAND[1]), "")[20:200, 18:142].astype(int)


def count_pixels(picture, colour):
    return int((picture == colour).all(axis=-1).sum())


def test_a_picture_is_the_callers_own():
    first, kept = draw(HAND, "2+"), draw(HAND, "2+")
    first[:] = 0
    assert (first.shape, first.dtype) == ((300, 300, 3), np.uint8)
    assert np.array_equal(draw(HAND, "2+"), kept)


def test_every_card_and_every_formula_looks_different():
    deck = [Card(rank, suit) for rank in VALUES for suit in SUITS]
    assert len({draw_face(card).tobytes() for card in deck}) == 48
    formulas = (*SYMBOLS, " ", "", "2 ")  # the caret shows a trailing blank
    assert len({draw(HAND, formula).tobytes() for formula in formulas}) == 16


def test_the_hand_lies_in_its_order_and_the_formula_in_its_strip():
    empty, some, swapped = draw(HAND, ""), draw(HAND, "2+"), draw(HAND[::-1], "")
    changed = np.flatnonzero((empty != some).any(axis=(1, 2)))
    assert changed.min() >= 222
    assert changed.max() < 282
    assert count_pixels(empty[:, :150], RED) == count_pixels(swapped[:, 150:], RED) == 0


def test_of_a_long_formula_the_end_is_shown():
    long = "+" * 50 + "2*6" * 4
    assert np.array_equal(draw(HAND, long), draw(HAND, long[-FITTING:]))
    assert not np.array_equal(draw(HAND, long), draw(HAND, long + "="))
