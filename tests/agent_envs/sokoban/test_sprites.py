"""The drawings and the images put together from them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from agent_envs.sokoban.sprites import draw_image, draw_sprites


def test_kinds_differ_clearly():
    pictures = draw_sprites().astype(int)
    assert pictures.shape == (7, 16, 16, 3)
    for one, other in combinations(pictures, 2):
        assert (abs(one - other).max(axis=-1) > 40).mean() > 0.1  # of the pixels


def test_each_cell_has_its_place():
    picture = draw_image(bytes([0, 1, 2, 3, 4, 5]), (2, 3), (2, 3))
    assert (picture.shape, picture.dtype) == ((32, 48, 3), np.uint8)
    for kind in range(6):
        row, column = divmod(kind, 3)
        cell = picture[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
        assert np.array_equal(cell, draw_sprites()[kind])


def test_a_larger_canvas_is_walled():
    picture = draw_image(bytes([1]), (1, 1), (2, 3))
    assert picture.shape == (32, 48, 3)
    assert np.array_equal(picture[:16, :16], draw_sprites()[1])
    assert np.array_equal(picture[16:, 32:], draw_sprites()[0])


def test_a_picture_is_the_callers_own():
    draw_image(bytes(4), (2, 2), (2, 2))[:] = 0
    assert draw_image(bytes(4), (2, 2), (2, 2)).any()
