"""The environments on a retrieval server: the same episodes, and what happens when it fails."""

from __future__ import annotations

import copy
import socket

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.client import Http, RetrievalError
from agent_envs.retrieval.server import serving
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.env import SearchQA
from agent_envs.search_qa.wiki import WikiSearch
from agent_envs.testing import check_agent_env
from credit.rewards import TurnVerifier

SEARCH = "<think>x</think><search>{}</search>"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("agent_envs.retry.BACKOFF", 0.0)


def played(env):
    """All that two tasks show."""
    shown = []
    for task in range(2):
        observation, info = env.reset(seed=1, options={"task": task})
        shown += [observation, info]
        for query in (info["goal"], "Chad", "nothing of that kind zzz"):
            shown += env.step(SEARCH.format(query))
    return shown


def test_a_server_changes_nothing(folder):
    here = SearchQA(data=folder, split="all", strict_compat=True)
    with serving(BM25(open_data(folder).corpus)) as url:
        there = SearchQA(data=folder, split="all", strict_compat=True, retriever=url)
        assert played(there) == played(here)
        assert played(copy.deepcopy(there)) == played(here)
        check_agent_env(there)
        wiki = WikiSearch(data=folder, split="all", retriever=url)
        check_agent_env(wiki)


def test_a_server_that_dies_is_named_and_taken_for_no_answer(folder):
    with serving(BM25(open_data(folder).corpus)) as url:
        env = SearchQA(data=folder, split="all", retriever=Http(url, outage=0))
        _, info = env.reset(seed=1)
        env.step(SEARCH.format(info["goal"]))
    with pytest.raises(RetrievalError, match=rf"{url} gave no passages in 4 tries"):
        env.step(SEARCH.format("another query"))
    with pytest.raises(ResetNeeded):
        env.step(SEARCH.format("another query"))
    env.reset(seed=1)
    _, reward, terminated, _, info = env.step(f"<answer>{env.question.answers[0]}</answer>")
    assert (reward, terminated, info["valid"]) == (1.0, True, True)  # no search, no server


class Raising:
    """A retriever that fails, as of a server behind it."""

    def search(self, queries, k):
        raise MemoryError(f"{len(queries)} for {k}")


def test_a_server_that_fails_inside_is_named_with_its_error(folder):
    with serving(Raising()) as url:
        env = SearchQA(data=folder, split="all", retriever=Http(url, retries=1, outage=0))
        env.reset(seed=1)
        with pytest.raises(RetrievalError, match=rf"{url} .* 2 tries: HTTP 500.*MemoryError"):
            env.step(SEARCH.format("x"))


@pytest.mark.parametrize("kind", [SearchQA, WikiSearch])
def test_a_server_that_hangs_is_named(kind, folder):
    """One that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/retrieve"
        retriever = Http(url, timeout=0.1, retries=1, outage=0)
        env = kind(data=folder, split="all", retriever=retriever)
        env.reset(seed=1)
        ask = SEARCH.format("Chad")
        if kind is WikiSearch:
            call = '{"name": "wiki_search", "args": {"query": "Chad"}}'
            ask = f"<reasoning>x</reasoning><tool>{call}</tool>"
        with pytest.raises(RetrievalError, match=rf"{url} gave no passages in 2 tries.*timed out"):
            env.step(ask)


def test_a_folder_without_a_corpus_needs_a_server(folder_of):
    folder = folder_of(passages=())
    with pytest.raises(ValueError, match="URL of a retrieval server"):
        SearchQA(data=folder, split="all")
    with serving(BM25(open_data("embedded").corpus)) as url:
        env = SearchQA(data=folder, split="all", retriever=url)
        env.reset(seed=1)
        *_, info = env.step(SEARCH.format("Chad"))
        assert "Chad" in info["passages"][0]["title"]


def test_the_papers_verifiers_read_these_environments():
    env = TurnVerifier(gym.make("WikiSearch-v0", split="test"))
    _, info = env.reset(seed=7)
    call = '<tool>{"name": "wiki_search", "args": {"query": "Chad"}}</tool>'
    *_, info = env.step(f"<reasoning>a</reasoning>{call}")
    assert info["turn_reward"]["tool_execution"] == 0.2
    assert info["turn_reward"]["xml_format"] == pytest.approx(0.2)
    *_, info = env.step(f"<reasoning>a</reasoning><answer>{info['answers'][0]}</answer>")
    assert info["turn_reward"]["exact"] == 1.0
