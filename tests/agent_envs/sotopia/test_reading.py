"""What a line of a negotiation does: polarity, modality, mood, who speaks of whom, and amounts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.amounts import Amount
from agent_envs.sotopia.english import write_out
from agent_envs.sotopia.reading import KINDS, read_line
from benchmarks.reading import ACTS
from benchmarks.reading import read as read_in_context
from tests.agent_envs.sotopia.samples import read_lines

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


LINES = {
    "talk": (
        "My neighbour paid $30 for his.", "Good morning!", "I agree the cause is great.",
        "It was a great deal of work.", "I ride to work every day.", "Nice weather today.",
        "He accepted an offer yesterday.",
    ),
    "unclear": (
        "I won't pay that, ok.", "Yes, it is a nice lamp.", "No, no, fine.", "I will cook tonight.",
    ),
    "acceptance": ("I can't say no to that.", "Sure, why not.", "If you insist, deal."),
    "refusal": ("I can't say yes to that.", "I'd love to, but I can't.", "Thanks, but no thanks."),
    "hedge": ("I accept if you throw in the case.", "I'm not saying no.", "Sold, maybe."),
    "question": ("Deal?", "Hold on.", "That is your best price, is it?"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "line"), [(kind, one) for kind in LINES for one in LINES[kind]])
def test_the_class_of_a_line(kind, line):
    assert read(line).kind == kind


@pytest.mark.parametrize(
    ("half", "right"), [("dev", [141, 141, 160, 170, 154]), ("held", [107, 94, 133, 163, 130])]
)
def test_so_many_of_172_lines_of_a_kind_are_read_as_that_kind(half, right):
    lines = [read_lines(f"{half}/{act}") for act in ACTS]
    assert [sum(read_in_context(row) == row["act"] for row in rows) for rows in lines] == right


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
