"""Typed answers: what people write is read, and nothing else is accepted."""

import json
import tomllib
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.search_qa.answers import KINDS, Answer
from agent_envs.search_qa.world import open_world

FACTS = tomllib.loads(Path(__file__).with_name("forms.toml").read_text(encoding="utf-8"))["fact"]

STRANGERS = json.loads(Path(__file__).with_name("strangers.json").read_text(encoding="utf-8"))


def make_answer(fact):
    value = fact.get("value", fact.get("names", [None])[0])
    if fact["kind"] == "date" and value:
        value = date.fromisoformat(value)
    names = tuple(fact.get("names", ()))
    return Answer(fact["kind"], value, names, fact.get("unit", ""), fact.get("tolerance", 0))


def judge(fact, text):
    return make_answer(fact).judge(text, fact["question"])[0]


def test_recall_and_precision_on_forms_written_before_the_reader():
    right = [judge(fact, text) for fact in FACTS for text in fact["right"]]
    wrong = [judge(fact, text) for fact in FACTS for text in fact["wrong"]]
    assert min(len(right), len(wrong)) >= 300
    assert sum(right) / len(right) >= 0.95
    assert sum(right) / (sum(right) + sum(wrong)) >= 0.98


@pytest.mark.parametrize("stranger", STRANGERS)
def test_recall_and_precision_on_forms_of_strangers(stranger):
    """Each was measured before its misses were mended; the page has those figures."""
    right, wrong = [], []
    for task_id, texts in STRANGERS[stranger].items():
        split, hops, number = task_id.split("-")
        world = open_world(split)
        question = world.draw_question(task_id, int(hops), int(number))
        for judged, forms in ((right, texts["right"]), (wrong, texts["wrong"])):
            about = (question.text, world.named, question.steps)
            judged += [question.answer.judge(text, *about)[0] for text in forms]
    assert min(len(right), len(wrong)) >= 200
    assert sum(right) / len(right) >= 0.95
    assert sum(right) / (sum(right) + sum(wrong)) >= 0.98


NUMBER = Answer("number", 412, unit="km", tolerance=0.01)


@pytest.mark.parametrize(
    ("answer", "text", "reason"),
    [
        (Answer("date", date(1874, 3, 12)), "Velmora", "the answer is not a date"),
        (Answer("date", date(1874, 3, 12)), "12 March 1875", "the value is another one"),
        (NUMBER, "long", "the answer is not a number in km"),
        (NUMBER, "412 kg", "the answer is not a number in km"),
        (Answer("number", 12, unit="crowns"), "12 goats", "the answer is not a number in crowns"),
        (NUMBER, "380 km", "the value is another one"),
        (NUMBER, "380 or 412 km", "the answer does not commit to one value"),
        (NUMBER, "380 km, 412 km", "the answer does not commit to one value"),
        (Answer("date", date(1874, 3, 12)), "12 March 1874, 3 May 1870",
         "the answer does not commit to one value"),
        (NUMBER, "unknown", "an article says it"),
        (NUMBER, " ? ", "the answer is empty"),
        (NUMBER, "412 " * 600, "the answer has more than 2,000 characters"),
        (Answer("yes_no", value=True), "1874", "the answer is not yes or no"),
        (Answer("entity", "Velmora", ("Velmora",)), "Kest", "it names another thing"),
    ],
)  # fmt: skip
def test_a_wrong_answer_has_a_reason(answer, text, reason):
    assert answer.judge(text) == (False, reason)


TOWN = Answer("entity", "Velmora", ("Velmora", "Saltgate"), sort="town")
RIVER = Answer("entity", "Sarn", ("Sarn",), sort="river")
CROWNS = Answer("number", 53, unit="crowns")
OPENED = Answer("date", date(1874, 3, 12))
ONE = Answer("number", 1)
SUM = Answer("number", 130, unit="crowns")
YES, NO = Answer("yes_no", value=True), Answer("yes_no", value=False)
NOWHERE = Answer("entity", None, sort="town")
ASKED = "In which town was the founder of the Harrow Guild born?"
STEPS = ("Orrin", "80 crowns", "50 crowns")
NAMED = frozenset({"velmora", "saltgate", "kest", "orrin", "harrow", "sarn"})


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [
        pytest.param(
            CROWNS,
            "A chronicle of 1842 gives 53 crowns.|53 crowns as of 1842|In 1842 it was 53 crowns."
            "|The 1842 survey has 53 crowns.|53 crowns (survey, 1842)",
            "the chronicle of 53|53 in 1842 and 61 in 1850",
            id="years of sources",
        ),
        pytest.param(OPENED, "12 March 1874, by the survey of 1880|As of 1880, 12 March 1874",
                     "the survey of 12 March|March 1874, by the survey of 1880",
                     id="years of sources of dates"),
        pytest.param(CROWNS,
                     "53 crowns [Passage 4]|Passage 4: 53 crowns|53 crowns (see documents 2 and 3)",
                     "Chapter 53|document 53", id="citations of numbers"),
        pytest.param(TOWN, "Velmora [3]|Velmora (Passage 1)", "[Passage 1]", id="citations"),
        pytest.param(
            TOWN,
            "Velmora instead of Kest|It was never Kest but Velmora|At first Kest, now Velmora"
            "|Velmora (an older register has Kest)|Not Kest! It is Velmora."
            "|Velmora, though a survey of 1802 names Kest",
            "Kest instead of Velmora|It was never Velmora but Kest|Velmora is outdated; Kest"
            "|Velmora, though the newest survey names Kest|anywhere but Velmora",
            id="rejected names",
        ),
        pytest.param(
            CROWNS,
            "53 crowns, never 61|rather 53 than 61|53 crowns (61 is obsolete)|61 crowns? No, 53.",
            "61 crowns, never 53|rather 61 than 53|53? No.|more than 53",
            id="rejected numbers",
        ),
        pytest.param(OPENED,
                     "It was not 3 May 1870 but 12 March 1874|12 March 1874 rather than 3 May 1880",
                     "It was not 12 March 1874 but 3 May 1870|earlier than 12 March 1874",
                     id="rejected dates"),
        pytest.param(
            SUM,
            "80 plus 50 makes 130|80 crowns and 50 crowns together are 130 crowns"
            "|130, the sum of 80 and 50|80 + 50 = 130|180 take away 50 is 130",
            "80 plus 50|80 plus 50 makes 120|the sum of 80 and 50|130 and 50",
            id="arithmetic",
        ),
        pytest.param(ONE, "only 1 of these two|one out of the two|Of the two, just one",
                     "neither of those two|both out of two|at least one of the two", id="counts"),
        pytest.param(TOWN,
                     f"{ASKED} Velmora.|You asked: {ASKED} It is Velmora.|Which town? Velmora",
                     f"{ASKED}|{ASKED} Kest|Velmora? Kest?", id="quoted questions"),
        pytest.param(YES, f"{ASKED} Yes.", f"{ASKED} No.", id="quoted questions of yes or no"),
        pytest.param(NO, "It is older, hence no.|In short, no.|No, beyond doubt.|Certainly not.",
                     "It is older, hence yes.|yes, no|no or unknown", id="commitment"),
        pytest.param(TOWN, r"<i>Velmora</i>|\boxed{\text{Velmora}}|Without doubt Velmora.",
                     r"<i>Kest</i>|\boxed{Kest}", id="markup"),
        pytest.param(OPENED, "roughly 12 March 1874|12 March 1874, that is 1874-03-12",
                     "roughly March 1874|12 March 1874, that is 1874-03-13", id="a date twice"),
        pytest.param(
            NOWHERE,
            "unknown (I read Doc 1 and Doc 2)|Therefore unknown",
            "hardly unknown|It is by no means unknown.|unknown or Kest|Kest (unknown)"
            "|Kest, else unknown",
            id="unknown",
        ),
        pytest.param(CROWNS, "53 crowns per year",
                     "53 crowns, otherwise unknown|53 crowns, but it is not stated",
                     id="a value and unknown"),
        pytest.param(
            TOWN,
            "the village of Velmora",
            "a village beside Velmora|the road to Velmora|the novel Velmora|someone from Velmora"
            "|the Velmora company|a man who left Velmora",
            id="relations and sorts",
        ),
        pytest.param(RIVER, "the stream Sarn", "the book Sarn|a bridge over the Sarn", id="sorts"),
        pytest.param(TOWN, "Saltgate or Velmora", "Harrow (once Velmora)|Harrow, Velmora",
                     id="names asked"),
        pytest.param(
            TOWN,
            "Velmora (the founder, Orrin, lived there)|Orrin (the founder) was born in Velmora."
            "|The founder is Orrin, and Velmora is his town.|Guild: Harrow. Town: Velmora",
            "Orrin|Orrin, Velmora|Orrin lived in Kest; he was not born in Velmora.",
            id="names on the way",
        ),
        pytest.param(SUM,
                     "130: 80 in the one and 50 in the other|80 crowns here, 50 there, 130 in all",
                     "80 and 50|80, 50 and 131", id="values on the way"),
        pytest.param(
            TOWN,
            "Velmora. Kest was named by the register before."
            "|Velmora, because Kest came somewhat later.",
            "Velmora. Actually the registers say Kest.|Velmora. But the register says Kest."
            "|Kest. Velmora was named by the register before.|Velmora: Kest has it too, they say",
            id="an answer and its explanation",
        ),
        pytest.param(
            CROWNS,
            "the two debts come to 53 crowns|53 crowns; the 61 crowns are his pay, as they say"
            "|$53$|53 crowns/year|He owes 53 crowns, so that is it.",
            "the two debts come to 61 crowns|61 crowns; the 53 crowns are his pay, as they say",
            id="numbers in sentences",
        ),
        pytest.param(NUMBER, "412 km in all", "412 km each day|412 km cubed|412+ km", id="units"),
        pytest.param(
            OPENED,
            "12 March 1874",
            "as from 12 March 1874|beginning 12 March 1874|12 March 1874 onward|by 12 March 1874",
            id="bounds",
        ),
    ],
)  # fmt: skip
def test_each_step_of_reading(answer, right, wrong):
    def judge_all(texts):
        return {text: answer.judge(text, ASKED, NAMED, STEPS)[0] for text in texts.split("|")}

    assert judge_all(right) == dict.fromkeys(right.split("|"), True)
    assert judge_all(wrong) == dict.fromkeys(wrong.split("|"), False)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["kind"])
def test_its_own_form_is_right_and_its_denial_wrong(fact):
    answer = make_answer(fact)
    assert answer.judge(str(answer))[0]
    if answer.value is not None:
        assert not answer.judge(f"It is not {answer}")[0] or answer.value is False


@given(st.sampled_from(FACTS), st.text(max_size=80))
def test_no_text_breaks_it(fact, text):
    right, reason = make_answer(fact).judge(text, fact["question"])
    assert right == (not reason)
    assert fact["kind"] in KINDS
