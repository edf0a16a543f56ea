"""Against the public WebShop, run unchanged: goals, searches, scores and episodes, exactly."""

import gzip
import json

import gymnasium as gym
import pytest

from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.goals import KINDS
from agent_envs.webshop.pages import Page
from agent_envs.webshop.search import Index
from agent_envs.webshop.shop import open_shop


@pytest.fixture(scope="module")
def golden(recorded):
    """The answers of the public WebShop."""
    return json.loads(gzip.decompress((recorded / "golden.json.gz").read_bytes()))


def shop_of(folder, kind):
    return open_shop(open_catalogue(folder), kind, price_seed=0, attributes=False)


def test_products(made_up, golden):
    for one in open_catalogue(made_up).products:
        theirs = golden["products"][one.asin]
        options = {name: list(values) for name, values in one.options.items()}
        assert (one.title, one.description) == (theirs["Title"], theirs["Description"])
        assert (one.price_tag, list(one.prices)) == (theirs["Price"], theirs["pricing"])
        assert (one.query, options) == (theirs["query"], theirs["options"])
        assert list(one.bullets) == theirs["BulletPoints"]
        assert list(one.attributes) == theirs["Attributes"]
    assert len(golden["products"]) == len(open_catalogue(made_up).products)


@pytest.mark.parametrize("kind", KINDS)
def test_prices_and_goals(made_up, golden, kind):
    shop = shop_of(made_up, kind)
    products = shop.products
    prices = dict(zip((p.asin for p in products), shop.prices, strict=True))
    assert prices == golden[f"prices_{kind}"]
    for goal, theirs in zip(shop.goals.values(), golden[f"goals_{kind}"], strict=True):
        asked = (products[goal.product].asin, goal.text, list(goal.attributes), goal.price_upper)
        names = ("asin", "instruction_text", "attributes", "price_upper")
        assert asked == tuple(theirs[name] for name in names)
        values = [value for _, value in goal.options]
        assert theirs["goal_options"] == (dict(goal.options) if kind == "synthetic" else values)


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
        options = tuple(one["options"].items())
        page = Page("item", product=shop.place[one["asin"].lower()], options=options)
        found = shop.score(goal, page)
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
            assert info["reward_factors"]["attributes"] == episode["reward_info"]["r_att"]
