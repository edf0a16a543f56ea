"""Our own drawings of the cells, 16 by 16 pixels each, and the images composed of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Image = NDArray[np.uint8]

SIDE = 16
"""Pixels of a cell's side."""

_MORTAR, _BRICK = (66, 52, 48), (150, 82, 64)
_GROUND, _SPECK = (226, 218, 196), (206, 196, 170)
_RING = (206, 52, 70)
_WOOD, _BEAM = (190, 134, 66), (116, 74, 30)
_DONE, _DONE_BEAM = (96, 168, 84), (40, 96, 44)
_SKIN, _INK = (58, 104, 190), (16, 26, 52)


def draw_image(kinds: bytes, shape: tuple[int, int], canvas: tuple[int, int]) -> Image:
    """An image of `canvas` cells with a board of `shape` = (height, width); the rest is wall.

    Returns:
        uint8 [16 * canvas height, 16 * canvas width, 3].
    """
    board = np.frombuffer(kinds, np.uint8).reshape(shape)
    if shape != canvas:
        below, beside = canvas[0] - shape[0], canvas[1] - shape[1]
        board = np.pad(board, ((0, below), (0, beside)))
    rows, columns = SIDE * canvas[0], SIDE * canvas[1]
    return draw_sprites()[board].transpose(0, 2, 1, 3, 4).reshape(rows, columns, 3)


@cache
def draw_sprites() -> Image:
    """The drawing of each kind of cell, in their order: uint8 [7, 16, 16, 3]."""
    y, x = np.mgrid[:SIDE, :SIDE]
    radius, reach = np.hypot(y - 7.5, x - 7.5), np.maximum(abs(y - 7.5), abs(x - 7.5))
    courses = (x + y // 8 * 8) % SIDE  # two rows of bricks, the lower one shifted by half a brick
    joint = np.isin(y % 8, 7) | np.isin(courses, 7)
    speck = np.isin((7 * x + 11 * y) % 23, 0)
    ring = abs(radius - 6.6) < 1
    crate = np.ceil(reach) <= SIDE // 2 - 2
    beam = crate & (np.isin(np.ceil(reach), (5, 6)) | (abs(y - x) <= 1))
    head = np.floor(radius) < SIDE // 3
    eyes = np.isin(y, 6) & np.isin(x, (5, 10))
    mouth = np.isin(y, 10) & np.isin(x, (6, 7, 8, 9))

    def paint(*parts: tuple[NDArray[np.bool_], tuple[int, int, int]]) -> Image:
        picture = np.full((SIDE, SIDE, 3), _GROUND, np.uint8)
        for where, colour in parts:
            picture[where] = colour
        return picture

    floor, target = (speck, _SPECK), (ring, _RING)
    player = (head, _SKIN), (eyes | mouth, _INK)
    return np.stack(
        [
            paint((y >= 0, _BRICK), (joint, _MORTAR)),
            paint(floor),
            paint(floor, target),
            paint(floor, (crate, _DONE), (beam, _DONE_BEAM)),
            paint(floor, (crate, _WOOD), (beam, _BEAM)),
            paint(floor, *player),
            paint(floor, target, *player),
        ]
    )
