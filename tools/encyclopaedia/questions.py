"""Asks for facts: one at a time, one found by way of another, or two compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tools.encyclopaedia.corrections import TERRITORIES
from tools.encyclopaedia.sentences import sentence
from tools.encyclopaedia.tables import key as letters
from tools.encyclopaedia.wordings import ASKS, CONTESTS, PHRASES, SAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.encyclopaedia.facts import Fact, Gold
    from tools.encyclopaedia.sentences import Writer


@dataclass(frozen=True)
class Question:
    """A question with all that is known of it; `family` says how it is built."""

    family: tuple[str, ...]
    kind: str  # single, comparison, 2hop or 3hop
    text: str
    answers: tuple[str, ...]
    gold: tuple[Gold, ...]
    steps: tuple[dict[str, Any], ...]  # question, answer and gold of each

    @property
    def asks(self) -> tuple[object, ...]:
        """Equal for questions that ask the same in other words or by another name.

        Those are the ones of the same passages with the same answer, and all comparisons of the
        same two, be it for the greater or for the less.
        """
        return frozenset(self.gold), self.kind == "comparison" or self.answers


FOLLOWS = {
    "country": "capital currency language calling-code domain three-letters two-letters continent "
    "neighbour before-the-euro",
    "currency": "currency-code user",
    "language": "language-code script",
    "place": "country state zone airport",
    "airport": "iata icao",
    "state": "postal fips",
    "element": "symbol number melting boiling year discoverer most-abundant",
    "person": "born died",
    "isotope": "half-life isotope-year share daughter decays-into",
}
"""What may be asked of an entity that is the answer of another question."""


def ask(writer: Writer, fact: Fact, shown: str = "") -> str:
    """A question for a fact; a long description of its subject comes last."""
    asks = ASKS[fact.relation].split("|")
    if shown:
        asks = [wording for wording in asks if wording.endswith("{x}?")]
    return writer.one(*asks).format(x=shown or fact.shown)


def _step(writer: Writer, fact: Fact) -> dict[str, Any]:
    return {"question": ask(writer, fact), "answer": fact.answers[0], "gold": fact.gold}


def singles(writer: Writer, facts: Sequence[Fact]) -> Iterator[Question]:
    """A question for each fact."""
    for fact in facts:
        step = _step(writer, fact)
        yield Question(
            (fact.relation,), "single", step["question"], fact.answers, (fact.gold,), (step,)
        )


def chains(writer: Writer, facts: Sequence[Fact]) -> Iterator[Question]:
    """Questions over two and three passages; none contains an answer of its steps."""
    told: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        told.setdefault((fact.gold.entity, fact.relation), fact)
    for first in facts:
        if not first.leads or first.relation not in PHRASES:
            continue
        for second in _following(told, first):
            yield from _chain(writer, (first, second))
            if not second.leads or second.relation not in PHRASES:
                continue
            for third in _following(told, second):
                yield from _chain(writer, (first, second, third))


def _following(told: dict[tuple[str, str], Fact], fact: Fact) -> Iterator[Fact]:
    for relation in FOLLOWS[fact.leads.partition(":")[0]].split():
        found = told.get((fact.leads, relation.replace("-", " ")))
        if found:
            yield found


def _chain(writer: Writer, facts: tuple[Fact, ...]) -> Iterator[Question]:
    gold = tuple(fact.gold for fact in facts)
    if len(set(gold)) < len(gold) or len({one.entity for one in gold}) < len(gold):
        return
    shown = facts[0].shown
    for fact in facts[:-1]:
        noun = "territory" if fact.leads.partition(":")[2] in TERRITORIES else "country"
        shown = writer.one(*PHRASES[fact.relation].split("|")).format(x=shown, noun=noun)
    text = ask(writer, facts[-1], shown)
    yield Question(
        tuple(fact.relation for fact in facts),
        f"{len(facts)}hop",
        text,
        facts[-1].answers,
        gold,
        tuple(_step(writer, fact) for fact in facts),
    )


def comparisons(writer: Writer, facts: Sequence[Fact], split_of: dict[str, str]) -> list[Question]:
    """Pairs of facts of one relation and one split, some answered by a name and some by yes."""
    found: list[Question] = []
    for relation in [*CONTESTS, *SAME]:
        pools: dict[str, list[Fact]] = {}
        for fact in facts:
            if fact.relation == relation:
                pools.setdefault(split_of[fact.gold.entity], []).append(fact)
        for pool in pools.values():
            drawn = [pool[int(writer.rng.random() * len(pool))] for _ in range(6 * len(pool))]
            pairs = [(a, b) for a, b in pairwise(drawn) if a.shown != b.shown]
            if relation in SAME:
                found += _alike(writer, pool, pairs)
            else:
                found += [q for a, b in pairs for q in _contest(writer, a, b)]
    return found


def _contest(writer: Writer, a: Fact, b: Fact) -> Iterator[Question]:
    contest = CONTESTS[a.relation]
    less, more = sorted((a, b), key=lambda fact: fact.value or 0)
    low, high = less.value or 0, more.value or 0
    if high - low < contest.gap or (contest.ratio > 1 and high < low * contest.ratio):
        return
    wording, winner = (contest.greater, more), more
    if writer.rng.random() < 1 / 2:
        wording, winner = (contest.less, less), less
    text = writer.one(*wording[0].split("|")).format(a=a.shown, b=b.shown)
    yield _pair(writer, ("which", a.relation), text, winner.names, (a, b))


def _alike(writer: Writer, pool: list[Fact], pairs: list[tuple[Fact, Fact]]) -> Iterator[Question]:
    """Equally many pairs that agree and that differ."""
    agreeing = []
    for a in pool:
        same = [b for b in pool if b.answers == a.answers and b.shown != a.shown]
        if same:
            agreeing.append((a, same[int(writer.rng.random() * len(same))]))
    differing = [(a, b) for a, b in pairs if a.answers != b.answers][: len(agreeing)]
    for a, b in [*agreeing, *differing]:
        text = writer.one(*SAME[a.relation].split("|")).format(a=a.shown, b=b.shown)
        answer = "yes" if a.answers == b.answers else "no"
        yield _pair(writer, (answer,), text, (answer,), (a, b))


def _pair(
    writer: Writer, family: tuple[str, ...], text: str, answers: tuple[str, ...],
    facts: tuple[Fact, Fact],
) -> Question:  # fmt: skip
    steps = tuple(_step(writer, fact) for fact in facts)
    return Question(
        family, "comparison", sentence(text), answers, tuple(f.gold for f in facts), steps
    )


def gives_away(question: Question, texts: dict[Gold, str]) -> bool:
    """Whether a question holds its answer or a bridge, or an earlier passage already answers it."""
    if question.kind == "comparison":
        return False
    hidden = [*question.answers, *(step["answer"] for step in question.steps)]
    if any(_within(name, question.text) for name in hidden):
        return True
    return any(_within(question.answers[0], texts[gold]) for gold in question.gold[:-1])


def _within(name: str, text: str) -> bool:
    pattern = rf"(?<!\w){re.escape(name.lower())}(?!\w)"
    return len(letters(name)) > 1 and re.search(pattern, text.lower()) is not None
