"""Against the public WebShop, run unchanged: goals, searches, scores and episodes, exactly."""

from __future__ import annotations

import gzip
import json

import gymnasium as gym
import pytest

from agent_envs.webshop import reward
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.goals import KINDS
from agent_envs.webshop.search import Index
from agent_envs.webshop.shop import open_shop


@pytest.fixture(scope="module")
def golden(recorded):
    """The answers of the public WebShop."""
    return json.loads(gzip.decompress((recorded / "golden.json.gz").read_bytes()))


def shop_of(folder, kind):
    return open_shop(open_catalogue(folder), kind, strict=False, price_seed=0, attributes=False)


def test_products(made_up, golden):
    found = {
        product.asin: {
            "Title": product.title,
            "Price": product.price_tag,
            "pricing": list(product.prices),
            "options": {name: list(values) for name, values in product.options.items()},
            "query": product.query,
            "BulletPoints": list(product.bullets),
            "Description": product.description,
            "Rating": "N.A.",
            "Attributes": list(product.attributes),
        }
        for product in open_catalogue(made_up).products
    }
    assert found == {
        asin: {name: one[name] for name in one if name != "MainImage"}
        for asin, one in golden["products"].items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_prices_and_goals(made_up, golden, kind):
    shop = shop_of(made_up, kind)
    products = shop.catalogue.products
    prices = dict(zip((p.asin for p in products), shop.prices, strict=True))
    assert prices == golden[f"prices_{kind}"]
    found = [
        {
            "asin": products[goal.product].asin,
            "instruction_text": goal.text,
            "attributes": list(goal.attributes),
            "price_upper": goal.price_upper,
            "goal_options": dict(goal.options)
            if kind == "synthetic"
            else [value for _, value in goal.options],
        }
        for goal in shop.goals.values()
    ]
    assert found == [
        {name: one[name] for name in one if name != "weight"} for one in golden[f"goals_{kind}"]
    ]


def test_searches(recorded, golden):
    documents = json.loads(gzip.decompress((recorded / "index_documents.json.gz").read_bytes()))
    ids = [document["id"] for document in documents]
    index = Index((document["contents"] for document in documents), ids)
    for one in golden["search"]:
        places, scores = index.scores(one["q"])
        assert [ids[place] for place in places] == one["top50"], one["q"]
        assert scores.tolist() == pytest.approx(one["scores"], abs=5e-5)


def test_scores(made_up, golden):
    for one in golden["rewards"]:
        shop = shop_of(made_up, one["kind"])
        goal = list(shop.goals.values())[one["goal_index"]]
        match = shop.match(goal, shop.catalogue.place[one["asin"].lower()])
        found = reward.score_purchase(
            goal, match, reward.count_similar_options(goal.options, one["options"].items())
        )
        told = one["info"]
        assert found.total == one["reward"], one
        assert (found.type, found.attributes) == (told["r_type"], told["r_att"])
        assert (found.options, found.price) == (told.get("r_option", 1.0), told["r_price"])


@pytest.mark.parametrize("observation", ["text", "text_rich"])
@pytest.mark.parametrize("kind", KINDS)
def test_episodes(made_up, golden, observation, kind):
    env = gym.make(
        "WebShop-v0",
        data=made_up,
        mode="upstream",
        observation=observation,
        goals=kind,
        split="all",
        reward="score",
        attributes=observation == "text_rich",  # as they were recorded
        max_turns=1000,
    )
    for episode in golden["transcripts"][f"{observation}/{kind}"]:
        seen, info = env.reset(options={"task": episode["goal_index"]})
        assert seen == episode["reset_obs"]
        for step in episode["steps"]:
            clicks = [f"click[{text}]" for text in step["available"]["clickables"]]
            offered = set(info["admissible_actions"]) - {"search[<keywords>]"}
            assert offered == set(clicks) - {"click[search]"}
            seen, paid, ended, _, info = env.step(step["action"])
            assert (seen, paid, ended) == (step["obs"], step["reward"], step["done"])
        if episode.get("reward_info"):
            assert info["reward_terms"]["attributes"] == episode["reward_info"]["r_att"]
