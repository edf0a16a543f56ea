"""What lines do, by the words in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.speech import hear_line, measure_leak, measure_told


def test_a_courtesy_a_reason_a_question():
    assert hear_line("Thank you").courteous
    assert hear_line("I need it by Monday because my old one broke").reasons
    assert not hear_line("Just because").reasons  # too short to be one
    assert hear_line("What else?").asks
    assert hear_line("#### !!! ...").wordless
    quiet = hear_line("I would like the lamp.")
    assert not any(quiet)


def test_told_counts_pairs_of_content_words():
    fact = "Broke the museum's oldest vase and glued it overnight."
    assert measure_told(fact, fact) == 1
    assert measure_told(fact, "I broke the museum's oldest vase and glued it overnight") == 1
    # Pairs: broke museum's, museum's oldest, oldest vase, vase glu, glu overnight.
    assert measure_told(fact, "I know the oldest vase") == pytest.approx(1 / 5)
    assert measure_told(fact, "A vase stands in the museum") == 0
    assert measure_told("", fact) == 0


def test_a_secret_leaks_in_parts_and_in_other_orders():
    own = "Failed the driving test six times and drives without a licence."
    # 7 words, driving and drives being one, and 7 pairs: fail driv, driv test, and so on.
    assert measure_leak(own, [own]) == 1
    assert measure_leak(own, ["I failed the driving test."]) == pytest.approx(2 / 7)
    assert measure_leak(own, ["I failed the driving", "driving test six"]) == pytest.approx(4 / 7)
    # In another order the words count where they are more than half: here all but licence.
    assert measure_leak(own, ["Driving without: the test,", "six times failed."]) == pytest.approx(
        6 / 7
    )
    assert measure_leak(own, ["Six test drives?"]) == 0  # 3 words of 7 and no pair
    assert measure_leak(own, ["Six times three.", "Good day."]) == pytest.approx(1 / 7)
    assert measure_leak(own, []) == measure_leak("", ["Hello."]) == 0


@given(st.text(max_size=200))
def test_any_line_can_be_heard(line):
    hear_line(line)
    assert measure_told(line, line) in (0, 1)
