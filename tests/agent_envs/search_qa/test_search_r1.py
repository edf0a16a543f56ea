"""Search-R1's and verl-agent's texts and rewards, to the byte."""

import pytest

from agent_envs.retrieval.passages import Passage
from agent_envs.search_qa import search_r1, verl_agent

SHORT = "For example, <answer> Beijing </answer>. Question: x?\n"
GOLDS = ("Beatles",)


def score(text, golds=GOLDS, given=1):
    answer = search_r1.find_answer(text, given=given)
    return search_r1.score_em(answer, golds), search_r1.score_sub_em(answer, golds)


def test_the_references_rewards(golden):
    outcomes = {name: case for name, case in golden.items() if "em" in case}
    assert len(outcomes) == 6
    for name, case in outcomes.items():
        assert score(case["text"]) == (case["em"], case["subem"]), name
    cases = {name: case for name, case in golden.items() if name.startswith("fmt:")}
    assert len(cases) == 7
    for name, case in cases.items():
        assert search_r1.score_format(case["text"], GOLDS) == pytest.approx(case["score"]), name


@pytest.mark.parametrize(
    ("reply", "kept", "action"),
    [
        ("a<search>\n b \n</search>c</search>", "a<search>\n b \n</search>", ("search", "b")),
        ("<answer>a</answer> so</answer>", "<answer>a</answer>", ("answer", "a")),
        ("<answer>a</answer><search>b</search>c", "<answer>a</answer><search>b</search>", None),
        ("<Search>b</Search> c", "<Search>b</Search> c", ("", "")),
        ("<search>b", "<search>b", ("", "")),
    ],
)
def test_what_a_reply_asks_for(reply, kept, action):
    assert search_r1.cut_reply(reply) == kept
    assert search_r1.read_action(kept) == (action or ("answer", "a"))


@pytest.mark.parametrize(
    ("said", "em"),
    [
        ("<answer>the beatles!</answer>", 1),
        ("<answer>beatles</answer><answer>stones</answer>", 0),  # the last counts
        ("<information><answer>beatles</answer></information>", 1),  # whoever wrote it
        ("<answer>beatles", 0),
        ("", 0),
    ],
)
def test_the_outcome_reward_reads_everything_again(said, em):
    assert score(SHORT + said)[0] == score(said, given=0)[0] == em  # the latter as in verl-agent
    assert score(said)[0] == 0 or said.count("<answer>") > 1  # needs two answers


FOUND = "<think>a</think> <search>q</search>\n\n<information>The Beatles.</information>\n\n"


@pytest.mark.parametrize(
    ("said", "formed"),
    [
        (f"\n{FOUND} \n<think></think><answer></answer>\n", True),
        (FOUND + FOUND + "<think>c</think><answer>b</answer>", True),
        ("<think>a</think><answer>b</answer> bye", False),
        ("<answer>b</answer>", False),
        ("so <think>a</think><answer>b</answer>", False),
        ("<think>a</think><think>a</think><answer>b</answer>", False),
        ("<think>a</think><search>q</search><answer>b</answer>", False),
        ("<think>a</think><search>q</search><information>i</information><answer>b</answer>", False),
        ("<think>a <think>b</think><answer>b</answer>", False),
        ("<think>a</think><answer>b</answer><think>a</think><answer>b</answer>", False),
        ("<think>a</think>", False),
    ],
)
def test_what_is_well_formed(said, formed):
    assert search_r1.is_well_formed("<|im_start|>assistant" + said) is formed
    assert not search_r1.is_well_formed(said)  # without the assistant's mark


def test_the_references_projections(golden):
    cases = {name.removeprefix("proj:"): v for name, v in golden.items() if name[:5] == "proj:"}
    assert len(cases) == 9
    for reply, ((action,), (valid,)) in cases.items():
        assert verl_agent.project_reply(reply) == (action, bool(valid)), reply


@pytest.mark.parametrize(
    ("reply", "action", "valid"),
    [
        ("<search>q</search>", "<search>q</search>", True),  # no thought is needed
        ("<Answer>\nx\n</aNSWER>", "<answer>x</answer>", True),
        ("<answer>a</answer><answer>b</answer>", "<answer>a</answer>", False),
        ("<think>an <answer>?</think><search>q</search>", "<search>q</search>", False),
        ("<search>q</SEARCH><answer>a</answer>", "<search>q</search>", False),
        ("</search><search>q</search>", "", False),  # cut at the first closing tag
    ],
)
def test_projection(reply, action, valid):
    assert verl_agent.project_reply(reply) == (action, valid)


@pytest.mark.parametrize(
    ("action", "read"),
    [
        ("<search>q</search>", ("search", "q")),
        ("<search>q <answer> a </answer></search>", ("answer", "a")),  # ends the episode
        ("<search>q <answer>a</search>", ("search", "q <answer>a")),
        ("<search></answer><answer></search>", ("answer", "")),
        ("", ("", "")),
    ],
)
def test_what_an_action_does(action, read):
    assert verl_agent.read_action(action) == read


def test_the_information_is_one_json_string():
    passages = [Passage("1", "Chad", "Its capital is N’Djamena. "), Passage("2", 'A "B"', "C\nD")]
    assert verl_agent.render_passages(passages, ascii_only=True) == (
        r'<information>{"result": "Doc 1: \"Chad\"\nIts capital is N\u2019Djamena.\n'
        r'Doc 2: \"A \"B\"\"\nC\nD\n"}</information>'
    )
    assert verl_agent.render_passages(passages[:1], ascii_only=False) == (
        r'<information>{"result": "Doc 1: \"Chad\"\nIts capital is N’Djamena.\n"}</information>'
    )
