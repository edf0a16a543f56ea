"""The drawings and the images put together from them."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.sokoban.sprites import image, sprites


def test_every_kind_looks_different():
    pictures = sprites()
    assert (pictures.shape, pictures.dtype) == ((7, 16, 16, 3), np.uint8)
    assert len({picture.tobytes() for picture in pictures}) == 7


@pytest.mark.parametrize(("one", "other"), [(1, 2), (3, 4), (5, 6), (2, 6), (4, 5), (0, 1)])
def test_kinds_differ_clearly(one, other):
    pictures = sprites().astype(int)
    differ = abs(pictures[one] - pictures[other]).max(axis=-1) > 40
    assert differ.mean() > 0.1  # of the pixels


def test_walls_join_without_a_seam():
    two = image(bytes(2), (1, 2), (1, 2))
    assert np.array_equal(two[:, 16:], two[:, :16])


def test_each_cell_has_its_place():
    picture = image(bytes([0, 1, 2, 3, 4, 5]), (2, 3), (2, 3))
    assert picture.shape == (32, 48, 3)
    for kind in range(6):
        row, column = divmod(kind, 3)
        cell = picture[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
        assert np.array_equal(cell, sprites()[kind])


def test_a_larger_canvas_is_walled():
    picture = image(bytes([1]), (1, 1), (2, 3))
    assert picture.shape == (32, 48, 3)
    assert np.array_equal(picture[:16, :16], sprites()[1])
    assert np.array_equal(picture[16:, 32:], sprites()[0])


def test_a_picture_is_the_callers_own():
    first = image(bytes(4), (2, 2), (2, 2))
    first[:] = 0
    assert image(bytes(4), (2, 2), (2, 2)).any()
