"""Wanted values in the ways that people write them, and values that are something else."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.appworld.reading import (
    MINUTES,
    MONEY,
    Lines,
    Measure,
    Quantity,
    Title,
    TwoDecimals,
    is_same,
    normalise,
    spell_number,
)

TIME, SUM = Quantity(210, MINUTES), Quantity(1012.5, MONEY)
PLAIN = Measure({}, frozenset(), frozenset())
KINDS = {
    "minutes": lambda number, asked: Quantity(number, MINUTES, asked),
    "money": lambda number, asked: Quantity(number, MONEY, asked),
    "title": lambda given, _: Title(*given),
    "lines": lambda given, _: Lines(tuple(given)),
    "two decimals": lambda number, _: TwoDecimals(number),
}
GROUPS = tomllib.loads(Path(__file__).with_name("reading.toml").read_text())["group"]


@pytest.mark.parametrize(
    ("kind", "wanted", "asked", "said", "right"),
    [
        (group["kind"], group["wanted"], asked, said, right)
        for group in GROUPS
        for asked in group.get("asked", [""])
        for right, values in ((True, group["right"]), (False, group["wrong"]))
        for said in values
    ],
)
def test_usual_forms_are_right_and_others_are_not(kind, wanted, asked, said, right):
    if kind == "money" and "How much money" in asked:  # this request speaks of no note
        said = said.replace("with the note ", "for ") if right else said
    assert is_same(said, KINDS[kind](wanted, asked)) is right


def test_a_denied_number_is_none_also_if_the_request_denies():
    wanted = Quantity(210, MINUTES, "How many minutes of the week do I not work, nor travel?")
    assert is_same("I work 210 minutes of the week", wanted)
    assert not is_same("I work not 210 minutes of the week", wanted)
    assert not is_same("no, 210 minutes", wanted)


def test_true_is_no_number():
    assert is_same(1, Quantity(1, PLAIN))
    assert not is_same(True, Quantity(1, PLAIN))


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_that_number_and_no_other(number):
    said = spell_number(number)
    assert is_same(said, Quantity(number, PLAIN))
    assert not is_same(said, Quantity(number + 1, PLAIN))


def test_numbers_in_words():
    assert spell_number(0) == "zero"
    assert spell_number(21) == "twenty one"
    assert spell_number(310_415) == "three hundred ten thousand four hundred fifteen"
    assert is_same("forty-two", Quantity(42, MINUTES))
    assert is_same("three hours and thirty minutes", TIME)
    assert not is_same("three and four", Quantity(7, MINUTES))
    assert not is_same("twenty ten", Quantity(30, MINUTES))
    assert not is_same("one hundred thousand hundred", Quantity(100_100, MINUTES))


@given(st.floats(0, 1e6).map(lambda x: round(x, 2)), st.floats(0, 1e6).map(lambda x: round(x, 2)))
def test_sums_of_money_are_told_apart_to_the_cent(one, other):
    said = is_same(f"{one:,.2f}", Quantity(other, MONEY))
    assert said == (round(100 * one) == round(100 * other))


@pytest.mark.parametrize(
    ("said", "wanted", "right"),
    [
        ("the Open  road.", "The Open Road", True),
        ("\u201cThe Open Road\u201d", "The Open Road", True),
        ("The Open Road\n", "The Open Road", True),
        ("Rock \u2019n\u2019 Roll", "rock 'n' roll", True),
        ("Open Road", "The Open Road", False),
        ("The Open Road!", "The Open Road", False),
        ("TheOpenRoad", "The Open Road", False),
        ("", "The Open Road", False),
        (["The Open Road"], "The Open Road", False),
        (None, "The Open Road", False),
        (None, TIME, False),
        (["b", "A"], frozenset({"a", "B"}), True),
        (["a", "a"], frozenset({"a", "b"}), False),
        (["a", "b", "b"], frozenset({"a", "b"}), False),
        ([], frozenset(), True),
        ([1, 2], [1, 2], True),
        ([2, 1], [1, 2], False),
        (True, True, True),
        (1, True, False),
        (True, 1, False),
        (2.0, 2, True),
        ("2", 2, False),
        (0.1 + 0.2, 0.3, True),
    ],
)
def test_texts_lists_and_plain_numbers(said, wanted, right):
    assert is_same(said, wanted) is right


@given(st.text())
def test_any_text_can_be_read(text):
    """Whatever a mail or an answer says is right or wrong, and no error."""
    for wanted in (TIME, SUM, Title("a", "b"), Lines(("a",)), TwoDecimals(1), "a"):
        assert is_same(text, wanted) in (True, False)
    assert normalise(normalise(text)) == normalise(text) or text != normalise(text)
