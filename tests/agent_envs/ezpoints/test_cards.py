"""The picture: what it shows, and that a caller cannot spoil the next one."""

import numpy as np
import pytest

from agent_envs.ezpoints.cards import BLACK, FITTING, RED, draw
from agent_envs.ezpoints.rules import POINTS, SUITS, VALUES, Card

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
    assert len({draw_face(card).tobytes() for card in deck}) == 52
    formulas = (*POINTS.symbols, " ", "", "2 ")  # the caret shows a trailing blank
    assert len({draw(HAND, formula).tobytes() for formula in formulas}) == 20


def test_four_cards_lie_in_two_rows():
    picture = draw((Card("K", "S"),) * 4, "").astype(int)
    assert np.array_equal(picture[20:110, 18:80], picture[114:204, 158:220])
    assert count_pixels(draw((*HAND, *HAND), "")[:, :150], RED) == 0  # hearts are on the right


@pytest.mark.parametrize(("suit", "colour"), [("C", BLACK), ("D", RED), ("H", RED), ("S", BLACK)])
def test_a_rank_has_so_many_pips_in_the_colour_of_its_suit(suit, colour):
    # Beside the corners, whose ink differs with the rank's letters: the columns from 29 to 95.
    faces = [draw_face(Card(str(n), suit))[:, 29:95] for n in range(2, 11)]
    ink = [count_pixels(face, colour) for face in faces]
    assert ink[0] > 0
    assert np.array(ink) / np.arange(2, 11) == pytest.approx(ink[0] / 2, rel=0.05)


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
