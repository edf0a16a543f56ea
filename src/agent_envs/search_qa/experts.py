"""The expert of SearchQA and WikiSearch: an Oracle, which knows the answer and its passages.

It searches for the gold passages that it has not yet seen, one after the other, by the question
that each of them answers or by its title. It answers when it has seen all of them or has no search
left. There is no Explorer, since it would have to understand questions and passages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agent_envs.experts import playing
from agent_envs.search_qa.env import SearchQA
from agent_envs.search_qa.wiki import WikiSearch

if TYPE_CHECKING:
    import gymnasium as gym


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
        done = {action for action, _ in env.transcript}
        for query in self._list_queries():
            for tag in self._list_tags(query):
                if tag not in done:
                    return Step(tag, f"I should look for {query}.")
            if isinstance(env, WikiSearch):
                break
        answer = env.question.answers[0]
        return Step(f"<answer>{answer}</answer>", f"That is {answer}.")

    def _list_queries(self) -> list[str]:
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
        steps = () if env.protocol == "wiki_pages" else env.question.steps
        questions = {str(step.get("gold")): str(step.get("question") or "") for step in steps}
        queries = []
        for passage in passages:  # its question, its title, then also its beginning
            beginning = " ".join(passage.text.split()[:12])
            queries += [questions.get(passage.id, ""), passage.title.strip()]
            queries += [f"{passage.title} {beginning}".strip()]
        return [query for query in queries if query]

    def _list_tags(self, query: str) -> list[str]:
        """The actions that follow a query, such as those towards the page with that title."""
        env = self._env
        if isinstance(env, SearchQA):
            return [f"<search>{query}</search>"]
        calls = [("search_pages", "query", query)]
        if env.protocol == "mt_grpo":
            calls = [("wiki_search", "query", query)]
        elif page := next((p.id for p in env.pages.search(query) if p.title == query), ""):
            calls += [("view_sections", "page_id", page)]
            calls += [("read_section", "section_id", s.id) for s in env.pages.list_sections(page)]
        written = [
            json.dumps({"name": name, "args": {parameter: value}}, ensure_ascii=False)
            for name, parameter, value in calls
        ]
        return [f"<tool>{call}</tool>" for call in written]
