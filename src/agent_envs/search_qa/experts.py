"""The expert of SearchQA and WikiSearch: an Oracle, which knows the answer and its passages.

It searches for the gold passages that it has not yet seen, one after the other, by the question
that each of them answers or by its title. It answers when it has seen all of them or has no search
left. There is no Explorer, since it would have to understand questions and passages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, cast

from agent_envs.experts import playing
from agent_envs.search_qa.env import SearchQA
from agent_envs.search_qa.wiki import WikiSearch

if TYPE_CHECKING:
    from typing import Any

    import gymnasium as gym

    from agent_envs.retrieval.passages import Passage


class Step(NamedTuple):
    """An action and its reason in a few words."""

    action: str
    thought: str


class Oracle:
    """Searches for the gold passages, then gives the first accepted answer."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = cast("SearchQA | WikiSearch", playing(env, SearchQA, WikiSearch))

    def act(self) -> str:
        """The next action; it is not executed."""
        return self._next().action

    def think(self) -> str:
        """The reason for the next action."""
        return self._next().thought

    def _next(self) -> Step:
        env = self._env
        answer = env.question.answers[0]
        for query in self._queries():
            if isinstance(env, WikiSearch):
                return self._call(env, query)
            tag = f"<search>{query}</search>"
            if tag not in self._done():
                return Step(tag, f"I should look for {query}.")
        return Step(f"<answer>{answer}</answer>", f"That is {answer}.")

    def _queries(self) -> list[str]:
        """The remaining useful queries, [] if no search is left."""
        env, corpus = self._env, self._env.data.corpus
        if isinstance(env, SearchQA) and env.searches_left == 0:
            return []
        once = isinstance(env, WikiSearch) and env.protocol == "mt_grpo" and env.called
        if once or env.turn + 1 >= env.max_turns:
            return []
        if corpus is None or not env.question.gold:
            return [env.question.text]
        missing = [gold for gold in env.question.gold if gold not in env.facts.seen]
        passages = [corpus[corpus.place[gold]] for gold in missing if gold in corpus.place]
        asks = {step["gold"]: step["question"] for step in env.question.steps if "gold" in step}
        asking = isinstance(env, SearchQA) or env.protocol == "mt_grpo"
        return [
            query
            for passage in passages
            for query in _ways(passage, asks.get(passage.id, "") if asking else "")
        ]

    def _call(self, env: WikiSearch, query: str) -> Step:
        """The next call towards the page whose title is the query."""
        done = self._done()
        found = env.pages.search(query)
        page = next((p.id for p in found if p.title == query), "")
        calls = [("search_pages", "query", query)]
        if env.protocol == "mt_grpo":
            calls = [("wiki_search", "query", query)]
        elif page:
            calls += [("view_sections", "page_id", page)]
            calls += [("read_section", "section_id", s.id) for s in env.pages.sections(page) or ()]
        for name, parameter, value in calls:
            call = {"name": name, "args": {parameter: value}}
            tag = f"<tool>{json.dumps(call, ensure_ascii=False)}</tool>"
            if tag not in done:
                return Step(tag, f"I should look for {query}.")
        answer = env.question.answers[0]
        return Step(f"<answer>{answer}</answer>", f"That is {answer}.")

    def _done(self) -> set[str]:
        return {action for action, _ in self._env.transcript}


def _ways(passage: Passage, question: str) -> list[str]:
    """Queries that should find a passage: its question, its title, then also its beginning."""
    beginning = " ".join(passage.text.split()[:12])
    ways = question, passage.title.strip(), f"{passage.title} {beginning}".strip()
    return [way for way in ways if way]
