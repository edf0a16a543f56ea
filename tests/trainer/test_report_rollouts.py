"""Episodes of a report: rollouts aligned by state, shades, the choice of what is shown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.run import rollouts_page as rollouts
from trainer.run.rollouts_page import align

from .run_folders import episode

SEQUENCES = st.lists(st.text("abcde", min_size=1, max_size=8), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("sequences", "rows"),
    [
        (["abc", "abc"], [[0, 1, 2], [0, 1, 2]]),
        (["abcd", "axd"], [[0, 1, 2, 3], [0, 1, 3]]),  # x is beside b, since nothing joins them
        (["ad", "abcd"], [[0, 3], [0, 1, 2, 3]]),  # the first waits for the others in d
        (["ab", "ba"], [[1, 2], [0, 1]]),  # either a or b can be matched, not both
        (["aab", "ab"], [[0, 1, 2], [0, 2]]),  # first visit with first visit
        (["xb", "yb", "zb"], [[0, 1]] * 3),
        (["a", "b"], [[0], [0]]),
    ],
)
def test_alignment_by_hand(sequences, rows):
    assert align(sequences) == rows


@given(SEQUENCES)
def test_rows_keep_the_order_of_turns(sequences):
    rows = align(sequences)
    assert [len(one) for one in rows] == [len(one) for one in sequences]
    for one in rows:
        assert all(above < below for above, below in pairwise(one))


@given(st.text("abc", min_size=1, max_size=8), st.integers(1, 4))
def test_equal_rollouts_share_every_row(anchors, count):
    assert align([anchors] * count) == [list(range(len(anchors)))] * count


@given(SEQUENCES)
def test_no_row_is_empty(sequences):
    used = {row for one in align(sequences) for row in one}
    assert used == set(range(max(used) + 1))


def test_shades_are_relative_to_the_largest_and_mark_it():
    one, two, none = rollouts.shades(np.array([0.5, -1.0, 0.0]) * 2)
    assert [one.strength, two.strength, none.strength] == [0.5, -1.0, 0.0]
    assert [one.decisive, two.decisive, none.decisive] == [False, True, False]
    assert [cell.strength for cell in rollouts.shades(np.array([1.0, -2.0]), 4.0)] == [0.25, -0.5]


def test_equal_credit_has_no_decisive_turn():
    assert not any(cell.decisive for cell in rollouts.shades(np.full(4, 0.7)))
    assert not any(cell.decisive for cell in rollouts.shades(np.zeros(3)))


def test_samples_show_both_ends_of_one_group():
    played = [
        episode(success=False, group=0),
        episode(success=False, group=1),
        episode(success=True, group=1),
    ]
    credit = np.arange(17.0)  # turns: 5 + 5 + 7
    shown = rollouts.samples(3, played, credit, (True, False))
    assert [(s.episode.group, s.episode.success) for s in shown] == [(1, True), (1, False)]
    assert [turn.shade.credit for turn in shown[0].turns] == [10, 11, 12, 13, 14, 15, 16]
    assert [turn.shade.credit for turn in shown[1].turns] == [5, 6, 7, 8, 9]


def test_samples_without_credit_are_not_shaded():
    (only,) = rollouts.samples(3, [episode(success=True)], None, (True, False))
    assert {turn.shade.credit for turn in only.turns} == {None}
    assert [turn.state for turn in only.turns] == [1, 1, 2, 3, 2, 3, 4]
    assert [turn.again for turn in only.turns] == [False, True, False, False, True, True, False]


def test_a_group_side_by_side():
    """The failure and the success are the same for five turns; the success has two more."""
    played = [
        *[episode(success=False, group=0)] * 2,
        episode(success=False, group=1),
        episode(success=True, group=1),
    ]
    view = rollouts.group_view(9, played, np.linspace(-1.0, 2.2, 22))  # 5 + 5 + 5 + 7 turns
    assert [one.success for one in view.rollouts] == [True, False]
    assert (view.numbers, view.size, view.last, view.more) == ([2, 1], 2, [6, 4], 0)
    assert [[cell and cell.number for cell in row] for row in view.rows] == [
        [1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, None], [7, None], [None, None],
    ]  # fmt: skip
    assert view.largest == pytest.approx(2.2)
    first, second = view.rows[0]
    assert (first.state, first.shared, second.state) == (1, 2, 1)
    assert view.rows[6][0].shared == 1  # only the success was there
    assert view.rows[6][0].shade.strength == pytest.approx(1.0)


def test_groups_of_one_rollout_are_not_compared():
    played = [episode(success=True, group=0), episode(success=False, group=1)]
    assert rollouts.group_view(1, played, None) is None


def test_a_large_group_shows_its_ends():
    played = [episode(success=n % 5 == 0) for n in range(20)]
    view = rollouts.group_view(1, played, None)
    assert [one.success for one in view.rollouts] == [True] * 4 + [False] * 4
    assert view.size == 20
    assert view.largest is None
