"""The index terms and the scores of Lucene, on texts small enough for paper."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.webshop.search import LONGEST, STOP_WORDS, Index, extract_terms, stem

CASES = Path(__file__).with_name("cases")


def test_stems():
    """The examples of Porter's paper (1980), and of his later rules bli -> ble and logi -> log."""
    words = (CASES / "stems.txt").read_text().split()
    for word, expected in zip(words[::2], words[1::2], strict=True):
        assert stem(word) == expected


def test_index_terms():
    """Boundaries of words by a table of Unicode, stop words and stems."""
    for line in (CASES / "terms.txt").read_text(encoding="utf-8").splitlines():
        text, expected = json.loads(line.partition("  # ")[0])
        assert extract_terms(text) == expected


def test_signs_and_emoji():
    skin, family = "👍🏽", "👨\u200d👩\u200d👧\u200d👦"
    for emoji in ("👍", skin, "❤\ufe0f", "👩\u200d💻", family, "🧑🏿\u200d🚀", "🇩🇪"):  # one word
        assert extract_terms(emoji) == [emoji]
        assert extract_terms(f"red{emoji}{emoji}7") == ["red", emoji, emoji, "7"]
    for sign in "★☞™®©♚♫✔〰〽":  # a pictograph is a word
        assert extract_terms(f"red {sign} shoe{sign}") == ["red", sign, "shoe", sign]
    for sign in "•→€●✓【※°":
        assert extract_terms(f"red {sign} shoe{sign}") == ["red", "shoe"]
    assert extract_terms("🇩🇪🇫🇷🇮") == ["🇩🇪", "🇫🇷"]  # half flags pair from the left


def test_stop_words():
    assert len(STOP_WORDS.split()) == 33
    assert extract_terms(STOP_WORDS + STOP_WORDS.upper()) == []
    # no stop words: they only look like it, or become one by stemming
    assert extract_terms("you from all thes i a.b") == ["you", "from", "all", "the", "i", "a.b"]


def test_long_tokens_are_cut():
    # 600 = 255 + 255 + 90
    assert extract_terms("x" * 600) == ["x" * 255, "x" * 255, "x" * 90]
    assert extract_terms("x" * LONGEST) == ["x" * 255]
    # the cut comes before the stemmer and the stop words: "...xing" loses its end, "a" is dropped
    assert extract_terms("y" + "x" * 253 + "ing") == ["y" + "x" * 253 + "i", "ng"]
    assert extract_terms("x" * 255 + "a") == ["x" * 255]


@pytest.mark.parametrize(
    "text", ["_", "\u200d", "\u2605\u200d", "\u05d0\u2019", "#\ufe0f", "\u2139_", "__x"]
)
def test_long_runs_take_no_long_time(text, check_linear_time):
    check_linear_time(extract_terms, lambda size: text * size, 4_000)


SCRIPTS = st.text(
    st.sampled_from("aAeEsSyzing '’_.,:;\"-7 5漢ひカｶไก한א\u0301\u200d\ufe0f👍🏽🇩🇪❤\u00ad\u202fİΣß")
)


@settings(max_examples=300)
@given(SCRIPTS, SCRIPTS | st.text(st.characters(codec=None)))
def test_texts_with_a_blank_between_them_have_the_words_of_both(one, other):
    found = extract_terms(f"{one} {other}")
    assert found == extract_terms(one) + extract_terms(other)
    assert all(0 < len(word) <= LONGEST for word in found)


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


def test_a_word_asked_for_twice_counts_twice():
    once, twice = found(TINY, "red"), found(TINY, "red RED")
    assert twice == {name: 2 * score for name, score in once.items()}
    both = found(TINY, "hat red red")
    assert both["d2"] == pytest.approx(found(TINY, "hat")["d2"] + twice["d2"])


@pytest.mark.parametrize("query", ["", " ", "blue", "the of", "<r>", "r", "?", "reds shoes"])
def test_only_documents_with_a_word_of_the_query_are_found(query):
    expected = {"d1", "d2"} if query == "reds shoes" else set()
    assert found(TINY, query).keys() == expected


def test_empty_documents_do_not_count():
    # as the case before: N is 2 and the mean length 1, whatever has no words
    padded = {"a": "red", "x": "", "b": "red", "y": "the ..."}
    assert found(padded, "red") == pytest.approx({"a": 0.0959587, "b": 0.0959587})
    assert found({"x": ""}, "red") == {}
    assert found({}, "red") == {}


def test_at_most_fifty_are_found_the_first_ids_of_a_tie():
    assert list(found(dict.fromkeys(["B2", "a1", "B10", "A9"], "red"), "red")) == [
        *("A9", "B10", "B2", "a1")
    ]
    names = [f"{n:03}" for n in range(120)]
    documents = dict.fromkeys(reversed(names), "red")
    assert list(found(documents, "red")) == names[:50]
    # a better one comes first whatever its id, and takes the place of the last
    documents["999"] = "red red"
    assert list(found(documents, "red")) == ["999", *names[:49]]


def test_documents_of_40_and_41_words_score_the_same_and_of_42_less():
    documents = {
        str(n): " ".join(["red", *(f"x{i}" for i in range(1, n))]) for n in (39, 40, 41, 42)
    }
    scores = found(documents, "red")
    assert scores["39"] > scores["40"] == scores["41"] > scores["42"]
