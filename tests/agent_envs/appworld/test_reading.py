"""Wanted values in the ways that people write them, and values that are something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.appworld.reading import (
    MINUTES,
    MONEY,
    Lines,
    Quantity,
    Title,
    TwoDecimals,
    plain,
    same,
    spelled,
)

TIME, SUM = Quantity(210, MINUTES), Quantity(1012.5, MONEY)


@pytest.mark.parametrize(
    "said",
    [
        *(210, 210.0, "210", " 210\n", "+210", "210.00", "210 minutes", "210 min.", "210min"),
        *("3.5 hours", "3 h 30 min", "3 hours and 30 minutes", "3h30m", "3 hours, 30 minutes"),
        *("The total is 210 minutes.", "It's 210", "Total: 210", "210 minutes in total", '"210"'),
        *("two hundred and ten", "Two hundred ten minutes", "２１０"),
    ],
)
def test_a_time_in_usual_forms(said):
    assert same(said, TIME)


@pytest.mark.parametrize(
    "said",
    [
        *(209, 211, -210, 210.5, "-210", "21", "2100", "2.10", "2 10", "0.210", "210 hours"),
        *("210 seconds", "$210", "210 %", "210 or 220", "between 200 and 210", "not 210"),
        *("more than 210", "about 210", "~210", "<210", "210?", "210 - 0", "210 and", "210,"),
        *("", "minutes", "three", "two hundred eleven", "3:30", "30 min 3 h", "3 h 3 h", None),
        *(True, "I do not know", "210 minutes 210 minutes", "210 x 1", "2e2", "0xd2"),
    ],
)
def test_another_time(said):
    assert not same(said, TIME)


@pytest.mark.parametrize(
    "said",
    [
        *(1012.5, 1012.499999999, "1012.5", "1,012.50", "1 012.50", "1012,50", "$1,012.50"),
        *("€1012.50", "EUR 1012.50", "1012.50 USD", "1012.50 euros", "101250 cents"),
        *(
            "1,012 dollars and 50 cents",
            "The total is $1012.50.",
            "You sent $1012.50" * 0 + "1012.50",
        ),
    ],
)
def test_a_sum_in_usual_forms(said):
    assert same(said, SUM)


@pytest.mark.parametrize(
    "said",
    [
        *(1012, 1012.51, 1012.49, -1012.5, "101250", "1012", "10125", "-$1012.50", "10,12.50"),
        *("1012.50 minutes", "1.012,5", "1012.50 or so", "1012.50 dollars 3", "$1012.50 $"),
        *("$1012.50 euros", "50 cents and 1012 dollars", "1012.50.00", "approximately 1012.50"),
    ],
)
def test_another_sum(said):
    assert not same(said, SUM)


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_that_number_and_no_other(number):
    said = spelled(number)
    assert same(said, Quantity(number, {"": 1.0}))
    assert not same(said, Quantity(number + 1, {"": 1.0}))


def test_numbers_in_words():
    assert spelled(0) == "zero"
    assert spelled(21) == "twenty one"
    assert spelled(310_415) == "three hundred ten thousand four hundred fifteen"
    assert same("forty-two", Quantity(42, MINUTES))
    assert same("three hours and thirty minutes", TIME)
    assert not same("three and four", Quantity(7, MINUTES))
    assert not same("twenty ten", Quantity(30, MINUTES))
    assert not same("one hundred thousand hundred", Quantity(100_100, MINUTES))


@given(st.floats(0, 1e6).map(lambda x: round(x, 2)), st.floats(0, 1e6).map(lambda x: round(x, 2)))
def test_sums_of_money_are_told_apart_to_the_cent(one, other):
    said = same(f"{one:,.2f}", Quantity(other, MONEY))
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
    assert same(said, wanted) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("Golden Garden", True),
        ('The title is "golden garden".', True),
        ("\u201cGolden Garden\u201d by Dora Vance", True),
        ("Dora Vance \u2013 Golden Garden", True),
        ("It is Golden Garden (Dora Vance)", True),
        ("Golden Garden, by Dora Vance", True),
        ("The longest folk song in your music app is Golden Garden.", True),
        ("Golden Garden is the longest.", True),
        ("Dora Vance by Golden Garden", False),
        ("The second longest folk song is Golden Garden", False),
        ("Is it Golden Garden?", False),
        ("Golden Garden by Iris Calloway", False),
        ("Golden", False),
        ("Golden Garden or Paper Bridge", False),
        ("Not Golden Garden", False),
        ("Dora Vance", False),
        (7, False),
    ],
)
def test_titles(said, right):
    assert same(said, Title("Golden Garden", "Dora Vance", "longest folk music app")) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("Ada Abbott\nBen Barlow", True),
        ("- Ada Abbott\n- ben  barlow\n\n", True),
        ("1. Ada Abbott\r\n2) Ben Barlow", True),
        ("Ben Barlow\nAda Abbott", False),
        ("Ada Abbott, Ben Barlow", False),
        ("Ada Abbott", False),
        ("Presents:\nAda Abbott\nBen Barlow", False),
        ("Ada Abbott\nBen Barlow\nBen Barlow", False),
    ],
)
def test_lines(said, right):
    assert same(said, Lines(("Ada Abbott", "Ben Barlow"))) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        *((said, True) for said in ("1012.50", "1,012.50\n", " 1012.50.")),
        *(
            (said, False)
            for said in ("1012.5", "$1012.50", "1012.500", "Total: 1012.50", "1012,50")
        ),
        *((said, False) for said in ("1012.51", "-1012.50", "10,12.50", 1012.5, "")),
    ],
)
def test_two_decimals(said, right):
    assert same(said, TwoDecimals(1012.5)) is right


@given(st.text())
def test_any_text_can_be_read(text):
    """Whatever a mail or an answer says is right or wrong, and no error."""
    for wanted in (TIME, SUM, Title("a", "b"), Lines(("a",)), TwoDecimals(1), "a"):
        assert same(text, wanted) in (True, False)
    assert plain(plain(text)) == plain(text) or text != plain(text)
