"""Players for the audits of SearchQA and WikiSearch: actors for anchors, and non-solvers.

A non-solver follows a fixed script or copies observations without reading them. Its reward shows
what does not require understanding. All players see only what an agent sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_envs.spaces import OBSERVATION_LENGTH

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np

Actor: TypeAlias = Callable[[str, dict[str, Any]], str]

_RESULT = re.compile(r"<(?:information|result)>(.*)</(?:information|result)>", re.DOTALL)
_TITLE = re.compile(r"""Doc \d(?:: \\"|\(Title: "?)(.*?)(?:\\"|"?\) )|\A\n([^\n]+)\n""")
_NAME = re.compile(r"[A-Z][a-z]{3,}(?: (?:Guild|[A-Z][a-z]+))?")
_DATE = re.compile(r"\d{1,2} [A-Z][a-z]+ \d{4}")
_SEARCHES, _NO_ANSWERS = 0.5, 0.85  # shares of searches, and of searches and odd replies


def actions(env: gym.Env[Any, Any], rng: np.random.Generator) -> Actor:
    """The actor of an episode for the anchor audit: few replies, so that states are revisited."""
    del env
    voice = _Voice(rng)

    def act(observation: str, info: dict[str, Any]) -> str:
        voice.hear(observation)
        return voice.any_of(info)

    return act


class _Voice:
    """Writes replies in the form that the first observation requires; keeps the latest result."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.opening, self.shown, self.title = rng, "", "", ""

    def hear(self, observation: str) -> None:
        self.opening = self.opening or observation
        found = _RESULT.search(observation.removeprefix(self.opening))
        self.shown = found[1] if found else ""
        if title := _TITLE.search(self.shown):
            self.title = title[1] or title[2]

    @property
    def mind(self) -> str:
        """The tag of a thought."""
        return "reasoning" if "wiki_search:" in self.opening else "think"

    def search(self, query: str) -> str:
        if self.mind == "think":
            return f"<think>x</think><search>{query}</search>"
        return self.call("wiki_search", query=query)

    def call(self, tool: str, **arguments: str) -> str:
        command = json.dumps({"name": tool, "args": arguments}, ensure_ascii=False)
        return f"<reasoning>x</reasoning><tool>{command}</tool>"

    def answer(self, text: str) -> str:
        return f"<{self.mind}>x</{self.mind}><answer>{text}</answer>"

    def choose(self, values: list[str], otherwise: str) -> str:
        return values[int(self.rng.integers(len(values)))] if values else otherwise

    def any_of(self, info: dict[str, Any]) -> str:
        """A random reply: new, repeated or failing searches, answers, odd texts."""
        answer, mind = info["answers"][0], self.mind
        searches = [
            *[self.search(info["goal"])] * 2,
            self.search(self.title or "town"),
            self.search(f"{info['goal']} {answer}"),
            *[self.search("zzzz")] * 2,
        ]
        odd = [
            "hm",
            "",
            f"<{mind}>x",
            "<answer>y",
            f"<answer>y {self.search('zzzz')}",
            "<search>zzzz</search>",
            f"<{mind}>x</{mind}>y{self.search('zzzz').partition(f'</{mind}>')[2]}",
            f"<{mind}>is it <answer>{answer}</answer>?</{mind}>",
            "<search>zzzz</search><answer>y</answer>",
            f"<information>{answer}</information>",
            f"<result>{answer}</result>",
            "<information>",
            "<tool>{}</tool>",
            self.call("other", query="x"),
            "x" * (OBSERVATION_LENGTH + 1),
        ]
        answers = [self.answer(answer), self.answer("y"), f"<answer>{answer}</answer>"]
        kind = self.rng.random()
        return self.choose(
            searches if kind < _SEARCHES else odd if kind < _NO_ANSWERS else answers, ""
        )

    def guess(self, goal: str) -> str:
        """The answer of its type that needs no search."""
        kinds = {"yes or no": "yes", "a number, or": "1"}
        return next((text for kind, text in kinds.items() if kind in goal), "unknown")

    def extract(self, goal: str) -> str:
        """A value of the declared type in what was shown, by regular expressions."""
        unit = re.search(r"a number of (\w+)", goal)
        if unit:
            values = re.findall(rf"[\d,]+ {unit[1]}", self.shown)
        elif "a date" in goal:
            values = _DATE.findall(self.shown)
        elif "a name" in goal:
            values = [name for name in _NAME.findall(self.shown) if name not in goal]
        else:
            values = []
        return self.choose(values, self.guess(goal))


def _follow(*steps: Callable[[_Voice, dict[str, Any]], str]) -> Callable[[Any], Actor]:
    """Makes actors that take the steps in order and repeat the last one."""

    def make_actor(rng: np.random.Generator) -> Actor:
        voice, left = _Voice(rng), [*steps]

        def act(observation: str, info: dict[str, Any]) -> str:
            voice.hear(observation)
            return (left.pop(0) if len(left) > 1 else left[0])(voice, info)

        return act

    return make_actor


def _ask(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.search(info["goal"].partition(" Answer with ")[0])


def _ask_a_name(voice: _Voice, info: dict[str, Any]) -> str:
    """A name of the question."""
    question = info["goal"].partition(" Answer with ")[0]
    return voice.search(voice.choose(_NAME.findall(question[1:]), question))


def _ask_what_is_named(voice: _Voice, info: dict[str, Any]) -> str:
    """A name of the passages that is not in the question."""
    names = [name for name in _NAME.findall(voice.shown) if name not in info["goal"]]
    return voice.search(voice.choose(names, info["goal"]))


def _ask_nothing(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.search("zzzz")


def _say_nonsense(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer("nonsense")


def _say_unknown(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer("unknown")


def _guess(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(voice.guess(info["goal"]))


def _say_the_question(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(info["goal"])


def _paste(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(voice.shown.strip() or "nonsense")


def _say_the_title(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(voice.title or "nonsense")


def _extract(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(voice.extract(info["goal"]))


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "unknown, without a search": _follow(_say_unknown),
    "yes, one or unknown by the type, without a search": _follow(_guess),
    "the question as the answer": _follow(_say_the_question),
    "searches that find nothing, nonsense": _follow(*[_ask_nothing] * 3, _say_nonsense),
    "the question as the query, nonsense": _follow(_ask, _say_nonsense),
    "the question as the query, all that is found": _follow(_ask, _paste),
    "the question as the query, the first title": _follow(_ask, _say_the_title),
    "the question as the query, a value of the type": _follow(_ask, _extract),
    "a name as the query, a value of the type": _follow(_ask_a_name, _extract),
    "names as queries, a value of the type": _follow(_ask_a_name, _ask_what_is_named, _extract),
}
