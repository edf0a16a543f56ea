"""Wanted values in the ways that people write them, and values that are something else."""

from __future__ import annotations

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
DAYS = "from 2024-05-22 to 2024-05-28, both days included"
ASKED_TIME = (
    f'How many minutes will I spend in events called "Rehearsal: ..." {DAYS}? Tell me the total.',
    (
        "Add up the length, in minutes, of everything in my calendar between 2024-05-22 and "
        '2024-05-28 (both included) whose title begins with "Rehearsal".'
    ),
)
ASKED_SUM = (
    (
        'I am doing my accounts. What is the total of my own payments with the note "car sharing" '
        "from 2024-03-22 until today?"
    ),
    (
        'How much money did I send to people for "car sharing" since 2024-03-22, that day '
        "included? Only count payments that I made whose note is just that."
    ),
)


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
    assert is_same(said, TIME)


@pytest.mark.parametrize(
    "said",
    [
        *(209, 211, -210, 210.5, "-210", "21", "2100", "2.10", "2 10", "0.210", "210 hours"),
        *("210 seconds", "$210", "210 %", "210 or 220", "between 200 and 210", "not 210"),
        *("more than 210", "about 210", "~210", "<210", "210?", "210 - 0", "210 and", "210,"),
        *("", "minutes", "three", "two hundred eleven", "3:03", "30 min 3 h", "3 h 3 h", None),
        *(True, "I do not know", "210 minutes 210 minutes", "210 x 1", "2e2", "0xd2"),
    ],
)
def test_another_time(said):
    assert not is_same(said, TIME)


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
    assert is_same(said, SUM)


@pytest.mark.parametrize(
    "said",
    [
        *(1012, 1012.51, 1012.49, -1012.5, "101250", "1012", "10125", "-$1012.50", "10,12.50"),
        *("1012.50 minutes", "1.012,5", "1012.50 or so", "1012.50 dollars 3", "$1012.50 $"),
        *("$1012.50 euros", "50 cents and 1012 dollars", "1012.50.00", "approximately 1012.50"),
    ],
)
def test_another_sum(said):
    assert not is_same(said, SUM)


@pytest.mark.parametrize("asked", ASKED_TIME)
@pytest.mark.parametrize(
    "said",
    [
        *("**210**", "`210`", "_210_", "The total is **210 minutes**.", "***210***", "** `210` **"),
        *("3:30", "3h30", "3 h 30", "3:30 h", "3h30m", "The total time is 3:30.", "*3:30*"),
        *("Minutes: 210", "The total in minutes is 210", "In hours, the total is 3.5"),
        *("You will spend 210 minutes in events called Rehearsal.", "The events take 210 minutes."),
        *('You\'ll spend 3:30 in events called "Rehearsal: ..."', "Total time in events: 210"),
        *("The total from 2024-05-22 to 2024-05-28 is 210.", "210 minutes of meetings"),
        *("The number of minutes is 210.", "That adds up to 210.", "a total of 210 minutes"),
        *("Rehearsal: 210", "210 total minutes", "210 in total", "210, in total", "210 (minutes)"),
    ],
)
def test_a_time_in_words_of_the_request(said, asked):
    assert is_same(said, Quantity(210, MINUTES, asked))


@pytest.mark.parametrize("asked", ASKED_TIME)
@pytest.mark.parametrize(
    "said",
    [
        *("210 meetings", "210 events", "210 Rehearsal", "210 days", "210 payments", "$210"),
        *("Meetings: 210", "Events: 210", "The number of events is 210", "Total events: 210"),
        *("210 events in total", "210 total events", "There are 210 events", "You have 210 events"),
        *("210 of the events", "210 is the number of events", "210 are events", "days: 210"),
        *("The number of events is 210 minutes", "210 minutes each", "210 a day", "210 per day"),
        *("up to 210", "at 3:30", "until 210", "from 210", "half of 210", "between 210 and 240"),
        *("3:30 min", "3:30:00", "3:60", "3:3", "13:30", "-3:30", "3h30h", "2*105", "*210", "0210"),
        *("hours: 210", "210 hours in minutes", "minutes in hours: 210", "210 to", "210:", "(210)"),
        "210 " + "in total " * 60,
    ],
)
def test_a_count_of_other_things_is_no_time(said, asked):
    assert not is_same(said, Quantity(210, MINUTES, asked))


def test_a_denied_number_is_none_also_if_the_request_denies():
    wanted = Quantity(210, MINUTES, "How many minutes of the week do I not work, nor travel?")
    assert is_same("I work 210 minutes of the week", wanted)
    assert not is_same("I work not 210 minutes of the week", wanted)
    assert not is_same("no, 210 minutes", wanted)


def test_true_is_no_number():
    assert is_same(1, Quantity(1, PLAIN))
    assert not is_same(True, Quantity(1, PLAIN))


@pytest.mark.parametrize("asked", ASKED_SUM)
@pytest.mark.parametrize(
    "said",
    [
        *(
            "**$12.50**",
            "You paid 12.50 for car sharing.",
            "Car sharing: 12.50",
            "Payments: $12.50",
        ),
        *('The total of your payments with the note "car sharing" is 12.50.', "cents: 1250"),
        *("Your payments total 12.50", "12.50 spent", "12.50 was sent", "twelve point five"),
        *("The total since 2024-03-22 is 12.50 euros.", "The sum of my payments is 12.50"),
    ],
)
def test_a_sum_in_words_of_the_request(said, asked):
    said = said.replace("with the note ", "for ") if asked == ASKED_SUM[1] else said
    assert is_same(said, Quantity(12.5, MONEY, asked))


@pytest.mark.parametrize("asked", ASKED_SUM)
@pytest.mark.parametrize(
    "said",
    [
        *("12.50 payments", "12.50 transactions", "12.50 meetings", "12.50 minutes", "12.50 h"),
        *("Payments: 12.50", "Number of payments: 12.50", "total payments: 12.50", "people: 12.50"),
        *("12.50 people", "12.50 notes", "12.50 car sharing", "12.50 of the payments"),
        *("12.50 per payment", "12.50 in each", "12:50", "012.50", "-12.50", "count: 12.50"),
    ],
)
def test_a_count_of_other_things_is_no_sum(said, asked):
    assert not is_same(said, Quantity(12.5, MONEY, asked))


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
    assert is_same(said, Title("Golden Garden", "Dora Vance", "longest folk music app")) is right


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
    assert is_same(said, Lines(("Ada Abbott", "Ben Barlow"))) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        *((said, True) for said in ("1012.50", "1,012.50\n", " 1012.50.")),
        *(
            (said, False)
            for said in ("1012.5", "$1012.50", "1012.500", "Total: 1012.50", "1012,50")
        ),
        *((said, False) for said in ("1012.51", "-1012.50", "10,12.50", 1012.5, "")),
        *((said, False) for said in ("01012.50", "001,012.50", "0,012.50", "+1012.50")),
    ],
)
def test_two_decimals(said, right):
    assert is_same(said, TwoDecimals(1012.5)) is right


@given(st.text())
def test_any_text_can_be_read(text):
    """Whatever a mail or an answer says is right or wrong, and no error."""
    for wanted in (TIME, SUM, Title("a", "b"), Lines(("a",)), TwoDecimals(1), "a"):
        assert is_same(text, wanted) in (True, False)
    assert normalise(normalise(text)) == normalise(text) or text != normalise(text)
