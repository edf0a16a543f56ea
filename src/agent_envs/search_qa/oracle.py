"""The Oracle of SearchQA and WikiSearch, which knows the answer and the passages that it needs.

It searches for those before it answers. That of public questions is the only expert.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from agent_envs.experts import Planner, Step, playing
from agent_envs.search_qa.env import SearchQA
from agent_envs.search_qa.wiki import WikiSearch

if TYPE_CHECKING:
    import gymnasium as gym


class Player(Planner):
    """Writes actions in the form that the environment reads."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = cast("Any", playing(env, SearchQA))

    def _search(self, query: str) -> Step:
        if isinstance(self._env, WikiSearch):
            call = {"name": "wiki_search", "args": {"query": query}}
            tag = f"<tool>{json.dumps(call, ensure_ascii=False)}</tool>"
        else:
            tag = f"<search>{query}</search>"
        return Step(tag, f"I should look for {query}.")

    def _answer(self, answer: object) -> Step:
        return Step(f"<answer>{answer}</answer>", f"That is {answer}.")

    @property
    def _is_last(self) -> bool:
        return bool(self._env.turn + 1 >= self._env.max_turns or self._env.searches_left == 0)


class Oracle(Player):
    """Searches for the passages that are needed, then gives the right answer."""

    def plan(self) -> Step:
        """A search that is needed, or the answer."""
        env, done = self._env, {action for action, _ in self._env.transcript}
        if not self._is_last:
            for query in self._list_queries():
                step = self._search(query)
                if step.action not in done:
                    return step
        return self._answer(env.list_answers()[0])

    def _list_queries(self) -> Iterator[str]:
        """The title of each needed passage that was not shown, then also its words."""
        env = self._env
        if not env.facts.gold:
            yield env.question.text
        for gold in env.facts.gold:
            passage = env.find_passage(gold)
            if gold not in env.facts.seen and passage is not None:
                words = " ".join(passage.text.split()[:40])
                yield from filter(str.strip, (passage.title, f"{passage.title} {words}".strip()))
