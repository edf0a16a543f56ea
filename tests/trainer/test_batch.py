"""Rows, microbatches and padded batches: every token once, every reply token where it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.learn.batch import collate, microbatches
from trainer.learn.rows import Row, make_rows, minibatches
from trainer.play.records import Episode, Step


def step(prompt, reply, allowed=None):
    return Step("", "", "", prompt, reply, [-float(t) for t in reply], allowed=allowed)


def episode(*steps, context="history"):
    return Episode("t", "g", 0, 0, context, list(steps))


TWO = episode(step([1, 2, 3], [4, 5]), step([6], [7]))


def test_a_trajectory_is_one_row_with_each_token_once_and_turns_count_over_all():
    (row,) = make_rows([TWO])
    assert row == Row([1, 2, 3, 4, 5, 6, 7], [3, 4, 6], [0, 0, 1], [-4.0, -5.0, -7.0])
    rows = make_rows([TWO, episode(step([8], [9])), TWO])
    assert [row.turn for row in rows] == [[0, 0, 1], [2], [3, 3, 4]]


def test_a_turn_is_one_row_where_each_has_its_own_prompt():
    turns = episode(step([1, 2], [3]), step([1, 4], [5, 6]), context="turn")
    assert make_rows([turns]) == [
        Row([1, 2, 3], [2], [0], [-3.0]),
        Row([1, 4, 5, 6], [2, 3], [1, 1], [-5.0, -6.0]),
    ]


def test_long_rows_keep_the_leading_turns_that_fit():
    assert make_rows([TWO], max_tokens=7)[0].ids == [1, 2, 3, 4, 5, 6, 7]
    assert make_rows([TWO], max_tokens=6) == [Row([1, 2, 3, 4, 5], [3, 4], [0, 0], [-4.0, -5.0])]
    assert make_rows([TWO, episode(step([8], [9]))], max_tokens=4)[0].turn == [2]
    # demonstrations have no recorded log-probabilities
    shown = episode(Step("", "", "", [1], [2, 3]))
    assert make_rows([shown])[0].logprobs == [0.0, 0.0]


def test_batches_point_at_the_positions_that_predict_the_reply():
    batch = collate(make_rows([TWO, episode(step([8], [9]))]))
    assert batch.ids.tolist() == [[1, 2, 3, 4, 5, 6, 7], [8, 9, 0, 0, 0, 0, 0]]
    assert batch.keep.int().tolist() == [[0, 0, 1, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0]]
    assert batch.target.tolist() == [4, 5, 7, 9]
    assert batch.turn.tolist() == [0, 0, 1, 2]
    assert batch.row.tolist() == [0, 0, 0, 1]
    assert batch.logprobs.tolist() == [-4, -5, -7, -9]
    assert batch.allowed is None


def test_allowed_tokens_become_pairs():
    free = episode(step([1], [2]))
    held = episode(step([1], [3, 4], allowed=[[3, 5], [4]]))
    batch = collate(make_rows([free, held]))
    assert batch.allowed.tolist() == [[1, 3], [1, 5], [2, 4]]


@given(lengths=st.lists(st.integers(1, 50), max_size=30), tokens=st.integers(1, 120))
def test_microbatches_hold_every_row_once_and_keep_to_the_budget(lengths, tokens):
    """In which padding counts; packed rows have none."""
    rows = [Row([0] * n, [n - 1], [0], [0.0]) for n in lengths]
    padded, packed = (list(microbatches(rows, tokens, packed=p)) for p in (False, True))
    for parts in (padded, packed):
        assert sorted(i for part in parts for i in part) == list(range(len(rows)))
    assert all(len(p) == 1 or len(p) * max(lengths[i] for i in p) <= tokens for p in padded)
    assert all(len(p) == 1 or sum(lengths[i] for i in p) <= tokens for p in packed)
    assert len(packed) <= len(padded)


def test_packed_rows_follow_each_other():
    rows = make_rows([TWO, episode(step([8], [9]))])
    batch = collate(rows, packed=True)
    assert batch.ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 5, 6, 0, 1]]
    assert batch.keep.int().tolist() == [[0, 0, 1, 1, 0, 1, 0, 1, 0]]
    assert batch.target.tolist() == [4, 5, 7, 9]
    assert batch.row.tolist() == [0, 0, 0, 1]
    assert collate(rows).positions is None


def test_microbatches_can_limit_reply_tokens():
    rows = [Row([0] * 9, list(range(1, n + 1)), [0] * n, [0.0] * n) for n in (2, 2, 8, 1, 1)]
    assert list(microbatches(rows, 100, replies=4)) == [[0, 1], [2], [3, 4]]


@pytest.mark.parametrize(
    ("count", "size", "parts"),
    [(257, 256, [129, 128]), (9, 8, [5, 4]), (16, 8, [8, 8]), (3, 0, [3]), (3, 9, [3]), (0, 4, [])],
)
def test_the_rows_of_an_epoch_are_divided_evenly(count, size, parts):
    """A remainder of one row would take a step as long as that of 256."""
    rng = np.random.default_rng(0)
    epochs = list(minibatches(range(count), size=size, epochs=2, rng=rng))
    assert [len(part) for part in epochs] == 2 * parts
    assert sorted(row for part in epochs[: len(parts)] for row in part) == [*range(count)]
    assert epochs[: len(parts)] != epochs[len(parts) :] or not parts
