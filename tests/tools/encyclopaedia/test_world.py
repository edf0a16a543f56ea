"""What the encyclopaedia's generator takes from the tables, and what it leaves out as doubtful."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.assets import MissingAsset
from tools.encyclopaedia.chemistry import chemistry
from tools.encyclopaedia.countries import countries
from tools.encyclopaedia.facts import all_facts
from tools.encyclopaedia.places import places
from tools.encyclopaedia.sentences import Writer
from tools.encyclopaedia.wordings import ASKS, PHRASES
from tools.encyclopaedia.world import read_world


@pytest.fixture(scope="module")
def world():
    try:
        return read_world()
    except MissingAsset as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def facts(world):
    return {(fact.relation, fact.shown): fact.answers for fact in all_facts(world)}


@pytest.fixture(scope="module")
def passages(world):
    writer = Writer(np.random.default_rng(1))
    made = [*countries(world, writer), *places(world, writer), *chemistry(world, writer)]
    return {article.title: article.text for article in made}


@pytest.mark.parametrize(
    ("relation", "shown", "answer"),
    [
        ("melting", "tin", "232 degrees Celsius"),  # not where grey tin turns into white
        ("melting", "phosphorus", "44.1 degrees Celsius"),
        ("currency", "Thailand", "baht"),
        ("before the euro", "Germany", "Deutsche Mark"),
        ("of three letters", "LCA", "St. Lucia"),
        ("discoverer", "ytterbium", "Marignac"),
        ("zone", "Liberia in Costa Rica", "America/Costa_Rica"),
        ("of iata", "HRE", "Robert Gabriel Mugabe International Airport"),
    ],
)
def test_answers(facts, relation, shown, answer):
    assert answer in facts[relation, shown]


def test_what_has_several_right_answers_is_not_asked(facts):
    assert facts.keys().isdisjoint(
        {
            ("year", "magnesium"),  # Black 1755 or Davy 1808
            ("discoverer", "manganese"),
            ("euro year", "San Marino"),
            ("language", "Guinea"),
            ("zone", "Liberia"),  # a country, and a city in another
            ("airport", "London in the United Kingdom"),  # six have the city in the table
            ("city", "Newcastle Airport"),  # also in South Africa and Australia
        }
    )


def test_names_that_one_thing_has(world, facts):
    assert "peso" not in facts["currency", "Chile"]
    assert "yuan" in facts["currency", "China"]
    names = {fact.shown: fact.names for fact in all_facts(world) if fact.relation == "born"}
    assert "Curie" not in names["Marie Curie"]
    assert {"Rayleigh", "John William Strutt"} < set(names["Lord Rayleigh"])
    assert all(world.found_by.values())
    assert {name for _, people in world.discoveries.values() for name in people} == {*world.people}


def test_territories_are_not_asked_for_as_countries(world):
    for relation in ("user", "country", "of three letters", "of calling code", "of domain"):
        assert all("country or territory" in ask for ask in ASKS[relation].split("|"))
        assert all("{noun}" in phrase for phrase in PHRASES[relation].split("|"))


def test_passages_say_what_is_sure(passages):
    assert "borders" not in passages["Geography of Serbia"]
    assert "Kosovo" not in passages["Geography of Albania"]
    assert "5f14 6d" not in passages["Darmstadtium"]  # reckoned, not measured
    assert "notes followed in 2002" in passages["Money in Italy"]
    assert "2002" not in passages["Money in Croatia"]


def test_passages_keep_to_their_length_whatever_wording_is_drawn(world):
    for seed in range(3):
        writer = Writer(np.random.default_rng(seed))
        for article in [*countries(world, writer), *chemistry(world, writer)]:
            assert 40 <= len(article.text.split()) <= 110, article
