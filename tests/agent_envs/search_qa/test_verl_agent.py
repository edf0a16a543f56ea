"""verl-agent's projection and information; its rewards are in test_env."""

from __future__ import annotations

import pytest

from agent_envs.retrieval.passages import Passage
from agent_envs.search_qa import verl_agent


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
        ("<search>q <answer>a</answer> <answer> b </answer></search>", ("answer", "b")),
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
