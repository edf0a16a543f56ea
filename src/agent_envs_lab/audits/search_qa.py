"""Players for the audits of SearchQA-v0 and WikiSearch-v0: actors for anchors, and non-solvers.

A non-solver follows a fixed script or copies observations without reading them. Its reward shows
what does not require understanding. All players see only what an agent sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_envs.search_qa.data import open_data
from agent_envs.spaces import OBSERVATION_LENGTH

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np

Actor: TypeAlias = Callable[[str, dict[str, Any]], str]

_RESULT = re.compile(r"<(?:information|result)>(.*)</(?:information|result)>", re.DOTALL)
_PAGE = re.compile(r'"page_id": ("(?:[^"\\]|\\.)*")')
_SECTION = re.compile(r'"section_id": ("(?:[^"\\]|\\.)*")')
_TITLES = {
    "wiki_search": re.compile(r"\A\n([^\n]+)\n"),
    "search_pages": re.compile(r'"title": "(.*?)"'),
    "search": re.compile(r'Doc \d(?:: \\"|\(Title: "?)(.*?)(?:\\"|"?\) )'),
}
"""Patterns of titles in the results of each kind of search."""
_SEARCHES, _NO_ANSWERS = 0.5, 0.85  # shares of searches, and of searches and odd replies
_ABOUT = re.compile(r".* (?:of|in|for) (?:the )?|(?:the )")
_CHOICE = re.compile(r"([^,]*), (.*) or (.*)\?|\w+ (.*) and (.*?) (?:have|on) .*\?")


def actions(env: gym.Env[Any, Any], rng: np.random.Generator) -> Actor:
    """The actor of an episode for the anchor audit: few replies, so that states are revisited."""
    del env
    voice = _Voice()

    def act(observation: str, info: dict[str, Any]) -> str:
        voice.hear(observation)
        return voice.any_of(rng, info)

    return act


class _Voice:
    """Writes replies in the form that the first observation requires; keeps the latest result."""

    def __init__(self) -> None:
        self.opening = self.shown = ""
        self.titles = [""]

    def hear(self, observation: str) -> None:
        self.opening = self.opening or observation
        found = _RESULT.search(observation.removeprefix(self.opening))
        self.shown = found[1] if found else ""
        self.titles = _TITLES[self.tool].findall(self.shown) or self.titles

    @property
    def tool(self) -> str:
        """The tool that searches."""
        return next((tool for tool in _TITLES if f"\n{tool}:" in self.opening), "search")

    def search(self, query: str) -> str:
        if self.tool != "search":
            return self.call(self.tool, query=query)
        return f"<think>x</think><search>{query}</search>"

    @property
    def mind(self) -> str:
        """The tag of a thought."""
        return "think" if self.tool == "search" else "reasoning"

    def call(self, tool: str, **arguments: str) -> str:
        command = json.dumps({"name": tool, "args": arguments}, ensure_ascii=False)
        return f"<reasoning>x</reasoning><tool>{command}</tool>"

    def answer(self, text: str) -> str:
        return f"<{self.mind}>x</{self.mind}><answer>{text}</answer>"

    def onward(self) -> str:
        """The call that leads from the latest result to a text; "" if it is a text."""
        section, page = _SECTION.search(self.shown), _PAGE.search(self.shown)
        if section:
            return self.call("read_section", section_id=json.loads(section[1]))
        return self.call("view_sections", page_id=json.loads(page[1])) if page else ""

    def any_of(self, rng: np.random.Generator, info: dict[str, Any]) -> str:
        """A random reply: new, repeated or failing searches, answers, odd texts."""
        answer = info["answers"][0]
        mind = self.mind
        searches = [
            self.search(info["goal"]),
            self.search(info["goal"]),
            self.search(self.titles[0] or "city"),
            self.search(f"{info['goal']} {answer}"),
            self.search("zzzz"),
            self.onward() or self.search("zzzz"),
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
            self.call("read_section", section_id="none:full"),
            self.call("other", query="x"),
            "x" * (OBSERVATION_LENGTH + 1),
        ]
        answers = [self.answer(answer), self.answer("y"), f"<answer>{answer}</answer>"]
        kind = rng.random()
        pool = searches if kind < _SEARCHES else odd if kind < _NO_ANSWERS else answers
        return pool[int(rng.integers(len(pool)))]


def _follow(*steps: Callable[[_Voice, dict[str, Any]], str]) -> Callable[[Any], Actor]:
    """Makes actors that take the steps in order and repeat the last one."""

    def make_actor(rng: np.random.Generator) -> Actor:
        del rng
        voice, followed, left = _Voice(), set[str](), [*steps]

        def act(observation: str, info: dict[str, Any]) -> str:
            voice.hear(observation)
            onward = voice.onward()
            if onward not in {"", *followed}:
                followed.add(onward)
                return onward
            return (left.pop(0) if len(left) > 1 else left[0])(voice, info)

        return act

    return make_actor


def _ask(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.search(info["goal"])


def _ask_the_same(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.search("country city code")


def _ask_nothing(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.search("zzzz")


def _say_nonsense(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer("unknown")


def _say_yes(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer("yes")


def _say_the_question(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(info["goal"])


def _say_a_choice(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(_choices(info["goal"])[0])


def _say_both(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(" or ".join(_choices(info["goal"])))


def _paste(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(voice.shown.strip() or "unknown")


def _say_the_title(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(voice.titles[0] or "unknown")


def _say_the_titles(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer("; ".join(voice.titles) or "unknown")


def _say_the_entity(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(_ABOUT.sub("", voice.titles[0], count=1) or "unknown")


def _say_all_pairs(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(" ".join(map("".join, product(ascii_lowercase, repeat=2))))


def _say_all_titles(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(_titles())


@lru_cache(maxsize=1)
def _titles() -> str:
    corpus = open_data("embedded").corpus or ()
    return "; ".join(passage.title for passage in corpus)[:65_000]


def _say_candidates(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(_candidates(info["goal"], " "))


def _say_candidates_or(voice: _Voice, info: dict[str, Any]) -> str:
    return voice.answer(_candidates(info["goal"], " or "))


def _deny_the_entity(voice: _Voice, _: dict[str, Any]) -> str:
    return voice.answer(f"not {_ABOUT.sub('', voice.titles[0], count=1) or 'unknown'}")


def _candidates(question: str, between: str) -> str:
    """Likely answers for the words with which a question begins or ends."""
    kind = next((kind for kind in _CANDIDATES if re.search(kind, question)), "")
    return between.join(_CANDIDATES[kind].split(", ")) if kind else "yes"


_CANDIDATES = {
    r"^(?:Are|Do|Does|Is) ": "yes, no",
    r" continent\b": "Africa, Asia, Europe, North America, Oceania, South America",
    r" ISO 639\b": "en, fr, es, ar, pt",
    r" script\b|written\?$": "Arabic, Cyrillic, Devanagari, Latin",
    r" language\b": "English, French, Spanish, Arabic, Portuguese",
    r"ISO 4217|in trade\?$": "EUR, USD, XOF, GBP, AUD",
    r"^What did the euro|before the euro": "mark, franc, lira, peseta, pound",
    r"^(?:What is the|Which) currency\b|pay with": "euro, US dollar, dollar, pound, franc, peso",
    r"^Who ": "Davy, Scheele, Curie, Ramsay, Berzelius",
    r"^When |^In which year| year of ": "1774, 1808, 1898, 1940, 1999",
    r"calling code": "+1, +33, +44, +61, +91",
    r"top-level": ".com, .uk, .fr, .us, .de",
    r"tz database": "America/New_York, Europe/London, Africa/Lagos, Asia/Kolkata",
    r"ISO 3166": "US, GB, FR, DE, IN, USA, GBR, FRA",
    r"postal|abbreviated": "CA, NY, TX, FL, IN",
    r"FIPS": "06, 12, 36, 48",
    r" U\.S\. state": "California, New York, Texas, Florida",
    r"(?:IATA|ICAO) code of": "LHR, JFK, CDG, EGLL, KJFK",
    r" airport\b.*\?$|^Which airport": "London, International Airport, Airport",
    r" country| territory|neighbour": "France, India, China, South Africa, Haiti, Spain",
    r" capital| city": "London, Paris, Madrid, New Delhi",
    r" isotope": "lead-206, U-238, C-12",
    r" element": "lead, gold, iron, uranium, radium",
    r" abundance": "50, 60, 70, 80, 90, 99.9, 100 percent",
    r" half-life": "1, 2, 5, 10, 100, 1000 years, days",
    r" point| temperature": "0, 100, 1000, 1538, 2000, 3000 degrees Celsius",
    r" proton| atomic number": "26, 74, 79, 82, 88, 92",
}
"""Likely answers by pattern of the question."""


def _choices(question: str) -> list[str]:
    found = _CHOICE.fullmatch(question)
    return [part for part in found.groups()[1:] if part] if found else [question]


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "yes, without a search": _follow(_say_yes),
    "the question as the answer": _follow(_say_the_question),
    "the first of two things to choose from": _follow(_say_a_choice),
    "both things to choose from": _follow(_say_both),
    "likely answers of its kind, without a search": _follow(_say_candidates),
    "likely answers joined by or, without a search": _follow(_say_candidates_or),
    "all titles, without a search": _follow(_say_all_titles),
    "one query, all pairs of letters": _follow(_ask_the_same, _say_all_pairs),
    "searches that find nothing, nonsense": _follow(*[_ask_nothing] * 3, _say_nonsense),
    "one query again and again, nonsense": _follow(*[_ask_the_same] * 3, _say_nonsense),
    "the question as the query, nonsense": _follow(_ask, _say_nonsense),
    "the question as the query, all that is found": _follow(_ask, _paste),
    "the question as the query, all titles found": _follow(_ask, _say_the_titles),
    "the question as the query, the first title": _follow(_ask, _say_the_title),
    "the question as the query, what the first title is about": _follow(_ask, _say_the_entity),
    "the question as the query, not what the first title is about": _follow(_ask, _deny_the_entity),
}
