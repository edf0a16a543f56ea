"""Experts of the generated worlds: the Oracle, and an Explorer.

The Explorer knows the grammar of articles and questions, reads only what it is shown, and keeps the
newest statement of each fact.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agent_envs.experts import Step
from agent_envs.search_qa.answers import UNKNOWN, Answer, read_date
from agent_envs.search_qa.oracle import Oracle, Player
from agent_envs.search_qa.wiki import WikiSearch
from agent_envs.search_qa.world import ENTITIES, SPLITS, UNITS, Relation, Value, World

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["Explorer", "Oracle"]

# A name, or a relation of what another phrase names.
Phrase: TypeAlias = "str | tuple[Relation, Phrase]"


class Explorer(Player):
    """Follows the question's chains by what the passages say."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._grammar = open_grammar(self._env.world)

    def plan(self) -> Step:
        """A search for what the chains name next, or the answer."""
        env = self._env
        self._book = self._grammar.read(env.transcript)
        self._asked = {action for action, _ in env.transcript}
        kind, chains, word, bound = self._grammar.parse_question(env.goal)
        values = list[Value]()
        for chain in chains:
            found = self._resolve(chain)
            if isinstance(found, Step):
                return found
            if found is None:
                return self._answer(UNKNOWN)
            values.append(found)
        return self._answer(_combine(kind, values, word, bound))

    def _resolve(self, phrase: Phrase) -> Value | Step | None:
        """The value of a phrase, the step that leads to it, or None if no article has it."""
        if isinstance(phrase, str):
            return self._book.names.get(phrase, phrase)
        relation, of = phrase
        subject = self._resolve(of)
        if not isinstance(subject, str):
            return subject
        name = self._book.names.get(subject, subject)
        words = " ".join(re.sub(r"\{.\}", " ", relation.says).split())
        fact = self._book.facts.get((name, relation.name))
        queries = [subject, f"{name} {words}", name]
        if isinstance(self._env, WikiSearch):  # it returns whole articles
            queries = [] if name in self._book.titles else [subject, name]
        for query in queries[:2] if fact else queries:
            step = self._search(query)
            if step.action not in self._asked and not self._is_last:
                return step
        return fact[1] if fact else None


def _combine(kind: str, values: list[Value], word: str, bound: Value | None) -> Value | str:
    """The answer from the values of the question's chains."""
    first, last = cast("Any", values[0]), cast("Any", values[-1])
    most = word in {"later", "larger"}
    if kind == "least":
        value = max(first, last) if most else min(first, last)
    elif kind == "less":
        return "yes" if (first > last if most else first < last) else "no"
    elif kind == "count":
        value = sum(bool(v >= bound if most else v < bound) for v in (first, last))
    else:
        value = {"lookup": first, "sum": 0, "difference": 0}[kind]
        if kind != "lookup":
            value = first + last if kind == "sum" else abs(first - last)
    kinds = {int: "number", str: "entity"}
    return str(Answer(kinds.get(type(value), "date"), value))


class Book:
    """What was read: by subject and relation the newest value with its year, names, titles."""

    def __init__(self) -> None:
        self.facts: dict[tuple[str, str], tuple[int, Value]] = {}
        self.names: dict[str, str] = {}
        self.titles: set[str] = set()


class Grammar:
    """The grammar of a world, inverted."""

    def __init__(self, world: World) -> None:
        self._frames = {name: _invert(text) for name, text in world.frames.items()}
        self._relations = [relation for group in world.relations.values() for relation in group]
        self._says = [(relation, _invert(relation.says)) for relation in self._relations]
        self._asks = [(relation, _invert(relation.asks)) for relation in self._relations]

    def read(self, transcript: list[tuple[str, str]]) -> Book:
        """The facts in all passages shown."""
        book = Book()
        for _, observation in transcript[1:]:
            for sentence in re.split(r"(?<=\.)\s+|\n", observation):
                title = re.search(r"\(Title: \"(.*?)\"\)|^([A-Z]\w+(?: [A-Z]\w+)?)$", sentence)
                if title:
                    book.titles.add(title[1] or title[2])
                rest = sentence[title.end() :] if title else sentence
                self._read_sentence(re.sub(r"</?\w+>", "", rest).strip(), book)
        return book

    def _read_sentence(self, sentence: str, book: Book) -> None:
        year = 0
        if source := self._frames["source"].fullmatch(sentence):
            year, sentence = int(source["Y"]), source["A"]
        if alias := self._frames["alias"].fullmatch(sentence):
            book.names[_strip(alias["O"])] = _strip(alias["S"])
        for relation, pattern in self._says:
            if found := pattern.fullmatch(sentence):
                value = _read_value(found["O"], relation.kind)
                key = (_strip(found["S"]), relation.name)
                if value is not None and year >= book.facts.get(key, (0, ""))[0]:
                    book.facts[key] = (year, value)

    def parse_question(self, goal: str) -> tuple[str, list[Phrase], str, Value | None]:
        """The frame of a question, its phrases, its word of comparison and its bound."""
        text = goal.rpartition(" Answer with ")[0]
        for name in ("least", "sum", "difference", "less", "count", "lookup"):
            found = self._frames[name].fullmatch(text)
            parts = found.groupdict() if found else {}
            phrases = [self._parse(parts[key]) for key in ("A", "B") if key in parts]
            if phrases and None not in phrases:
                bounds = [_read_value(parts.get("V", ""), kind) for kind in ("date", *UNITS)]
                bound = next((value for value in bounds if value is not None), None)
                return name, cast("list[Phrase]", phrases), parts.get("L", ""), bound
        raise ValueError(f"no question of this world: {goal!r}")

    def _parse(self, text: str) -> Phrase | None:
        for relation, pattern in self._asks:
            if found := pattern.fullmatch(text):
                inner = self._parse(found["S"])
                if isinstance(inner, str) or (inner and inner[0].kind == relation.subject):
                    return relation, inner
        return _strip(text) if re.fullmatch(r"(?:[Tt]he )?[A-Z]\w+(?: [A-Z]\w+)?", text) else None


@lru_cache(maxsize=len(SPLITS))
def open_grammar(world: World) -> Grammar:
    """The grammar of a world, made once."""
    return Grammar(world)


def _invert(template: str) -> re.Pattern[str]:
    """The pattern of a template's texts, with a group for each of its fields."""
    pattern = re.sub(r"\\\{(\w)\\\}", r"(?P<\1>.+)", re.escape(template))
    pattern = pattern.replace("(?P<W>.+)", "(?:Who|What)").replace("(?P<w>.+)", "(?:who|what)")
    return re.compile(pattern, re.IGNORECASE)


def _strip(name: str) -> str:
    return re.sub(r"^[Tt]he ", "", name)


def _read_value(text: str, kind: str) -> Value | None:
    if kind in ENTITIES:
        return _strip(text)
    if kind == "date":
        return next(iter(read_date(text.lower())), None)
    found = re.fullmatch(rf"([\d,]+) {kind}", text)
    return int(found[1].replace(",", "")) if found else None
