"""Rollouts of a report: aligned by state, the choice of what is shown, the cells."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.run.rollouts import align, choose_group

from .run_folders import episode

SEQUENCES = st.lists(st.text("abcde", min_size=1, max_size=8), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch):
    monkeypatch.setattr("trainer.run.curves.draw_credit", lambda *_: "")


@pytest.mark.parametrize(
    ("sequences", "rows"),
    [
        (["abc", "abc"], [[0, 1, 2], [0, 1, 2]]),
        (["abcd", "axd"], [[0, 1, 2, 3], [0, 1, 3]]),  # x is beside b, since nothing joins them
        (["ad", "abcd"], [[0, 3], [0, 1, 2, 3]]),  # the first waits for the others in d
        (["ab", "ba"], [[0, 1], [0, 1]]),  # both wait for the other, for one rollout each
        (["ab", "ba", "ca"], [[1, 2], [1, 2], [0, 1]]),  # a waits for c, and then is shared
        (["aab", "ab"], [[0, 1, 2], [0, 2]]),  # first visit with first visit
        (["xb", "yb", "zb"], [[0, 1]] * 3),
        (["a", "b"], [[0], [0]]),
    ],
)
def test_alignment_by_hand(sequences, rows):
    assert align(sequences) == rows


@given(SEQUENCES)
def test_rows_keep_the_order_of_turns_and_none_is_empty(sequences):
    rows = align(sequences)
    assert [len(one) for one in rows] == [len(one) for one in sequences]
    for one in rows:
        assert all(above < below for above, below in pairwise(one))
    used = {row for one in rows for row in one}
    assert used == set(range(max(used) + 1))


def test_the_group_of_both_outcomes_is_shown_with_its_own_credit():
    """The failure and the success are the same for five turns; the success has two more."""
    played = [
        *[episode(success=False, group=0)] * 2,
        episode(success=False, group=1),
        episode(success=True, group=1),
    ]
    group = choose_group(9, played, np.linspace(-1.0, 2.2, 22))  # 5 + 5 + 5 + 7 turns
    assert [one.success for one in group.rollouts] == [True, False]
    assert (group.step, group.size) == (9, 2)
    assert [[cell and cell.number for cell in row] for row in group.rows] == [
        [1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, None], [7, None],
    ]  # fmt: skip
    assert group.largest == pytest.approx(2.2)
    first, second = group.rows[0]
    assert (first.state, first.shared, second.state) == (1, 2, 1)
    assert [cell.state for cell in group.turns[0]] == [1, 1, 2, 3, 2, 3, 4]
    last = group.rows[6][0]
    assert last.shared == 1  # only the success was there
    assert (last.strength, last.decisive) == (pytest.approx(1.0), True)
    assert [cell.decisive for cell in group.turns[1]] == [False] * 4 + [True]


@pytest.mark.parametrize("credit", [None, np.zeros(7), np.full(7, 0.7)])
def test_without_or_with_equal_credit_no_turn_is_decisive(credit):
    (cells,) = choose_group(3, [episode(success=True)], credit).turns
    assert not any(cell.decisive for cell in cells)
    assert {cell.credit for cell in cells} == {None if credit is None else credit[0]}


def test_a_large_group_shows_its_ends():
    group = choose_group(1, [episode(success=n % 5 == 0) for n in range(20)], None)
    assert [one.success for one in group.rollouts] == [True] * 4 + [False] * 4
    assert group.size == 20
    assert group.largest is None
