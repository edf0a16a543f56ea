"""Accepted answers: cases judged by hand, numbers as numbers, and what is no answer."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_envs.search_qa.accepted import REWARDS, Accepted, forms
from agent_envs.search_qa.answers import exact_match
from agent_envs.testing.checkers import Case, audit_checker

CASES = Path(__file__).with_name("cases")
FAMILIES = sorted(path.stem for path in CASES.iterdir())


def cases(family):
    """Of each line of the file: the question, its accepted answers, an answer, a person's word."""
    question, answers = "", ()
    for line in (CASES / f"{family}.txt").read_text(encoding="utf-8").splitlines()[1:]:
        mark, _, text = line.partition(" ")
        if mark == "?":
            question, _, told = text.rpartition(" | ")
            answers = tuple(told.split(" ; "))
        else:
            yield Case(family, (question, answers, text), {"+": True, "-": False}[mark])


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_judged_by_hand(family):
    known = list(cases(family))
    assert len(set(known)) == len(known) >= 50
    assert min(sum(case.right for case in known), sum(not case.right for case in known)) >= 20
    found = audit_checker(lambda c: Accepted(c[1], c[0]).right(c[2]), known)
    assert found.passed(0.98), str(found)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("-38.80 °C", "minus38point8 celsius"),
        ("minus 38.8 degrees Celsius", "minus38point8 celsius"),
        ("1,085", "1085"),
        ("1 085.50", "1085point5"),
        ("38,8", "38point8"),
        ("1,2,3", "1 2 3"),
        ("4.46 billion years", "4460000000 years"),
        ("4.46 × 10⁹ years", "4460000000 years"),
        ("1.5e-3 km", "0point0015 kilometres"),
        ("007", "007"),  # a code
        ("twenty-six", "26"),
        ("5th", "5th"),
        ("H2O", "h2o"),
        ("minus", "minus"),
        ("The Beatles!", "beatles"),
        ("São Tomé & Príncipe", "sao tome and principe"),
        ("Straße", "strasse"),
        ("Đà Nẵng", "da nang"),
        ("Ελλάδα", "ελλάδα"),  # of Latin letters alone
        ("が 東京。", "が 東京"),
        ("the", ""),
    ],
)
def test_how_a_text_is_compared(text, kept):
    assert forms(text).joined == kept


def test_hyphens_are_nothing_or_blanks():
    assert forms("Fort-Lamy") == ("fortlamy", "fort lamy")
    assert forms("U.S.S.R.") == ("ussr", "u s s r")
    assert forms("Africa/Port_Louis") == ("africaportlouis", "africa port louis")


DECIMALS = st.decimals(-(10**9), 10**9, places=3, allow_nan=False)


def written(value):
    """Ways to write a number."""
    sign, digits = ("-" if value < 0 else ""), f"{abs(value):,f}"
    plain = digits.replace(",", "")
    ways = {f"{s}{d}" for d in (digits, plain) for s in (sign, sign.replace("-", "−"))}
    ways |= {digits.replace(",", " "), f"{plain}0"} if not sign else {f"minus {plain}"}
    return ways | ({f"+{digits}"} if not sign else set())


@given(DECIMALS, DECIMALS)
def test_numbers_are_right_when_their_value_is(gold, other):
    """Whatever the way to write them; SQuAD's normalising loses sign and point of both."""
    assume(not gold.is_zero() and gold != other)
    for spelled in written(gold):
        accepted = Accepted([spelled], "How much is it?")
        assert all(accepted.right(way) for way in written(gold))
        assert not any(accepted.right(way) for way in written(other))
        assert not any(accepted.paid(reward, way) for reward in REWARDS for way in written(other))


@given(DECIMALS, st.sampled_from([10, 1000, Decimal("0.1"), -1]))
def test_a_point_moved_or_a_sign_lost_is_wrong(gold, factor):
    assume(not gold.is_zero())
    for unit in ("", " percent", " degrees Celsius", " years"):
        accepted = Accepted([f"{gold}{unit}"], "How much is it?")
        assert accepted.right(f"{gold:,}{unit}")
        assert not accepted.right(f"{gold * factor:f}{unit}")
        if "." in f"{gold:f}":
            assert not accepted.right(f"{gold:f}{unit}".replace(".", ""))


@pytest.mark.parametrize("unit", ["percent", "°C", "degrees Fahrenheit", "km", "km²", "years", "d"])
def test_another_unit_is_wrong(unit):
    units = {"percent", "°C", "degrees Fahrenheit", "km", "km²", "years", "d"}
    accepted = Accepted([f"12.5 {unit}"], "How much is it?")
    assert accepted.right("12.5") == (unit == "percent")  # which "How many percent" asks for
    assert [accepted.right(f"12.5 {other}") for other in units - {unit}] == [False] * 6
    assert accepted.right(f"12.50 {unit}")


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=30))
def test_what_the_rewards_have_in_common(answer, gold, question):
    accepted = Accepted([gold], question)
    paid = {reward: accepted.paid(reward, answer) for reward in REWARDS}
    assert paid["em"] == float(accepted.right(answer))
    assert all(paid["em"] <= value <= 1 for value in paid.values())
    assert accepted.right(gold) == bool(forms(gold).joined and forms(gold).spaced)
    assert not any(paid.values()) or forms(gold).joined


@given(st.from_regex(r"[A-Za-zé' ]{1,30}", fullmatch=True), st.text(max_size=20))
def test_what_squad_accepts_of_names_is_accepted(gold, question):
    for answer in (gold.upper(), f"the {gold}.", f" {gold}!"):
        if exact_match(answer, [gold]):
            assert Accepted([gold], question).right(answer)


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ("Paris", 1),
        ("in Paris, France", 1),
        ("Paris on the river Seine", 1),  # three words beside it
        ("Paris on the left bank there", 0),
        ("Paris Rome London Berlin Vienna", 0),
        ("a Parisian", 0),
        ("", 0),
    ],
)
def test_an_answer_with_an_accepted_one_in_it(answer, paid):
    assert Accepted(["Paris"], "Where is it?").paid("sub_em", answer) == paid


def test_numbers_beside_a_number_are_a_list():
    accepted = Accepted(["1867"], "When was it?")
    assert accepted.paid("sub_em", "perhaps 1867") == 1
    assert accepted.paid("sub_em", "1867 1868") == 0
    assert accepted.paid("f1", "1867 1868") == 0
    temperature = Accepted(["38.8 degrees Celsius"], "How warm is it?")
    assert temperature.paid("f1", "39.8 degrees Celsius") == 0
    assert temperature.paid("f1", "about 38.8 degrees Celsius") == pytest.approx(4 / 5)


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize(
    ("question", "gold"), [("Which is larger, Chad or Mali?", "Chad"), ("Is it so?", "yes")]
)
def test_a_choice_is_right_or_wrong(reward, question, gold):
    accepted = Accepted([gold], question)
    assert accepted.choice
    assert accepted.paid(reward, f"{gold}.") == 1
    for answer in ("Chad or Mali", "Mali Chad", "yes no", "yes or no", question, "Mali"):
        assert accepted.paid(reward, answer) == 0
    assert not accepted.shown([gold, question])


def test_what_shows_an_answer():
    accepted = Accepted(["York", "38.8", "the"], "Where?")
    assert accepted.shown(["Yorkshire", "in York."])
    assert accepted.shown(["It melts at 38.80 °C."])
    assert not accepted.shown(["Yorkshire", "-38.8", "388", "138.8", "the"])
    assert not Accepted(["the"], "Which?").shown(["the"])


LONG = ["1", "1,", "1.1", "minus ", "- 5 ", "(, ", "five ", "1 thousand ", "5e9", "é", "10^"]


@pytest.mark.parametrize("text", [piece * (60_000 // len(piece)) for piece in LONG])
def test_long_texts_take_no_time(text):
    start = time.process_time()
    Accepted(["x"], "How many?").paid("f1", text)
    Accepted([text], text).right("5")
    assert time.process_time() - start < 5
