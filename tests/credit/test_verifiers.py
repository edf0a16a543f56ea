"""The six verifiers of MT-GRPO on replies in its format."""

import pytest

from credit import rewards
from credit.rewards import Exchange

CALL = """<reasoning>Who was it?</reasoning>
<tool>{"name": "wiki_search", "args": {"query": "killer clown"}}</tool>"""
ANSWER = "<reasoning>Gacy.</reasoning>\n<answer>John Wayne Gacy</answer>"
INFO = {"answers": ["john wayne gacy ", "Pogo", ""]}


def score(name, reply="", observation="", info=INFO):
    return rewards.find_verifier(name)(Exchange(reply, observation, info))


@pytest.mark.parametrize(
    ("reply", "observation", "expected"),
    [
        (CALL, "<result>John Wayne Gacy was ...</result>", 1),
        (CALL, "<result>Error: no such page</result>", 0),
        (CALL, "Error: Tool command not found", 0),
        (CALL, "plain text of a tool", 1),
        (ANSWER, "<result>something</result>", 0),  # no tool was called
        ("<tool>unclosed", "<result>something</result>", 0),
    ],
)
def test_tool_execution(reply, observation, expected):
    assert score("tool_execution", reply, observation) == expected


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        ("<result>... known as POGO, ...</result>", 1),
        ("<result>somebody else</result>", 0),
        ("Pogo, but outside of a result", 0),
        ("<result></result>", 0),  # an empty accepted answer does not count
    ],
)
def test_result_has_answer(observation, expected):
    assert score("result_has_answer", CALL, observation) == expected


@pytest.mark.parametrize(
    ("answer", "contains", "exact"),
    [
        ("<answer>John Wayne Gacy</answer>", 1, 1),
        ("<answer>\n pogo </answer>", 1, 1),
        ("<answer>It was Pogo, I think</answer>", 1, 0),
        ("<answer>somebody else</answer>", 0, 0),
        ("<answer></answer>", 0, 0),
        ("Pogo", 0, 0),
    ],
)
def test_answers(answer, contains, exact):
    assert (score("answer_contains", answer), score("exact", answer)) == (contains, exact)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (CALL, 1.0),
        (ANSWER, 1.0),
        ("  " + ANSWER + "\n", 1.0),  # spaces around the reply do not count
        ("<reasoning> Gacy.</reasoning><answer>Gacy</answer>", 0.8),  # 0.2 less: a space in a tag
        ("So: " + ANSWER, 0.8),  # 0.2 less: the start
        (ANSWER + " Done.", 0.8),  # 0.2 less: the end
        ("<reasoning>no end", 0.2),  # no complete tag, but the right start
        ("Gacy", 0.0),
    ],
)
def test_xml_format(reply, expected):
    assert score("xml_format", reply) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (ANSWER, 1.0),
        ("<reasoning>a</reasoning><reasoning>b</reasoning><answer>c</answer>", 0.5),
        ("<reasoning>a<answer>c</answer><tool>x</tool>", 2 / 3),
        ("</answer>", 0.0),
        ("nothing", 0.0),
    ],
)
def test_xml_usage(reply, expected):
    assert score("xml_usage", reply) == pytest.approx(expected)


def test_the_papers_weights():  # Fig. 2 and §3.2: turn rewards up to 0.7, outcomes up to 1.9
    turn = sum(rewards.PAPER_WEIGHTS[name] for name in ("tool_execution", "result_has_answer"))
    outcome = sum(rewards.PAPER_WEIGHTS.values()) - turn
    assert (turn, outcome) == pytest.approx((0.7, 1.9))
    assert rewards.PAPER_WEIGHTS.keys() == rewards.VERIFIERS.keys()


def test_a_share_that_was_rounded():
    assert rewards.score_turn("mine:share", lambda turn: 1 + 1e-9, None) == 1.0
    assert rewards.score_turn("mine:share", lambda turn: -1e-9, None) == 0.0
