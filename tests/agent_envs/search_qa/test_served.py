"""The environments on a retrieval server: the same episodes, and what happens when it fails."""

import copy

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.client import Http, RetrievalError
from agent_envs.retrieval.server import serving
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.public import PublicSearchQA as SearchQA
from agent_envs.search_qa.public import PublicWikiSearch as WikiSearch
from agent_envs.testing import check_agent_env
from credit.rewards import TurnVerifier

SEARCH = "<think>x</think><search>{}</search>"


def list_episodes(env, play):
    """All that two tasks show."""
    queries = ("What is the capital of Chad", "Chad", "nothing of that kind zzz")
    return [play(env, *map(SEARCH.format, queries), task=task) for task in env.panel.task_ids]


def test_a_server_changes_nothing(folder, play):
    here = list_episodes(SearchQA(data=folder, split="all", strict_compat=True), play)
    with serving(BM25(open_data(folder).corpus)) as url:
        there = SearchQA(data=folder, split="all", strict_compat=True, retriever=url)
        assert list_episodes(there, play) == here
        assert list_episodes(copy.deepcopy(there), play) == here
        check_agent_env(there)
        wiki = WikiSearch(data=folder, split="all", retriever=url)
        check_agent_env(wiki)


@pytest.mark.parametrize("kind", [SearchQA, WikiSearch])
def test_a_server_that_dies_is_named_and_not_the_agents_mistake(kind, folder, folder_of, play):
    command = '{"name": "wiki_search", "args": {"query": "Chad in Africa"}}'
    ask = SEARCH.format("Chad in Africa") if kind is SearchQA else f"<tool>{command}</tool>"
    with serving(BM25(open_data(folder).corpus)) as url:
        retriever = Http(url, retries=0, outage=0)
        env = kind(data=folder, split="all", retriever=retriever)
        assert play(env, ask)[-1][4]["progress"] == 0.5
        if kind is SearchQA:  # without a corpus
            other = kind(data=folder_of(passages=()), split="all", retriever=url)
            assert "Chad" in play(other, ask)[-1][4]["passages"][0]["title"]
    with pytest.raises(RetrievalError, match=rf"{url} gave no passages in 1 try"):
        play(env, ask)
    with pytest.raises(ResetNeeded):
        env.step(ask)
    answered = play(env, "<answer>N'Djamena</answer>")[-1]  # no search, no server
    assert (answered[1:3], answered[4]["valid"]) == ((1.0, True), True)


def test_the_papers_verifiers_read_these_environments(folder):
    for name, options in (("v0", {"data": str(folder), "split": "all"}), ("v1", {"hops": 1})):
        env = TurnVerifier(gym.make(f"WikiSearch-{name}", **options))
        _, info = env.reset(seed=7)
        query = info["goal"] if name == "v1" else "Chad"
        call = f'<tool>{{"name": "wiki_search", "args": {{"query": "{query}"}}}}</tool>'
        *_, info = env.step(f"<reasoning>a</reasoning>{call}")
        assert info["turn_reward"]["tool_execution"] == 0.2
        assert info["turn_reward"]["xml_format"] == pytest.approx(0.2)
        *_, info = env.step(f"<reasoning>a</reasoning><answer>{info['answers'][0]}</answer>")
        assert info["turn_reward"]["exact"] == 1.0
