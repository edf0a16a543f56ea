"""Every question of the encyclopaedia: what pays nothing in any reward, and what pays."""

import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from agent_envs.search_qa.accepted import Accepted
from agent_envs.search_qa.answers import METRICS
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.forms import read_forms
from tools.encyclopaedia.wordings import ASKS

pytestmark = pytest.mark.slow

YEARS = {"born", "died", "year", "isotope year", "euro year"}
NEGATED = ("not {}", "no {}", "never {}", "It is not {}", "{}, not", "other than {}", "non-{}")
BOTH = ["{1}", "{} or {}", "{1} or {0}", "{} and {}", "{}, {}"]
BOTH += ["{1} {0}", "{}/{}", "{} ({})", "{}; {}"]
UNITS = ("K", "°F", "‰", "BC", "km", "kg", "weeks", "ppm", "million", "neutrons", "$", "°N")
KINDS = [
    (relation, re.compile(".+".join(map(re.escape, wording.split("{x}")))))
    for relation, wordings in ASKS.items()
    for wording in wordings.split("|")
]


def kind_of(question):
    """What the question asks for, by the wording of its last step."""
    if question.kind == "comparison":
        return "yes or no" if question.answers[0] in {"yes", "no"} else "choice"
    asked = question.steps[-1]["question"]
    kind = next(relation for relation, pattern in KINDS if pattern.fullmatch(asked))
    return "year" if kind in YEARS else kind


@pytest.fixture(scope="module", params=[8, pytest.param(1, marks=pytest.mark.long)])
def kinds(request):
    """The questions of each kind, every eighth or all."""
    found = defaultdict(list)
    for question in open_data("embedded").questions.values():
        found[kind_of(question)].append(question)
    return {kind: questions[:: request.param] for kind, questions in found.items()}


def _name_others(kind, question):
    """Another person of the same last name."""
    if kind != "discoverer":
        return []
    last = question.answers[0].split()[-1]
    known = {read_forms(name).spaced[0] for name in question.answers}
    names = [name for name in ("Ernest", "Zoe", "Quentin", "F.") if name[0].lower() not in known]
    ways = ("{} {}", "{1}, {0}", "{1} ({0})", "{0} and {1}")
    return [way.format(name, last) for name in names for way in ways]


def _change_units(question):
    numbers = [gold for gold in question.answers if re.match(r"[-+]?\d|minus ", gold)]
    return [f"{gold}{way}" for gold in numbers for unit in UNITS for way in (unit, f" {unit}")]


WRONG = {
    "lists": lambda _, q, common, other: [s.join(common) for s in (" ", ", ", " or ", "/")],
    "negations": lambda _, q, common, other: [way.format(q.answers[0]) for way in NEGATED],
    "two answers": lambda _, q, common, other: [
        way.format(gold, other) for gold in q.answers[:2] for way in BOTH
    ],
    "another unit": lambda _, q, common, other: _change_units(q),
    "another person": lambda kind, q, common, other: _name_others(kind, q),
}


@pytest.mark.parametrize("ways", WRONG)
def test_wrong_answers_pay_nothing(kinds, ways):
    rng, paid = np.random.default_rng(0), []
    for kind, questions in kinds.items():
        counts = Counter(question.answers[0] for question in questions)
        names, common = [*counts], [name for name, _ in counts.most_common(5)]
        for question in questions[:: 2 if ways == "two answers" else 1]:
            accepted = Accepted(question.answers, question.text, question.bridges)
            order = (names[i] for i in rng.permutation(len(names)))
            other = next(name for name in order if not accepted.is_right(name))
            paid += [
                (question.id, question.answers[0], answer)
                for answer in WRONG[ways](kind, question, common, other)
                if any(accepted.score(reward, answer) for reward in METRICS)
            ]
    assert paid == []


def test_accepted_answers_pay(kinds):
    for questions in kinds.values():
        for question in questions:
            accepted = Accepted(question.answers, question.text, question.bridges)
            for gold in question.answers:
                for answer in (gold, f"{gold}.", f'"{gold}"', f"**{gold}**", f" {gold} "):
                    paid = [accepted.score(reward, answer) for reward in METRICS]
                    assert paid == [1, 1, 1], (question, answer)


def test_the_last_passage_shows_the_answer_and_no_other_does(kinds):
    texts = {p.id: f"{p.title}\n{p.text}" for p in open_data("embedded").corpus}
    silent = 0
    for questions in kinds.values():
        for question in questions:
            accepted = Accepted(question.answers, question.text, question.bridges)
            silent += accepted.silent and not accepted.choice
            *before, last = question.gold
            assert not accepted.is_shown_in(texts[gold] for gold in before)
            assert accepted.silent or accepted.is_shown_in([texts[last]])
    assert 0 < silent < 150  # two-letter codes in small letters, which may be any word
