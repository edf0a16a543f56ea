"""The Oracle of questions: what it searches for, and that it answers in time."""

import json

import pytest
from planned import planned

from agent_envs.retrieval.factory import Scripted
from agent_envs.search_qa.oracle import Oracle
from agent_envs.search_qa.public import PublicSearchQA as SearchQA
from agent_envs.search_qa.public import PublicWikiSearch as WikiSearch

CHAD, CAPITAL, ANSWER = "Chad", "N'Djamena", "<answer>N'Djamena</answer>"


def tool(name, **arguments):
    return f"<tool>{json.dumps({'name': name, 'args': arguments})}</tool>"


def search(*queries):
    return [f"<search>{query}</search>" for query in queries]


WAYS = [
    (SearchQA, {"protocol": protocol, "strict_compat": strict}, [*search(CHAD, CAPITAL), ANSWER])
    for protocol in ("search_r1", "verl_agent")
    for strict in (False, True)
]
WAYS += [
    (WikiSearch, {"strict_compat": strict}, [tool("wiki_search", query=CHAD), ANSWER])
    for strict in (False, True)
]


@pytest.mark.parametrize(("kind", "options", "actions"), WAYS)
def test_it_searches_for_each_gold_passage_and_answers(make_env, kind, options, actions):
    env = make_env(kind, retriever="bm25", **options)
    env.reset(options={"task_id": "chad"})
    assert planned(env, Oracle) == actions
    assert env.turn == 0  # nothing was done
    *_, found, answered = [env.step(action) for action in actions]
    assert found[4]["progress"] == 1 or len(actions) == 2  # the one call may find Lake Chad
    assert answered[1] == 1
    assert answered[4]["success"]


def test_it_goes_on_from_where_it_is(make_env):
    env = make_env(SearchQA, retriever="bm25")
    env.reset(options={"task_id": "chad"})
    env.step("<search>Chari</search>")
    env.step("hm")
    assert planned(env, Oracle) == [*search(CHAD), ANSWER]
    env.reset(options={"task_id": "france"})  # without gold passages: the question
    question = "Which city is France's capital?"
    assert planned(env, Oracle) == [*search(question), "<answer>Paris</answer>"]
    assert Oracle(env).think() == f"I should look for {question}."
    env.step(Oracle(env).act())
    assert Oracle(env).think() == "That is Paris."


@pytest.mark.parametrize(
    ("options", "searches"),
    [
        ({"max_turns": 3}, 2),
        ({"max_turns": 1}, 0),
        ({"protocol": "verl_agent"}, 3),
        ({}, 4),
        ({"strict_compat": True}, 4),
    ],
)
def test_it_answers_in_time_though_it_finds_nothing(make_env, options, searches):
    env = make_env(SearchQA, retriever=Scripted({}), **options)
    env.reset(options={"task_id": "chad"})
    beginning = "Chad Chad is a country in Africa. Its capital is N'Djamena."
    others = [CHAD, beginning, CAPITAL, "N'Djamena N'Djamena is a city on the Chari."]
    actions = planned(env, Oracle)
    assert actions == [*search(*others[:searches]), ANSWER]
    assert [env.step(action) for action in actions][-1][4]["success"]


@pytest.mark.parametrize(
    "passage", [("é", "", "Q"), ("é", " Q ", ""), ("é", "", ""), ("e", "", "")]
)
@pytest.mark.parametrize("kind", [SearchQA, WikiSearch])
def test_passages_without_title_text_or_place(folder_of, kind, passage):
    question = {"id": "q", "question": "Q", "answers": ["A"], "gold": ["é"]}
    record = dict(zip(("id", "title", "text"), (*passage, "", ""), strict=False))
    env = kind(data=folder_of([question], [record]), split="all")
    env.reset()
    actions = planned(env, Oracle)
    assert actions[-1] == "<answer>A</answer>"
    assert len(set(actions)) == len(actions) <= 2
