"""BM25 as Lucene computes it, on documents small enough for paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.webshop.search import MOST, Index, _in_a_byte

TINY = {"d1": "red shoe", "d2": "red red hat", "d3": "green hat box big"}  # lengths 2, 3, 4: mean 3


def found(documents, query):
    ids = list(documents)
    places, scores = Index(documents.values(), ids).scores(query)
    return {ids[place]: float(score) for place, score in zip(places, scores, strict=True)}


def test_a_score_worked_by_hand():
    # "red" is in 2 of 3: idf = ln(1 + (3 - 2 + .5) / (2 + .5)) = ln 1.6 = .4700036
    # d1, length 2: norm = 1 / (.9 (1 - .4 + .4 * 2/3)) = 1 / .78 = 1.2820513
    #   once:  .4700036 (1 - 1 / (1 + 1.2820513)) = .4700036 * .5617978 = .2640470
    # d2, length 3: norm = 1 / .9 = 1.1111111
    #   twice: .4700036 (1 - 1 / (1 + 2 * 1.1111111)) = .4700036 * .6896552 = .3241404
    assert found(TINY, "red") == pytest.approx({"d2": 0.3241404, "d1": 0.2640470}, abs=1e-7)
    assert list(found(TINY, "red")) == ["d2", "d1"]


def test_scores_of_several_words_are_added():
    # "box" is in 1 of 3: idf = ln(1 + 2.5 / 1.5) = ln 2.6666667 = .9808293
    # d3, length 4: norm = 1 / (.9 (.6 + .4 * 4/3)) = 1 / 1.02 = .9803922
    #   box: .9808293 (1 - 1 / 1.9803922) = .9808293 * .4950495 = .4855590
    #   hat: .4700036 * .4950495 = .2326750, together .7182340
    # d2: hat once: .4700036 (1 - 1 / 2.1111111) = .4700036 * .5263158 = .2473703
    assert found(TINY, "hat box") == pytest.approx({"d3": 0.7182340, "d2": 0.2473703}, abs=1e-7)


def test_scores_are_single_precision():
    _, scores = Index(TINY.values(), list(TINY)).scores("red hat")
    assert scores.dtype == np.float32


def test_a_word_asked_for_twice_counts_twice():
    once, twice = found(TINY, "red"), found(TINY, "red RED")
    assert twice == {name: 2 * score for name, score in once.items()}
    both = found(TINY, "hat red red")
    assert both["d2"] == pytest.approx(found(TINY, "hat")["d2"] + twice["d2"])


@pytest.mark.parametrize("query", ["", " ", "blue", "the of", "<r>", "r", "?", "reds shoes"])
def test_only_documents_with_a_word_of_the_query_are_found(query):
    expected = {"d1", "d2"} if query == "reds shoes" else set()
    assert found(TINY, query).keys() == expected


def test_unknown_words_do_not_matter():
    assert found(TINY, "purple red zebra") == found(TINY, "red")


def test_words_that_all_documents_have_still_count():
    # in 2 of 2: idf = ln(1 + .5 / 2.5) = ln 1.2 = .1823216; all of mean length:
    # .1823216 (1 - 1 / (1 + 1 / .9)) = .1823216 * .5263158 = .0959587
    assert found({"a": "red", "b": "red"}, "red") == pytest.approx({"a": 0.0959587, "b": 0.0959587})


def test_empty_documents_do_not_count():
    # as the case before: N is 2 and the mean length 1, whatever has no words
    padded = {"a": "red", "x": "", "b": "red", "y": "the ..."}
    assert found(padded, "red") == pytest.approx({"a": 0.0959587, "b": 0.0959587})
    assert found({"x": ""}, "red") == {}
    assert found({}, "red") == {}


def test_ties_are_in_the_order_of_ids():
    names = ["B2", "a1", "B10", "A9"]
    assert list(found(dict.fromkeys(names, "red"), "red")) == ["A9", "B10", "B2", "a1"]


def test_at_most_fifty_are_found_the_first_ids_of_a_tie():
    names = [f"{n:03}" for n in range(120)]
    documents = dict.fromkeys(reversed(names), "red")
    assert list(found(documents, "red")) == names[:50]
    # a better one comes first whatever its id, and takes the place of the last
    documents["999"] = "red red"
    assert list(found(documents, "red")) == ["999", *names[:49]]
    assert MOST == 50


def test_results_are_remembered_and_are_places():
    index = Index(TINY.values(), list(TINY))
    assert index.search("red") == (1, 0)
    assert index.search("red") is index.search("red")


# By the definition of Lucene's intToByte4: 0..23 as they are; of n - 24 the four highest bits.
@pytest.mark.parametrize(
    ("length", "kept"),
    [
        (0, 0),
        (1, 1),
        (24, 24),
        (39, 39),  # 15 = 1111
        (40, 40),  # 16 = 1000|0
        (41, 40),  # 17 = 1000|1
        (42, 42),  # 18 = 1001|0
        (55, 54),  # 31 = 1111|1 -> 30
        (56, 56),  # 32 = 1000|00
        (59, 56),  # 35 = 1000|11 -> 32
        (60, 60),  # 36 = 1001|00
        (1000, 984),  # 976 = 1111|010000 -> 960
        (2**31 - 1, 2_013_265_944),  # Lucene's largest: 1111 and 27 zeros, and 24
    ],
)
def test_lengths_in_a_byte(length, kept):
    assert _in_a_byte(length) == kept


def test_a_byte_holds_256_lengths():
    # 24 as they are, and 8 for each place of the highest bit but the lowest four, which share 16
    kept = {_in_a_byte(length) for length in range(24 + 2**12)}
    assert len(kept) == 24 + 16 + 8 * 8


@given(st.integers(0, 2**31 - 2))
def test_a_length_in_a_byte_is_no_longer_and_keeps_an_eighth(length):
    kept = _in_a_byte(length)
    assert length - length / 8 <= kept <= length
    assert _in_a_byte(kept) == kept <= _in_a_byte(length + 1)


def test_documents_of_40_and_41_words_score_the_same_and_of_42_less():
    documents = {
        str(n): " ".join(["red", *(f"x{i}" for i in range(1, n))]) for n in (39, 40, 41, 42)
    }
    scores = found(documents, "red")
    assert scores["39"] > scores["40"] == scores["41"] > scores["42"]


WORDS = st.sampled_from(["red", "green", "hat", "shoe", "box", "big", "the", "7.5", "漢"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_documents_and_words_does_not_matter(texts, query, rng):
    documents = {f"{n:02}": text for n, text in enumerate(texts)}
    shuffled = list(documents.items())
    rng.shuffle(shuffled)
    turned = " ".join(reversed(query.split()))
    expected, scores = found(documents, query), found(dict(shuffled), query)
    assert list(scores.items()) == list(expected.items())
    assert found(documents, turned) == pytest.approx(expected, rel=1e-6)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    asked = set(query.split()) - {"the"}
    assert scores.keys() == {n for n, text in documents.items() if asked & set(text.split())}
