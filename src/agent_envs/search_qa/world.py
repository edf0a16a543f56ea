"""Encyclopaedias invented by seed: entities, facts, the articles that state them, and questions.

Truth is in the facts; sentences and questions are rendered from them (`env_assets/search_qa`) and
never read back. Splits share no entity, fact, wording or, from two hops on, chain of relations.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from agent_envs.assets import asset
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.passages import Passage
from agent_envs.search_qa.answers import Answer

# How many questions each split has for each number of hops.
SPLITS = {"train": 4000, "val": 300, "test": 500}
ENTITIES = {"person": 64, "town": 32, "river": 24, "book": 40, "guild": 24}
UNITS = ("crowns", "people", "km", "copies")
STATED, OUTDATED, SOURCED, ALIASED = 0.85, 0.3, 0.3, 0.35
"""Shares of facts that an article states, states again by an older source, and by a source though
there is no older one; and of entities with a second name."""
# Passages of an article.
PASSAGES = 4
TOLERANCE = 0.005
KINDS = {"chain": 0.61, "missing": 0.08, "least": 0.11, "sum": 0.05, "difference": 0.05}
KINDS |= {"less": 0.06, "count": 0.04}
"""Shares of the kinds of questions from two hops on; "missing" has no answer."""
_ORDER = {"date": ("earlier", "later"), "": ("smaller", "larger")}
_FIRST_DAY, _DAYS = date(1700, 1, 1), 69_000
Value: TypeAlias = str | int | date


class Relation(NamedTuple):
    """What can be said of a kind of entity; `kind` is that of the value."""

    subject: str
    name: str
    kind: str
    says: str
    asks: str


class Fact(NamedTuple):
    """What holds of an entity; `passage` is the id of the passage with its newest statement."""

    relation: Relation
    value: Value
    passage: str = ""


class Entity:
    """An entity with its facts by relation; what no article states is not among them."""

    def __init__(self, name: str, kind: str, alias: str) -> None:
        self.name, self.kind, self.alias = name, kind, alias
        self.facts: dict[str, Fact] = {}
        self.lead = ""

    def __str__(self) -> str:
        return show_name(self.name, self.kind)


class Question(NamedTuple):
    """A question with its right answer.

    support: the ids of the passages that state its facts, one a hop; of a missing fact the first
        passage of its subject.
    kind: one of `KINDS`.
    steps: the names and values on the way to the answer, which an explanation may repeat.
    """

    id: str
    text: str
    answer: Answer
    support: tuple[str, ...]
    kind: str
    steps: tuple[str, ...]


class Chain(NamedTuple):
    """A phrase that asks for the value of a fact; `fact` is None if no article states it.

    steps: the names of the entities on the way.
    """

    text: str
    path: tuple[str, ...]
    support: tuple[str, ...]
    steps: tuple[str, ...]
    relation: Relation
    fact: Fact | None


class World:
    """The encyclopaedia of a split.

    Attributes:
        entities: By name.
        relations: By kind of entity.
        passages: All passages by id, in the order of the articles.
        retriever: Finds them by BM25.
        named: The words of all names, lower case.
    """

    def __init__(self, split: str) -> None:
        self.split, self.place = split, list(SPLITS).index(split)
        words = read_words()
        self.frames = {name: lists[self.place] for name, lists in words["frames"].items()}
        self.relations = {
            kind: [
                Relation(kind, name, of["kind"], of["says"][self.place], of["asks"][self.place])
                for name, of in words[kind].items()
            ]
            for kind in ENTITIES
        }
        rng = Random(f"2026 {split}")
        self._list = list(self._draw_entities(rng))
        self.entities = {entity.name: entity for entity in self._list}
        self.passages: dict[str, Passage] = {}
        self._questions: dict[str, Question] = {}
        for number, entity in enumerate(self.entities.values()):
            self._write_article(entity, f"{split}-{number}", rng)
        self.retriever = BM25(list(self.passages.values()))
        names = (name for one in self._list for name in (one.name, one.alias))
        self.named = frozenset(word for name in names for word in name.lower().split()) - {"guild"}

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_world, (self.split,)

    def list_article(self, passage: Passage) -> list[Passage]:
        """The passages of the article that has this one."""
        article = passage.id.rpartition(".")[0]
        return [self.passages[f"{article}.{part}"] for part in range(PASSAGES)]

    def draw_question(self, task_id: str, hops: int, number: int) -> Question:
        """The question of that number, always the same."""
        if task_id in self._questions:
            return self._questions[task_id]
        rng = Random(f"2026 {self.split} {hops} {number}")
        shares = {"chain": 0.92, "missing": 0.08} if hops == 1 else KINDS
        (kind,) = rng.choices(list(shares), list(shares.values()))
        while True:
            question = self._draw(task_id, kind, hops, rng)
            if question is not None:
                self._questions[task_id] = question
                return question

    def export(self, folder: Path, *, hops: int = 2, questions: int = 100) -> Path:
        """Write questions and passages in the form that public data has; returns the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "qa.jsonl").open("w", encoding="utf-8") as file:
            for number in range(questions):
                drawn = self.draw_question(f"{self.split}-{hops}-{number}", hops, number)
                row = {"id": drawn.id, "question": drawn.text, "answers": drawn.answer.spell()}
                file.write(json.dumps(row | {"gold": drawn.support, "split": self.split}) + "\n")
        with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
            for p in self.passages.values():
                file.write(json.dumps({"id": p.id, "title": p.title, "text": p.text}) + "\n")
        return folder

    def _draw_entities(self, rng: Random) -> Iterator[Entity]:
        """Entities, each with a twin of a similar name."""
        syllables = {name: text.split() for name, text in read_words()["names"].items()}
        parts = product(syllables["onset"], "aeiou", syllables["coda"])
        stems = ["".join(part).title() for part in parts]
        Random(2026).shuffle(stems)  # the same in all splits, each of which has a third
        fresh = iter(stems[self.place :: len(SPLITS)])
        firsts = [next(fresh) + end for end in syllables["first"] * 4]
        for kind, count in ENTITIES.items():
            for _ in range(count // 2):
                stem = next(fresh)
                for end in rng.sample(syllables[kind], 2):
                    names = [stem + end, next(fresh) + rng.choice(syllables[kind])]
                    if kind == "person":
                        names = [f"{rng.choice(firsts)} {last}" for last in names]
                    elif kind == "guild":
                        names = [f"{name} Guild" for name in names]
                    yield Entity(names[0], kind, names[1] if rng.random() < ALIASED else "")

    def _write_article(self, entity: Entity, article: str, rng: Random) -> None:
        """Draw the facts of an entity and the passages that state them, in random order."""
        lead = [self.frames["kind"].format(S=entity, K=entity.kind)]
        if entity.alias:
            alias = show_name(entity.alias, entity.kind)
            lead.append(self.frames["alias"].format(S=entity, O=alias))
        said: list[tuple[str, Fact | None]] = []
        for relation in self.relations[entity.kind]:
            if rng.random() >= STATED:
                continue
            fact, old = (Fact(relation, self._draw_value(relation, entity, rng)) for _ in range(2))
            years = sorted(rng.sample(range(1801, 1900), 2))
            outdated = rng.random() < OUTDATED and fact.value != old.value
            sourced = outdated or rng.random() < SOURCED
            said.append((self._say(entity, fact, years[1] if sourced else 0), fact))
            if outdated:
                said.append((self._say(entity, old, years[0]), None))
        entity.lead = f"{article}.0"
        lines: list[list[str]] = [lead, *([] for _ in range(PASSAGES - 1))]
        rng.shuffle(said)
        for rank, (sentence, stated) in enumerate(said):
            part = rank * PASSAGES // len(said)
            lines[part].append(sentence)
            if stated is not None:
                entity.facts[stated.relation.name] = stated._replace(passage=f"{article}.{part}")
        for part, sentences in enumerate(lines):
            name = f"{article}.{part}"
            self.passages[name] = Passage(name, entity.name, " ".join(map(_begin, sentences)))

    def _draw_value(self, relation: Relation, of: Entity, rng: Random) -> Value:
        if relation.kind == "date":
            return _FIRST_DAY + timedelta(rng.randrange(_DAYS))
        if relation.kind in UNITS:
            return rng.randrange(21, 10 ** rng.randint(2, 4))
        return rng.choice([e.name for e in self._list if e.kind == relation.kind and e is not of])

    def _say(self, entity: Entity, fact: Fact, year: int) -> str:
        sentence = fact.relation.says.format(S=entity, O=show_value(fact.value, fact.relation.kind))
        return self.frames["source"].format(Y=year, A=_begin(sentence)) if year else sentence

    def _draw(self, task_id: str, kind: str, hops: int, rng: Random) -> Question | None:
        """A question of that kind, None if this draw made none or one of another split."""
        frames, missing = self.frames, kind == "missing"
        if kind in {"chain", "missing"}:
            chain = self._draw_chain(hops, rng, missing=missing)
            if chain is None or (hops > 1 and not self._owns("chain", chain.path)):
                return None
            who = "who" if chain.relation.kind == "person" else "what"
            text = frames["lookup"].format(W=who.title(), w=who, A=chain.text)
            value = chain.fact.value if chain.fact else None
            answer = self._make_answer(chain.relation.kind, value)
            return Question(task_id, _begin(text), answer, chain.support, kind, chain.steps)
        first = self._draw_chain(hops - hops // 2, rng)
        last = first and self._draw_chain(hops // 2, rng, relation=first.relation)
        if first is None or last is None or first.fact is None or last.fact is None:
            return None
        sort = first.relation.kind
        values: list[Any] = [first.fact.value, last.fact.value]
        sorts = {*UNITS, "date"} if kind in {"least", "less", "count"} else {*UNITS}
        own = self._owns(kind, (*first.path, *last.path))
        if sort not in sorts or values[0] == values[1] or not own:
            return None
        most = rng.randrange(2)
        bound: Any = self._draw_value(first.relation, self._list[0], rng)
        word, value = _ORDER.get(sort, _ORDER[""])[most], sorted(values)[most]
        if kind == "less":
            answer = Answer("yes_no", values[0] == value)
        elif kind == "count":
            answer = Answer("number", sum((one < bound) != bool(most) for one in values))
        elif kind == "least":
            answer = self._make_answer(sort, value)
        else:
            sign = 1 if kind == "sum" else -1
            answer = self._make_answer(sort, abs(values[0] + sign * values[1]))
        text = frames[kind].format(A=first.text, B=last.text, L=word, V=show_value(bound, sort))
        support, steps = first.support + last.support, first.steps + last.steps
        if kind != "least":  # whose answer is one of the two
            steps += tuple(show_value(one, sort) for one in values)
        return Question(task_id, _begin(text), answer, support, kind, steps)

    def _draw_chain(
        self, hops: int, rng: Random, *, missing: bool = False, relation: Relation | None = None
    ) -> Chain | None:
        """A walk over facts; with `missing` the last one is stated nowhere."""
        entity = rng.choice(self._list)
        shown = entity.alias if entity.alias and rng.random() < 0.5 else entity.name  # noqa: PLR2004
        text, path, support = show_name(shown, entity.kind), list[str](), list[str]()
        steps = list[str]()
        for hop in range(1, hops + 1):
            last = hop == hops
            known = self.relations[entity.kind]
            stated = [r for r in known if (r.name in entity.facts) != (missing and last)]
            able = stated if last else [r for r in stated if r.kind in ENTITIES]
            wanted = [r for r in able if not last or relation is None or r == relation]
            if not wanted:
                return None
            chosen = rng.choice(wanted)
            fact = entity.facts.get(chosen.name)
            text = chosen.asks.format(S=text)
            path.append(f"{chosen.subject}.{chosen.name}")
            support.append(fact.passage if fact else entity.lead)
            steps += (entity.name, entity.alias)
            if fact and not last:
                entity = self.entities[str(fact.value)]
        return Chain(text, tuple(path), tuple(support), tuple(steps), chosen, fact)

    def _owns(self, kind: str, path: tuple[str, ...]) -> bool:
        """Whether a composition of relations is of this split; train has half of them."""
        return (0, 0, 1, 2)[crc32(repr((kind, path)).encode()) % 4] == self.place

    def _make_answer(self, kind: str, value: Value | None) -> Answer:
        if kind in ENTITIES:
            entity = self.entities.get(str(value))
            names = [name for name in (entity.name, entity.alias) if name] if entity else []
            names += [name.removesuffix(" Guild") for name in names if kind == "guild"]
            return Answer("entity", value, tuple(names), sort=kind)
        if kind == "date":
            return Answer("date", value)
        return Answer("number", value, unit=kind, tolerance=TOLERANCE)


def show_name(name: str, kind: str) -> str:
    """A name as in a sentence."""
    return f"the {name}" if kind in {"river", "guild"} else name


def show_value(value: Value, kind: str) -> str:
    """A value as in a sentence."""
    if isinstance(value, str):
        return show_name(value, kind)
    return str(Answer("date" if kind == "date" else "number", value, unit=kind))


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]


@lru_cache(maxsize=1)
def read_words() -> Mapping[str, Any]:
    """The sentences and phrases of the three splits, by kind of entity and relation."""
    return tomllib.loads(asset("search_qa/words.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=len(SPLITS))
def open_world(split: str) -> World:
    """The encyclopaedia of a split, made once."""
    return World(split)
