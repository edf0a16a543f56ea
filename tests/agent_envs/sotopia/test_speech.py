"""Courtesy, reasons, questions, facts and secrets in lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.scene import SECRETS
from agent_envs.sotopia.speech import hear_line, measure_hints, measure_leak, measure_told
from tests.agent_envs.sotopia.samples import read_lines


def test_a_courtesy_a_reason_a_question():
    assert hear_line("Thank you").courteous
    assert hear_line("I need it by Monday because my old one broke").reasons
    assert not hear_line("Just because").reasons  # too short to be one
    assert hear_line("What else?").asks
    assert hear_line("#### !!! ...").wordless
    assert not any(hear_line("I would like the lamp."))


def test_facts_are_told_by_pairs_of_content_words():
    fact = "Broke the museum's oldest vase and glued it overnight."
    assert measure_told(fact, fact) == 1
    assert measure_told(fact, "I broke the museum's oldest vase and glued it overnight") == 1
    # Pairs: broke museum's, museum's oldest, oldest vase, vase glu, glu overnight.
    assert measure_told(fact, "I know the oldest vase") == pytest.approx(1 / 5)
    assert measure_told(fact, "A vase stands in the museum") == 0
    assert measure_told("", fact) == 0


@pytest.mark.parametrize(
    ("lines", "share"),  # of 7 words, driving and drives being one, and of 7 pairs
    [
        (["Failed the driving test six times and drives without a licence."], 1),
        (["I failed the driving test."], 2 / 7),
        (["I failed the driving", "driving test six"], 4 / 7),
        # In another order the words count where they are more than half: here all but licence.
        (["Driving without: the test,", "six times failed."], 6 / 7),
        (["Six test drives?"], 0),  # 3 words and no pair
        (["Six times three.", "Good day."], 1 / 7),
        ([], 0),
    ],
)
def test_a_secret_leaks_in_parts_and_in_other_orders(lines, share):
    own = "Failed the driving test six times and drives without a licence."
    assert measure_leak(own, lines) == pytest.approx(share)


@pytest.mark.parametrize("word", dict.fromkeys(row["secret"] for row in read_lines("secrets")))
def test_a_secret_is_told_in_other_words_but_not_by_lines_about_like_things(word):
    secret, hints = next(one for one in SECRETS if word in one[0].lower())
    for row in (row for row in read_lines("secrets") if row["secret"] == word):
        hinted = measure_hints(hints, [row["text"]])
        if row["tells"]:
            assert max(hinted, measure_leak(secret, [row["text"]])) == 1, row
        else:
            assert hinted == 0, row


def test_a_secret_is_told_in_two_lines_that_follow_each_other_and_not_further_apart():
    _, hints = next(one for one in SECRETS if "vineyard" in one[0])
    parts = ["My uncle left me something.", "It is a vineyard."]
    assert measure_hints(hints, parts) == 1
    assert measure_hints(hints, [parts[0], "Well.", "Hm.", parts[1]]) == 0
    assert measure_hints((), parts) == 0


@given(st.text(max_size=200))
def test_any_line_can_be_heard(line):
    hear_line(line)
    assert measure_told(line, line) in (0, 1)
