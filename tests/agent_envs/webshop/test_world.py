"""WebShop-v1: what its catalogues are made of, what is scored, and what scripts earn."""

import copy
import pickle
import random
import re
from collections import Counter
from itertools import combinations

import gymnasium as gym
import pytest

from agent_envs.assets import table
from agent_envs.testing import check_agent_env
from agent_envs.webshop.oracle import Oracle
from agent_envs.webshop.pages import Page
from agent_envs.webshop.search import extract_terms
from agent_envs.webshop.shop import open_facts
from agent_envs.webshop.world import SEED, SPLITS, World

PARTS = ("train", "val", "test")
DIAL = (1, 2, 3, 4)
WORDS = table("webshop/world.toml")
PLAIN = """
a after all an and ar as at awai be befor by can come do for from get go goe ha have hour in it its
keep kei kilogram made mai make me must n need no of on one or ounc out right suit take than that
the to up us wash with you your
"""


def open_test(requirements=3, split="test"):
    return open_facts(split, requirements, SEED)


def list_matches(shop, goal):
    """The products that satisfy a request, bought with its options."""
    pages = (Page("item", product=at, options=goal.options) for at in range(len(shop.products)))
    return [page.product for page in pages if shop.score(goal, page).total == 1]


def list_members(shop, goal):
    """The members of the requested family below the limit, in the order of a list."""
    families = shop.world.families
    return [
        place
        for place in shop.search(shop.products[goal.product].title.lower())
        if families[place] is families[goal.product]
        and shop.products[place].prices[0] < goal.price_upper
    ]


def read_texts(shop, place):
    return [*shop.products[place].description.splitlines(), *shop.products[place].bullets]


@pytest.mark.parametrize("requirements", DIAL)
def test_a_request_has_one_product(requirements):
    shop = open_test(requirements)
    goals = list(shop.goals.values())
    assert len(goals) == len({goal.product for goal in goals}) == 512
    for goal in random.Random(0).sample(goals, 40):
        assert list_matches(shop, goal) == [goal.product]
        assert len(goal.wishes) == requirements
        assert len(list_members(shop, goal)) == 2**requirements


def test_a_family_has_every_combination_and_dear_copies():
    shop = open_test()
    for goal in list(shop.goals.values())[:40]:
        names = [wish.name for wish in goal.wishes]
        kin = [
            n for n, f in enumerate(shop.world.families) if f is shop.world.families[goal.product]
        ]
        held = Counter(tuple(shop.world.facts[place][name] for name in names) for place in kin)
        assert len(held) == 8
        assert held.total() == 10  # two cost too much
        dear = [place for place in kin if shop.products[place].prices[0] >= goal.price_upper]
        assert len(dear) == 2


def test_splits_share_no_product_brand_wording_or_sentence():
    phrases = {part: [] for part in PARTS}
    for at, part in enumerate(PARTS):
        phrases[part] += WORDS["brands"][at]
        for lists in (*WORDS["requests"].values(), *WORDS["pages"].values()):
            phrases[part] += lists[at]
        for of in WORDS["departments"]:
            phrases[part] += of["kinds"][at]
            for side in of["sides"].values():
                phrases[part] += [*side["yes"][at], *side["no"][at]]
            for number in of["numbers"].values():
                phrases[part] += number["says"][at]
    every = [text for texts in phrases.values() for text in texts]
    assert len(every) == len(set(every))
    for one, other in combinations(PARTS, 2):
        ids = [
            {goal.text for goal in open_test(split=part).goals.values()} for part in (one, other)
        ]
        assert not ids[0] & ids[1]
    assert list(SPLITS.values()) == [len(open_test(split=part).goals) for part in SPLITS]


def test_requests_and_pages_share_no_telling_word():
    """In a split no word of a request's phrase occurs in the same property's on pages."""
    plain = set(PLAIN.split())
    for of in WORDS["departments"]:
        for at in range(3):
            for side in of["sides"].values():
                asks = {w for s in side.values() for w in extract_terms(s[at][0])} - plain
                says = {w for s in side.values() for t in s[at][1:] for w in extract_terms(t)}
                assert not asks & says, (side, asks & says)


def test_sentences_name_what_does_not_hold_and_half_of_them_first():
    for part in WORDS["pages"]["says"]:
        first = [text.index("{yes}") < text.index("{no}") for text in part]
        assert sum(first) * 2 == len(first)
    goal = next(iter(open_test().goals.values()))
    for place in list_members(open_test(), goal):
        for text in read_texts(open_test(), place):
            assert len(re.findall(r"\d+", text)) in {0, 2}


def test_only_pages_tell_the_facts():
    shop = open_test()
    options = [value for one in shop.products for of in one.options.values() for value in of]
    listed_words = {*extract_terms(" ".join([*(one.title for one in shop.products), *options]))}
    for goal in list(shop.goals.values())[:20]:
        listed = shop.build_body(Page("results", shop.products[goal.product].title.lower()))
        told = {one.text for one in listed}
        for place in list_members(shop, goal):
            assert not told & set(read_texts(shop, place))
            words = extract_terms(" ".join(read_texts(shop, place)))
            assert shop.search(" ".join(set(words) - listed_words)) == ()


def test_the_score_is_the_share_that_is_as_requested():
    shop = open_test()
    goal = next(iter(shop.goals.values()))
    count, facts = 3 + len(goal.options) + 1, shop.world.facts
    item = Page("item", product=goal.product)
    assert shop.score(goal, item).total == pytest.approx((count - len(goal.options)) / count)
    for place in list_members(shop, goal):
        met = sum(facts[place][name] == held for name, held in goal.wishes)
        bought = shop.score(goal, item._replace(product=place, options=goal.options))
        assert bought.total == pytest.approx((count - 3 + met) / count)
        assert bought.attributes == pytest.approx(met / 3)
    other = next(
        n
        for n, f in enumerate(shop.world.families)
        if f.brand != shop.world.families[goal.product].brand
    )
    assert shop.score(goal, item._replace(product=other, options=goal.options)).total == 0


def test_a_catalogue_is_the_same_whenever_it_is_made_and_copies_share_it():
    shop = open_test()
    again = World("test", 3)
    assert again.products == shop.products
    assert again.goals == list(shop.goals.values())
    assert World("test", 3, seed=1).products != shop.products
    assert copy.deepcopy(shop) is pickle.loads(pickle.dumps(shop)) is shop
    env = gym.make("WebShop-v1", split="test")
    env.reset(seed=1)
    assert pickle.loads(pickle.dumps(env)).unwrapped.shop is env.unwrapped.shop


def test_anchors_tell_pages_apart_and_not_ways():
    env = gym.make("WebShop-v1", split="test")

    def walk(*actions):
        _, info = env.reset(options={"task": 0})
        for action in actions:
            *_, info = env.step(action)
            assert info["valid"]
        return info["anchor"]

    goal = env.unwrapped.shop.goals["test-3-0"]
    product = env.unwrapped.shop.products[goal.product]
    search, item = f"search[{product.title}]", f"click[{product.asin}]"
    (_, one), (_, two) = goal.options
    assert walk(search) == walk(search, item, "click[< prev]")
    assert walk(f"search[{product.title.upper()} !]") == walk(search)  # it finds the same
    both = [search, item, f"click[{one}]", f"click[{two}]"]
    assert walk(*both) == walk(search, item, f"click[{two}]", f"click[{one}]")
    ways = [[], [search], both[:2], both[:3], both, [*both, "click[features]"]]
    assert len({walk(*way) for way in ways}) == len(ways)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"requirements": 1, "reward": "score"}, {"observation": "text_rich", "split": "val"}],
)
def test_the_contract(options):
    check_agent_env(gym.make("WebShop-v1", **options), oracle=Oracle)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"split": "tests"}, "unknown split 'tests', did you mean 'test'"),
        ({"requirements": 0}, r"requirements, .* lie in 1\.\.4, got 0"),
        ({"requirements": 5}, r"requirements, .* lie in 1\.\.4, got 5"),
        ({"observation": "url"}, "unknown observation 'url'.*text, text_rich, html"),
        ({"reward": "success10"}, "unknown reward 'success10'"),
        ({"max_turns": 0}, "max_turns must be at least 1, got 0"),
    ],
)
def test_options_that_are_refused(options, why):
    with pytest.raises(ValueError, match=why):
        gym.make("WebShop-v1", **options)


# -- the gate: who does not read buys the right one of eight by luck ------------------------------


def count_shared(goal, texts):
    told = set(extract_terms(" ".join(texts)))
    return len(told & set(extract_terms(goal.text.partition(". ")[2])))


SCRIPTS = {
    "the first": lambda shop, goal, places: places[0],
    "the cheapest": lambda shop, goal, places: min(places, key=lambda p: shop.products[p].prices),
    "the dearest": lambda shop, goal, places: max(places, key=lambda p: shop.products[p].prices),
    "most shared words": lambda shop, goal, places: max(
        places, key=lambda p: count_shared(goal, read_texts(shop, p))
    ),
    "most shared words at the beginning": lambda shop, goal, places: max(
        places, key=lambda p: count_shared(goal, [t[: len(t) // 2] for t in read_texts(shop, p)])
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_does_not_read_fails(script):
    shop, found = open_test(), 0
    for goal in shop.goals.values():
        chosen = SCRIPTS[script](shop, goal, list_members(shop, goal))
        facts = shop.world.facts[chosen]
        found += all(facts[wish.name] == wish.holds for wish in goal.wishes)
    assert found <= 0.2 * 512
