"""The embedded catalogue: its size, its goals, and the rivals that make them hard."""

from __future__ import annotations

import collections
import hashlib
import json
import os
import subprocess
import sys

import pytest

from agent_envs.webshop.catalogue import open_catalogue, read_products
from agent_envs.webshop.generate import generate_products
from agent_envs.webshop.pages import Page
from agent_envs.webshop.shop import open_shop


@pytest.fixture(scope="module")
def shop():
    return open_shop(open_catalogue("embedded"), "synthetic", True, 0, False)


def families(shop):
    """Places of products by what is sold and who makes it."""
    found = collections.defaultdict(list)
    for place, product in enumerate(shop.catalogue.products):
        found[product.query, product.title.split()[0]].append(place)
    return found


def exact(goal, place):
    return Page("item", product=place, options=goal.options)


def test_goals_ask_for_two_attributes_that_the_product_has(shop):
    products = shop.catalogue.products
    assert len({p.asin for p in products}) == len(products) == 1000
    assert len({p.query for p in products}) >= 80
    assert len({goal.product for goal in shop.goals.values()}) == 300
    assert 100 < sum(bool(p.instruction[0]) for p in products[:500]) < 200  # not all in front
    for goal in shop.goals.values():
        product = shop.catalogue.products[goal.product]
        assert len(set(goal.attributes)) == 2
        assert set(goal.attributes) <= set(product.attributes)
        assert all(attribute in goal.text for attribute in goal.attributes)
        assert all(f"{name}: {value}" in goal.text for name, value in goal.options)
        assert dict(goal.options).keys() == product.options.keys()
        assert f"price lower than {goal.price_upper:.2f} dollars" in goal.text
        match = shop.match(goal, goal.product)  # its product meets it, bought as asked
        assert shop.score(goal, match, exact(goal, goal.product)) == (1.0, 1.0, 1.0, 1.0, 1.0)


def test_most_products_asked_for_have_a_twin_and_a_dear_rival_that_do_not_do(shop):
    group = families(shop)
    products = shop.catalogue.products
    goals = {goal.product: goal for goal in shop.goals.values()}  # one of each product
    twins = dear = 0
    for place, goal in goals.items():
        key = products[place].query, products[place].title.split()[0]
        rivals = [other for other in group[key] if other != place]
        scores = [shop.score(goal, shop.match(goal, r), exact(goal, r)) for r in rivals]
        twins += any(s.type == s.options == s.price == 1 > s.attributes for s in scores)
        dear += any(s.type == s.options == s.attributes == 1 > s.price for s in scores)
    # the last of a catalogue can be cut off its family, and an attribute can hold another
    assert twins >= 0.98 * len(goals)
    assert dear >= 0.98 * len(goals)


def test_other_sizes_and_seeds():
    for count in (1, 7, 1200):
        records, known, nouns = generate_products(count, seed=3)
        assert len(records) == len(known) == len(nouns) == count
        assert len(read_products(records, known)) == count
    assert generate_products(50, seed=3) != generate_products(50, seed=4)


@pytest.mark.slow
def test_the_same_in_processes_with_other_hash_seeds():
    program = (
        "import hashlib, json; from agent_envs.webshop.generate import generate_products;"
        "print(hashlib.sha256(json.dumps(generate_products()).encode()).hexdigest())"
    )
    here = hashlib.sha256(json.dumps(generate_products()).encode()).hexdigest()
    for hash_seed in ("1", "2"):
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.run(
            [sys.executable, "-c", program],
            env=variables | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert child.stdout.strip() == here
