"""What a line of a negotiation does: polarity, modality, mood, who speaks of whom, and amounts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.amounts import Amount
from agent_envs.sotopia.english import split_clauses, write_out
from agent_envs.sotopia.reading import KINDS, read_line

PRICE = Amount((100, 20))
OFFERED = (45,)


def read(line, offered=OFFERED, *, fresh=True):
    return read_line(line, PRICE.read_deal, offered, fresh=fresh)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("I can't, I won't, it isn't.", "I can not, I will not, it is not."),
        ("That’s fine, let's go", "That is fine, let us go"),
        ("forty-five dollars", "45 dollars"),
        ("a hundred and twenty", "120"),
        ("two hundred and five", "205"),
        ("one fifty", "150"),
        ("twelve hundred", "1200"),
        ("three thousand two hundred", "3200"),
        ("that one is nice", "that one is nice"),
        ("one hour", "one hour"),
        ("two three", "2 3"),
        ("Anna's dog is free", "Anna's dog is free"),
        ("The van's yours", "The van is yours"),
        ("fıve, ſix, alrıght", "fıve, ſix, alrıght"),  # odd letters, equal in any case
    ],
)
def test_written_out(line, written):
    assert write_out(line) == written


def test_clauses_know_their_connector_and_whether_they_ask():
    found = split_clauses("I like it, but is $40 your last price if I pay cash? No.")
    assert [(c.text, c.link, c.question) for c in found] == [
        ("i like it", "", False),
        ("is $40 your last price", "but", True),
        ("i pay cash", "if", True),
        ("no", "", False),
    ]


LINES = {
    "acceptance": (
        "Deal.", "Agreed!", "Sold!", "I accept.", "I'll take it.", "That works for me.", "Done.",
        "Fine by me.", "You've got a deal.", "OK, let's do that.", "Sounds good to me.", "Yes.",
        "I can live with that.", "I can't say no to that.", "I have no objections.", "It's yours.",
        "Very well, $45 it is.", "$45 suits me.", "You drive a hard bargain, but I agree.",
        "No problem, I'll take it for $45.", "I wanted less, but all right, deal.", "Count me in!",
        "That's a lot of money. Still, I accept your offer.", "Sure, why not.",
        "Deal! When can I pick it up?", "I agree to that.", "Forty-five is fine.",
        "If you insist, deal.", "Thank you, that's perfect.", "You win, I'll buy it.",
    ),
    "refusal": (
        "No deal.", "I do not accept.", "I don't think that works for me.", "$45 is too much.",
        "I agree it is a nice lamp, but I can't afford it.", "That's out of the question.",
        "I can't say yes to that.", "I'd love to, but I can't.", "Sorry, not today.", "Never!",
        "Forty-five? Forget it.", "I won't pay $45.", "I wish I could.", "You're asking too much.",
        "It is far above my means.", "I'll have to pass.", "Thanks, but no thanks.",
        "I paid less than that for a new one, so no.", "That's not acceptable.", "$45 is a joke.",
    ),
    "hedge": (
        "Maybe.", "Let me think about it.", "That might work.", "I'm not sure yet.", "We'll see.",
        "$45 could be all right, I suppose.", "I have to ask my wife.", "I'd consider it.",
        "It's tempting, I must say.", "I accept if you throw in the case.", "Perhaps tomorrow.",
        "Yes, unless it rains.", "Sounds good, but I need to check with my boss.", "It depends.",
        "I wouldn't rule it out.", "I'm not saying no.", "That sounds tempting.", "I guess so.",
        "Sold, maybe.", "I'll take it once I've asked my brother.",
    ),
    "question": (
        "Deal?", "Is $45 your last price?", "Why $45?", "What else?", "How did you get to $45?",
        "Does the $45 include the case?", "Hold on.", "Are you serious?", "Is it new?",
        "What would you do with the $45?", "Who told you that?", "Agreed?", "Can you do better?",
        "That is your best price, is it?", "Do we have a deal?",
    ),
    "talk": (
        "My neighbour paid $30 for his.", "Good morning!", "I agree the cause is great.",
        "It was a great deal of work.", "I ride to work every day.", "Nice weather today.",
        "He accepted an offer yesterday.",
    ),
    "unclear": (
        "I won't pay that, ok.", "Yes, it is a nice lamp.", "No, no, fine.", "I will cook tonight.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "line"), [(kind, one) for kind in LINES for one in LINES[kind]])
def test_the_class_of_a_line(kind, line):
    assert read(line).kind == kind


@pytest.mark.parametrize(
    "line",
    [
        "How about $40?", "Make it forty and we have a deal.", "I'd pay 40 dollars.",
        "Would you take $40?", "$45 is too much, I can pay $40.", "No. Forty.",
        "You said $45, I say $40.", "$40, not $45.", "I can't go above $40.",
        "Not a cent more than $40.", "My limit is $40.", "Deal at $40!",
        "If you make it $40, I'll take it.", "I offer $40 because a new one costs $60.",
        "My neighbour paid $30 for his, but I'd give you $40.", "Instead of $45, let's say $40.",
        "I could go up to $40.", "Let's split it at $40, shall we?",
    ],
)  # fmt: skip
def test_offering(line):
    assert read(line) == ("offer", (40,), False)


@pytest.mark.parametrize("end", ["for all", "for everything", "for all of it", "each"])
def test_a_line_that_begins_with_but_names_its_terms(end):
    """Only what comes before a "but" can be what the rest is an exception from."""
    line = f"I give you $40 {end}."
    assert read(f"But {line}") == read(line)
    assert read(line).terms == (40,)


def test_a_mere_yes_answers_what_was_said_last():
    assert read("Yes.", fresh=True).kind == "acceptance"
    assert read("Yes.", fresh=False).kind == "talk"
    assert read("Agreed.", fresh=False).kind == "acceptance"


def test_naming_the_open_terms_takes_them():
    assert read("Then $45.") == ("acceptance", OFFERED, False)
    assert read("Then $45.", offered=None) == ("offer", OFFERED, False)


@pytest.mark.parametrize(
    "line",
    ["I take that back.", "Wait, I did not mean that.", "On second thought, no.", "Never mind."],
)
def test_taking_back(line):
    assert read(line).withdraws
    assert read(line).kind == "refusal"


@given(st.text(max_size=200))
def test_any_line_can_be_read(line):
    assert read(line).kind in KINDS
