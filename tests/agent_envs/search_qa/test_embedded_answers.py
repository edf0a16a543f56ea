"""Questions of the encyclopaedia: what pays nothing in any reward, and what pays."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from agent_envs.search_qa.accepted import Accepted
from agent_envs.search_qa.answers import METRICS
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.forms import read_forms

pytestmark = pytest.mark.slow

NEGATED = ("not {}", "no {}", "never {}", "It is not {}", "{}, not", "other than {}", "non-{}")
BOTH = ("{1}", "{} or {}", "{1} or {0}", "{} and {}", "{}, {}", "{1} {0}", "{}/{}", "{} ({})")
UNITS = ("K", "°F", "‰", "BC", "km", "kg", "weeks", "ppm", "million", "neutrons", "$", "°N")


@pytest.fixture(scope="module", params=[16, pytest.param(1, marks=pytest.mark.long)])
def kinds(request):
    """Questions by the first words of their last step, every 16th of a kind or all."""
    found = defaultdict(list)
    for question in open_data("embedded").questions.values():
        asked = question.steps[-1]["question"] if question.kind != "comparison" else question.text
        found[" ".join(asked.split()[:2])].append(question)
    return [questions[:: request.param] for questions in found.values()]


def name_others(question):
    """Another person of the same last name."""
    if not question.steps[-1]["question"].startswith("Who"):
        return []
    last = question.answers[0].split()[-1]
    known = {read_forms(name).spaced[0] for name in question.answers}
    names = [name for name in ("Ernest", "Zoe", "Quentin", "F.") if name[0].lower() not in known]
    ways = ("{} {}", "{1}, {0}", "{1} ({0})", "{0} and {1}")
    return [way.format(name, last) for name in names for way in ways]


def change_units(question):
    numbers = [gold for gold in question.answers if re.match(r"[-+]?\d|minus ", gold)]
    return [f"{gold}{way}" for gold in numbers for unit in UNITS for way in (unit, f" {unit}")]


def test_wrong_answers_pay_nothing(kinds):
    rng, paid, tried = np.random.default_rng(0), [], 0
    for questions in kinds:
        counts = Counter(question.answers[0] for question in questions)
        names, common = [*counts], [name for name, _ in counts.most_common(5)]
        for question in questions:
            accepted = Accepted(question.answers, question.text, question.bridges)
            order = (names[i] for i in rng.permutation(len(names)))
            other = next((name for name in order if not accepted.is_right(name)), "Rome")
            wrong = [way.format(question.answers[0]) for way in NEGATED]
            wrong += [way.format(gold, other) for gold in question.answers[:2] for way in BOTH]
            wrong += [*change_units(question), *name_others(question)]
            if len(common) > 1:
                wrong += [joined.join(common) for joined in (" ", ", ", " or ", "/")]
            tried += len(wrong)
            paid += [
                (question.id, question.answers[0], answer)
                for answer in wrong
                if any(accepted.score(reward, answer) for reward in METRICS)
            ]
    assert paid == []
    assert tried > 5000


def test_accepted_answers_pay(kinds):
    for question in (question for questions in kinds for question in questions):
        accepted = Accepted(question.answers, question.text, question.bridges)
        for gold in question.answers:
            for answer in (gold, f"{gold}.", f'"{gold}"', f"**{gold}**", f" {gold} "):
                paid = [accepted.score(reward, answer) for reward in METRICS]
                assert paid == [1, 1, 1], (question, answer)


def test_the_last_passage_shows_the_answer_and_no_other_does(kinds):
    texts = {p.id: f"{p.title}\n{p.text}" for p in open_data("embedded").corpus}
    silent = 0
    for question in (question for questions in kinds for question in questions):
        accepted = Accepted(question.answers, question.text, question.bridges)
        silent += accepted.silent and not accepted.choice
        *before, last = question.gold
        assert not accepted.is_shown_in(texts[gold] for gold in before)
        assert accepted.silent or accepted.is_shown_in([texts[last]])
    assert 0 < silent < 150  # two-letter codes in small letters, which may be any word
