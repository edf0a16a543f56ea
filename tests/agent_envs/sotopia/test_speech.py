"""What lines do, by the words in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.speech import heard, leaked, told


def test_a_courtesy_a_reason_a_question():
    assert heard("Thank you").courteous
    assert heard("I need it by Monday because my old one broke").reasons
    assert not heard("Just because").reasons  # too short to be one
    assert heard("What else?").asks
    assert heard("#### !!! ...").wordless
    quiet = heard("I would like the lamp.")
    assert not any(quiet)


def test_told_counts_pairs_of_content_words():
    fact = "Broke the museum's oldest vase and glued it overnight."
    assert told(fact, fact) == 1
    assert told(fact, "I broke the museum's oldest vase and glued it overnight") == 1
    # Pairs: broke museum's, museum's oldest, oldest vase, vase glu, glu overnight.
    assert told(fact, "I know the oldest vase") == pytest.approx(1 / 5)
    assert told(fact, "A vase stands in the museum") == 0
    assert told("", fact) == 0


def test_a_secret_leaks_in_parts_and_in_other_orders():
    own = "Failed the driving test six times and drives without a licence."
    # 7 words, driving and drives being one, and 7 pairs: fail driv, driv test, and so on.
    assert leaked(own, [own]) == 1
    assert leaked(own, ["I failed the driving test."]) == pytest.approx(2 / 7)
    assert leaked(own, ["I failed the driving", "driving test six"]) == pytest.approx(4 / 7)
    # In another order the words count where they are more than half: here all but licence.
    assert leaked(own, ["Driving without: the test,", "six times failed."]) == pytest.approx(6 / 7)
    assert leaked(own, ["Six test drives?"]) == 0  # 3 words of 7 and no pair
    assert leaked(own, ["Six times three.", "Good day."]) == pytest.approx(1 / 7)
    assert leaked(own, []) == leaked("", ["Hello."]) == 0


@given(st.text(max_size=200))
def test_any_line_can_be_heard(line):
    heard(line)
    assert told(line, line) in (0, 1)
