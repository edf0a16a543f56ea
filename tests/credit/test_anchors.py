"""Anchor states: similarity equals that of difflib bit for bit."""

from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credit import anchors
from credit.methods.gigpo import GiGPO
from tests.credit.batches import batch

TEXT = st.text(alphabet="ab c", max_size=30)


def plain(keys, groups, threshold):
    """The rule of STAPO §3.1, comparing every pair."""
    clusters, places = {}, []
    for key, group in zip(keys, groups, strict=True):
        firsts = clusters.setdefault(group, [])
        ratios = [SequenceMatcher(None, key, first).ratio() for first in firsts]
        fit = [place for place, ratio in enumerate(ratios) if ratio >= threshold]
        if not fit:
            firsts.append(key)
            fit = [len(firsts) - 1]
        else:
            fit = [max(fit, key=lambda place: (ratios[place], -place))]
        places.append((group, fit[0]))
    return places


def same_partition(ids, places):
    pairs = set(zip(ids.tolist(), places, strict=True))
    return len(pairs) == len(set(ids.tolist())) == len(set(places))


@given(st.lists(TEXT, min_size=1, max_size=12), TEXT)
def test_bounds_are_never_below_the_ratio(heads, key):
    pool = anchors._Pool()
    for head in heads:
        pool.add(head)
    counts = np.stack([anchors._counts(head) for head in heads])
    ratios = [SequenceMatcher(None, key, head).ratio() if key or head else 0.0 for head in heads]
    for bounds in (pool.bounds(key), anchors._bound_ratio(anchors._counts(key), counts)):
        assert (np.asarray(bounds) >= ratios).all()
    assert (pool.bounds(key) <= anchors._bound_ratio(anchors._counts(key), counts)).all()


@given(st.lists(st.tuples(TEXT, st.integers(0, 2)), max_size=60), st.floats(0.3, 1.0))
def test_clusters_are_those_of_comparing_every_pair(rows, threshold):
    keys, groups = [key for key, _ in rows], [group for _, group in rows]
    ids = anchors.similar(keys, groups, threshold)
    assert same_partition(ids, plain(keys, groups, threshold))


def test_long_texts_follow_difflibs_rule_for_popular_characters():
    rng = np.random.default_rng(1)
    words = [f"word{k}" for k in range(30)]
    keys = [" ".join(rng.choice(words, 60)) for _ in range(6)]
    keys += [key[:150] + key[160:] for key in keys]
    assert len(keys[0]) > 300
    ids = anchors.similar(keys, [0] * 12, 0.5)
    assert same_partition(ids, plain(keys, [0] * 12, 0.5))


def test_a_repeated_key_may_join_a_better_cluster_later():
    # "abcdefgh" joins "abcdefxx": ratio 2 * 6 / 16 = 0.75. "zbcdefgh" has 2 * 5 / 16 with that one
    # and starts a second cluster, which is more similar to "abcdefgh": 2 * 7 / 16 = 0.875
    keys = ["abcdefxx", "abcdefgh", "zbcdefgh", "abcdefgh"]
    ratios = [anchors._ratio(keys[1], keys[0]), anchors._ratio(keys[2], keys[0])]
    assert [*ratios, anchors._ratio(keys[1], keys[2])] == pytest.approx([0.75, 0.625, 0.875])
    assert anchors.similar(keys, [0] * 4, 0.75).tolist() == [0, 0, 1, 1]


def test_the_earlier_of_two_equally_similar_clusters():
    # "abcd" has the ratio 2 * 2 / 6 with both clusters
    keys = ["ab", "cd", "abcd"]
    assert [anchors._ratio("abcd", key) for key in keys] == pytest.approx([2 / 3, 2 / 3, 1])
    assert anchors.similar(keys, [0] * 3, 0.5).tolist() == [0, 1, 0]


def test_threshold_one_is_equality():
    keys, groups = ["a", "b", "a", "a"], [0, 0, 0, 1]
    similar = anchors.similar(keys, groups, 1.0)
    assert same_partition(similar, anchors.exact(keys, groups).tolist())


def test_gigpo_over_similar_states():
    # the first and last text differ in one of 20 characters: one state, with returns 0.95 and 1
    anchor = ["you are at shelf 1..", "x", "you are at shelf 2.."]
    turns = batch([2, 1], [1.0, 1.0], [0, 0], anchor=anchor)
    half = 0.5**0.5
    assert GiGPO(anchors="similar")(turns) == pytest.approx([-half, 0, half], abs=1e-4)
    assert GiGPO()(turns) == pytest.approx([0, 0, 0])
