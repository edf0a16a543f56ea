"""The image of EZPoints and Points: the cards and the formula on a green table, drawn with NumPy.

Cards, signs and the table are drawn once and cached; a frame is composed of copies of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from agent_envs.ezpoints.rules import Card, Hand

    Mask = NDArray[np.float64]
    Image = NDArray[np.uint8]

SIZE = 300
CARD_HEIGHT, CARD_WIDTH = 180, 124
CARD_TOP, CARD_LEFTS = 20, (18, 158)
GAP = 4  # of four cards of half the size in the place of two
STRIP_HEIGHT, STRIP_WIDTH = 60, 264
STRIP_TOP, STRIP_LEFT = 222, 18
SIGN_HEIGHT, SIGN_WIDTH = 36, 24
FITTING = (STRIP_WIDTH - 24) // SIGN_WIDTH - 1
"""How many signs of a formula are shown before the caret; a longer one shows its end."""
PEN = 0.5  # radius of the pen that writes signs
FINE = 4  # samples per side of a pixel for smooth edges

GREEN = 38, 110, 80
PAPER, EDGE = (252, 250, 244), (206, 200, 186)
RED, BLACK, BLUE = (196, 40, 48), (34, 36, 44), (44, 88, 168)
COLOURS = {"C": BLACK, "D": RED, "H": RED, "S": BLACK}

SIGNS = {
    "0": "10 30 41 45 36 16 05 01 10",
    "1": "11 20 26, 16 36",
    "2": "01 10 30 41 42 06 46",
    "3": "01 10 30 41 42 33 23, 33 44 45 36 16 05",
    "4": "36 30 04 44",
    "5": "40 00 03 12 32 43 45 36 16 05",
    "6": "41 30 10 01 05 16 36 45 44 33 13 04",
    "7": "00 40 16",
    "8": "13 04 05 16 36 45 44 33 13 02 01 10 30 41 42 33",
    "9": "05 16 36 45 41 30 10 01 02 13 33 42",
    "A": "06 20 46, 14 34",
    "J": "10 40, 30 35 26 16 05",
    "Q": "10 30 41 45 36 16 05 01 10, 24 46",
    "K": "00 06, 40 04, 22 46",
    "+": "03 43, 21 25",
    "*": "01 45, 41 05",
    "-": "03 43",
    "/": "06 40",
    "(": "30 11 15 36",
    ")": "10 31 35 16",
    "=": "02 42, 04 44",
    " ": "",
    "_": "06 46",
}
"""Our own letters: lines from point to point; a point is a column 0 to 4 and a row 0 to 6."""

# Sixths of the way down at which outer columns and middle column have pips; J, Q and K as COURT.
PIPS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "A": ((), (3,)),
    "2": ((), (0, 6)),
    "3": ((), (0, 3, 6)),
    "4": ((0, 6), ()),
    "5": ((0, 6), (3,)),
    "6": ((0, 3, 6), ()),
    "7": ((0, 3, 6), (1.5,)),
    "8": ((0, 3, 6), (1.5, 4.5)),
    "9": ((0, 2, 4, 6), (3,)),
    "10": ((0, 2, 4, 6), (1, 5)),
}
COURT = (), (0, 6)
MIDDLE = 3


def draw(hand: Hand, formula: str) -> Image:
    """The image of a hand and a formula: a new uint8 array [300, 300, 3]."""
    picture = _draw_table().copy()
    for place, card in enumerate(hand):
        face, (row, column) = _draw_face(card), divmod(place, 2)
        if len(hand) > len(CARD_LEFTS):
            face = face.reshape(CARD_HEIGHT // 2, 2, CARD_WIDTH // 2, 2, 3).mean(axis=(1, 3))
        height, width, _ = face.shape
        top, left = CARD_TOP + row * (height + GAP), CARD_LEFTS[column]
        picture[top : top + height, left : left + width] = face
    top = STRIP_TOP + (STRIP_HEIGHT - SIGN_HEIGHT) // 2
    for place, sign in enumerate(formula[-FITTING:] + "_"):
        left = STRIP_LEFT + 12 + place * SIGN_WIDTH
        picture[top : top + SIGN_HEIGHT, left : left + SIGN_WIDTH] = _draw_tile(sign)
    return picture


@cache
def _draw_table() -> Image:
    """The table with an empty strip for the formula."""
    table = np.full((SIZE, SIZE, 3), GREEN, np.float64)
    strip = _draw_rectangle(STRIP_HEIGHT, STRIP_WIDTH, 10)
    _paint(table, strip, STRIP_TOP, STRIP_LEFT, PAPER)
    return table.round().astype(np.uint8)


@cache
def _draw_tile(sign: str) -> Image:
    """A sign of the formula on the strip's paper."""
    tile = np.full((SIGN_HEIGHT, SIGN_WIDTH, 3), PAPER, np.float64)
    colour = GREEN if sign == "_" else BLACK
    _paint(tile, _draw_sign(sign, 28, 20), 4, 2, colour)
    return tile.round().astype(np.uint8)


@cache
def _draw_face(card: Card) -> Image:
    """A card on the table."""
    face = np.full((CARD_HEIGHT, CARD_WIDTH, 3), GREEN, np.float64)
    _paint(face, _draw_rectangle(CARD_HEIGHT, CARD_WIDTH, 11), 0, 0, EDGE)
    _paint(face, _draw_rectangle(CARD_HEIGHT - 2, CARD_WIDTH - 2, 10), 1, 1, PAPER)
    colour = COLOURS[card.suit]
    for half in (face, face[::-1, ::-1]):
        _paint_corner(half, card, colour)
    outer, middle = PIPS.get(card.rank, COURT)
    for x, rows in ((40, outer), (84, outer), (62, middle)):
        for sixths in rows:
            pip = _draw_suit(card.suit, 22)[:: 1 if sixths <= MIDDLE else -1]
            _paint(face, pip, round(20 + sixths * 19.7), x - 11, colour)
    if card.rank not in PIPS:
        _paint(face, _draw_sign(card.rank, 70, 50), 55, 37, BLUE)
    return face.round().astype(np.uint8)


def _paint_corner(face: Mask, card: Card, colour: Sequence[int]) -> None:
    """Rank and suit in the upper left corner."""
    width = 14 if len(card.rank) == 1 else 10
    for place, sign in enumerate(card.rank):
        _paint(face, _draw_sign(sign, 20, width), 8, 7 + place * (width + 1), colour)
    _paint(face, _draw_suit(card.suit, 14), 33, 8, colour)


def _paint(ground: Mask, mask: Mask, top: int, left: int, colour: Sequence[int]) -> None:
    """Lay a colour on the ground where the mask is 1, partly where it is less."""
    height, width = mask.shape
    part = ground[top : top + height, left : left + width]
    part += mask[..., None] * (np.array(colour) - part)


@cache
def _draw_sign(sign: str, height: int, width: int) -> Mask:
    """A letter of this size, drawn with a round pen one point wide."""
    y, x = _sample_grid(height, width)
    at = (x + 1) * 2.5 - 0.5 + 1j * ((y + 1) * 3.5 - 0.5)
    inked = np.zeros(at.shape, bool)
    for line in filter(None, SIGNS[sign].split(", ")):
        points = [complex(int(point[0]), int(point[1])) for point in line.split()]
        for start, end in pairwise(points):
            along = ((at - start) / (end - start)).real.clip(0, 1)
            inked |= abs(at - start - along * (end - start)) < PEN
    return _smooth_edges(inked)


@cache
def _draw_suit(suit: str, size: int) -> Mask:
    """A suit in a square."""
    y, x = _sample_grid(size, size)
    if suit == "D":
        return _smooth_edges(abs(x) / 0.74 + abs(y) / 0.98 < 1)
    if suit == "H":
        return _smooth_edges(_measure_heart(x, y) < 0)
    stem = np.maximum(abs(x) - 0.9 * (y - 0.45) ** 2 - 0.08, abs(y - 0.48) - 0.47)
    if suit == "S":
        return _smooth_edges(np.minimum(_measure_heart(x, -1.15 * y - 0.1), stem) < 0)
    leaves = np.minimum(np.hypot(x, y + 0.5), np.hypot(abs(x) - 0.5, y - 0.18)) - 0.44
    return _smooth_edges(np.minimum(np.minimum(leaves, np.hypot(x, y) - 0.25), stem) < 0)


def _measure_heart(x: Mask, y: Mask) -> Mask:
    """(x² + y² - 1)³ - x²y³, which is below 0 inside the heart curve, point downward."""
    x, y = 1.22 * x, 0.12 - 1.12 * y
    heart: Mask = (x**2 + y**2 - 1) ** 3 - x**2 * y**3
    return heart


@cache
def _draw_rectangle(height: int, width: int, radius: int) -> Mask:
    """A rectangle with rounded corners."""
    y, x = _sample_grid(height, width)
    beyond_y = abs(y) * height / 2 - (height / 2 - radius)
    beyond_x = abs(x) * width / 2 - (width / 2 - radius)
    return _smooth_edges(np.hypot(beyond_y.clip(0), beyond_x.clip(0)) < radius)


def _sample_grid(height: int, width: int) -> tuple[Mask, Mask]:
    """Coordinates of an image's samples, downward and rightward, each from -1 to 1."""
    y = (np.arange(height * FINE) + 0.5) / (height * FINE) * 2 - 1
    x = (np.arange(width * FINE) + 0.5) / (width * FINE) * 2 - 1
    return y[:, None], x


def _smooth_edges(fine: NDArray[np.bool_]) -> Mask:
    """The share of each pixel's samples that are set."""
    height, width = fine.shape[0] // FINE, fine.shape[1] // FINE
    shares: Mask = fine.reshape(height, FINE, width, FINE).mean(axis=(1, 3))
    return shares
