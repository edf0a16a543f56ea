"""Normalisation and metrics as in SQuAD, HotpotQA and Search-R1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.search_qa.metrics import METRICS, in_any, normalise


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The  Beatles!", "beatles"),
        ("well-known", "wellknown"),  # deleted, not replaced
        ("1,000", "1000"),
        ("—dash— Café", "—dash— café"),  # ASCII punctuation alone
        ("A.B.C the x", "abc x"),  # punctuation first, or "a" would go
        ("theatre another", "theatre another"),
        ("An\ta \n the", ""),
        ("第二 THE 東京", "第二 東京"),
    ],
)
def test_normalisation(text, kept):
    assert normalise(text) == kept


def test_the_reference_normalises_alike(golden):
    assert {text: normalise(text) for text in golden["normalize"]} == golden["normalize"]


@pytest.mark.parametrize(
    ("answer", "golds", "em", "f1", "sub_em"),
    [
        ("The beatles!", ["Fab Four", "Beatles"], 1, 1, 1),
        ("Beatles", "The Beatles", 1, 1, 1),  # one text is one accepted answer
        ("Cafe", ["café"], 0, 0, 0),
        ("the Beatles band", ["Beatles"], 0, 2 / 3, 1),  # 1 word of 2 and of 1
        ("Yorkshire", ["York"], 0, 0, 0),  # whole words, where Search-R1 takes characters
        ("the big red dog", ["red dog house"], 0, 2 / 3, 0),  # 2 words of 3 and of 3
        ("dog dog", ["dog"], 0, 2 / 3, 1),  # 1 of 2 and of 1
        ("Paris", ["city of Paris", "Paris"], 1, 1, 1),  # the best of them
        ("yes it is", ["yes"], 0, 0, 1),  # HotpotQA: closed answers are whole
        ("no", ["no one"], 0, 0, 0),
        ("yes it is", ["yes it was"], 0, 2 / 3, 0),  # neither is the closed answer itself
        ("x", [], 0, 0, 0),
    ],
)
def test_metrics(answer, golds, em, f1, sub_em):
    scores = {name: metric(answer, golds) for name, metric in METRICS.items()}
    assert scores == {"em": em, "f1": pytest.approx(f1), "sub_em": sub_em}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("answer", ["", "the", "anything", "!?"])
def test_nothing_matches_an_empty_accepted_answer(metric, answer):
    assert METRICS[metric](answer, ["the", "", "A", "..."]) == 0


def test_an_answer_in_a_text():
    assert in_any(["York", "Paris"], ["Yorkshire", "It is (Paris)!"])
    assert not in_any(["York"], ["Yorkshire", ""])
    assert not in_any(["the"], ["the the"])


@given(st.text(), st.lists(st.text(), max_size=3))
def test_the_metrics_rise_from_exact_to_loose(answer, golds):
    exact, overlap, held = (METRICS[name](answer, golds) for name in ("em", "f1", "sub_em"))
    assert 0 <= exact <= overlap <= 1
    assert exact <= held
    assert normalise(normalise(answer)) == normalise(answer)
