"""The Oracle of questions: what it searches for, and that it answers in time."""

from __future__ import annotations

import pytest
from planned import planned

from agent_envs.retrieval.factory import Scripted
from agent_envs.retrieval.passages import Passage
from agent_envs.search_qa.env import SearchQA
from agent_envs.search_qa.experts import Oracle
from agent_envs.search_qa.wiki import WikiSearch


def tool(name, **arguments):
    ((parameter, value),) = arguments.items()
    return f'<tool>{{"name": "{name}", "args": {{"{parameter}": "{value}"}}}}</tool>'


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("protocol", ["search_r1", "verl_agent"])
def test_it_searches_for_each_gold_passage_and_answers(folder, protocol, strict):
    env = SearchQA(data=folder, split="all", protocol=protocol, strict_compat=strict)
    env.reset(options={"task_id": "chad"})
    actions = planned(env, Oracle)
    assert actions == [
        "<search>Chad</search>",
        "<search>N'Djamena</search>",
        "<answer>N'Djamena</answer>",
    ]
    assert env.turn == 0  # nothing was done
    *_, found, answered = [env.step(f"<think>t</think>{action}") for action in actions]
    assert found[4]["progress"] == 1
    assert answered[1] == 1
    assert answered[4]["success"]


def test_without_gold_passages_it_searches_for_the_question(folder):
    env = SearchQA(data=folder, split="all")
    env.reset(options={"task_id": "france"})
    assert planned(env, Oracle) == [
        "<search>Which city is France's capital?</search>",
        "<answer>Paris</answer>",
    ]


def test_it_goes_on_from_where_it_is(folder):
    env = SearchQA(data=folder, split="all")
    env.reset(options={"task_id": "chad"})
    env.step("<search>Chari</search>")
    env.step("hm")
    assert planned(env, Oracle) == ["<search>Chad</search>", "<answer>N'Djamena</answer>"]


@pytest.mark.parametrize(
    ("options", "searches"),
    [
        ({"max_searches": 0}, 0),
        ({"max_searches": 1}, 1),
        ({"max_turns": 3}, 2),
        ({"max_turns": 1}, 0),
        ({"protocol": "verl_agent"}, 3),
        ({}, 4),
        ({"strict_compat": True}, 4),
    ],
)
def test_it_answers_in_time_though_it_finds_nothing(folder, options, searches):
    env = SearchQA(data=folder, split="all", retriever=Scripted({}), **options)
    env.reset(options={"task_id": "chad"})
    actions = planned(env, Oracle)
    assert actions[-1] == "<answer>N'Djamena</answer>"
    assert len(set(actions)) == len(actions) == searches + 1  # each search is another
    beginning = "Chad Chad is a country in Africa. Its capital is N'Djamena."
    others = ["Chad", beginning, "N'Djamena", "N'Djamena N'Djamena is a city on the Chari."]
    assert actions[:-1] == [f"<search>{query}</search>" for query in others[:searches]]
    assert [env.step(action) for action in actions][-1][4]["success"]


def test_a_gold_passage_that_is_not_in_the_corpus(folder_of):
    question = {"id": "q", "question": "Q", "answers": ["A"], "gold": ["nowhere"]}
    env = SearchQA(data=folder_of([question]), split="all")
    env.reset()
    assert planned(env, Oracle) == ["<answer>A</answer>"]


@pytest.mark.parametrize("passage", [Passage("é", "", "Q"), Passage("é", " Q ", ""), ("é", "", "")])
def test_passages_without_title_or_text(folder_of, passage):
    question = {"id": "q", "question": "Q", "answers": ["A"], "gold": ["é"]}
    folder = folder_of([question], [Passage(*passage)._asdict()])
    for protocol in ("search_r1", "mt_grpo"):
        env = (SearchQA if protocol == "search_r1" else WikiSearch)(data=folder, split="all")
        env.reset()
        actions = planned(env, Oracle)
        assert actions[-1] == "<answer>A</answer>"
        assert len(set(actions)) == len(actions) <= 2


@pytest.mark.parametrize("strict", [False, True])
def test_with_one_call(folder, strict):
    env = WikiSearch(data=folder, split="all", strict_compat=strict, reward="merged")
    env.reset(options={"task_id": "chad"})
    actions = planned(env, Oracle)
    assert actions == [tool("wiki_search", query="Chad"), "<answer>N'Djamena</answer>"]
    *_, (_, reward, _, _, info) = [env.step(f"<reasoning>r</reasoning>{a}") for a in actions]
    assert reward == pytest.approx(2.6 if info["gold_hits"] else 2.1 if strict else 1.9)
    assert info["success"]


def test_with_pages(folder):
    env = WikiSearch(data=folder, split="all", protocol="wiki_pages")
    env.reset(options={"task_id": "chad"})
    actions = planned(env, Oracle)
    assert actions == [
        tool("search_pages", query="Chad"),
        tool("view_sections", page_id="p1"),
        tool("read_section", section_id="p1:full"),
        tool("search_pages", query="N'Djamena"),
        tool("view_sections", page_id="p2"),
        tool("read_section", section_id="p2:full"),
        "<answer>N'Djamena</answer>",
    ]
    *_, read, answered = [env.step(action) for action in actions]
    assert read[4]["progress"] == 1
    assert answered[4]["success"]


def test_it_says_why(folder):
    env = SearchQA(data=folder, split="all")
    env.reset(options={"task_id": "france"})
    expert = Oracle(env)
    assert (expert.act(), expert.think()) == (
        "<search>Which city is France's capital?</search>",
        "I should look for Which city is France's capital?.",
    )
    env.step(expert.act())
    assert (expert.act(), expert.think()) == ("<answer>Paris</answer>", "That is Paris.")
