"""WebShop-v0: the contract, its signals and options; WebShop-v1 is in test_world.py."""

import copy
import pickle
import random

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs import MissingAsset
from agent_envs.testing import check_agent_env


def make(**options):
    return gym.make("WebShop-v0", **options)


def play(env, way="", task=0):
    """All that an episode returned; the reset as a step without action."""
    observation, info = env.reset(options={"task": task})
    actions = way.split(";") if way else []
    return [(observation, 0.0, False, False, info), *map(env.step, actions)]


@pytest.fixture
def shop(folder_of, record, wanted):
    """Makes a shop of a light shoe in colors and sizes, a dear one that is not light, and a hat."""
    options = {"Color": ["Red", "Blue"], "Size": ["S", "L"]}
    hat = {"name": "Straw Hat", "query": "hat", "product_category": "Hats", "options": {}}
    hat |= {"full_description": "A hat.", "small_description": ["light"]}
    dear = record("B1", options=options, pricing="$99", small_description=["tough"])
    records = [record("A1", options=options), dear, record("C1", **hat)]
    folder = folder_of(records, {"A1": wanted("light")})
    return lambda **options: make(**({"data": folder, "split": "all"} | options))


ITEM = "search[shoe];click[a1]"
BOUGHT = f"{ITEM};click[red];click[s];click[buy now]"


def task_of(env, number):
    return env.unwrapped.panel.task_ids.index(f"A1-{number}")


def test_without_data_it_names_the_other_world():
    with pytest.raises(MissingAsset, match=r"WebShop-v0 .*data='auto'; give .* WebShop-v1$"):
        make()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"attributes": True, "reward": "score", "split": "val"},
        {"observation": "url", "reward": "success10", "max_turns": 7},
        {"previous_observations": 2, "previous_actions": 3, "render_mode": "ansi"},
        {"observation": "text_rich", "price_seed": 3},
        {"goals": "human"},
    ],
)
def test_the_contract(made_up, options):
    check_agent_env(make(data=made_up, **({"split": "test"} | options)))


def test_an_episode_told_from_outside(shop):
    env = shop()
    steps = play(env, BOUGHT, task_of(env, 0))  # names in order: color red, size s
    start = steps[0][4]
    limit = start["goal"].rpartition(" than ")[2]  # drawn
    assert limit in {"30.00 dollars", "40.00 dollars", "50.00 dollars"}
    goal = f"i need a shoe with color: red, and size: s, and price lower than {limit}"
    top = f"Instruction: [SEP] {goal} [SEP] Back to Search"
    results = (
        f"{top} [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] A1 [SEP] Red Canvas Shoe "
        "[SEP] $12.99 [SEP] B1 [SEP] Red Canvas Shoe [SEP] $99.0"
    )
    item = (
        f"{top} [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] s [SEP] l [SEP] "
        "Red Canvas Shoe [SEP] Price: $12.99 [SEP] Rating: N.A. [SEP] Description [SEP] Features "
        "[SEP] Reviews [SEP] Buy Now"
    )
    assert [step[0] for step in steps[:-1]] == [
        f"WebShop [SEP] Instruction: [SEP] {goal} [SEP] Search",
        results,
        item,
        item,
        item,
    ]
    assert 'A1 [SEP] options [SEP] {"color": "red", "size": "s"} [SEP]' in steps[-1][0]
    assert "Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP]" in steps[-1][0]
    assert [step[1:4] for step in steps[1:]] == [(0.0, False, False)] * 4 + [(1.0, True, False)]
    # of the attribute, two options and the price: 2, 3 and 4 of 4
    assert [step[4]["progress"] for step in steps] == [0, 0, 0.5, 0.75, 1, 1]
    assert start == {
        "goal": goal,
        "valid": True,
        "invalid_reason": "",
        "progress": 0.0,
        "anchor": start["anchor"],
        "success": False,
        "admissible_actions": ["search[<keywords>]"],
        "task_id": "A1-0",
        "turn": 0,
        "reward_terms": {"own": 0.0},
        "reward_factors": {},
        "title_nouns": "words",
        "measures": {"score": 0.0},
    }
    clicks = [[a[6:-1] for a in step[4]["admissible_actions"][1:]] for step in steps[1:3]]
    tabs = ["description", "features", "reviews"]
    assert clicks[0] == ["back to search", "next >", "a1", "b1"]
    assert clicks[1] == ["back to search", "< prev", *tabs, "buy now", "red", "blue", "s", "l"]
    end = steps[-1][4]
    assert (end["success"], end["admissible_actions"]) == (True, [])
    assert end["reward_factors"] == dict.fromkeys(("type", "attributes", "options", "price"), 1.0)
    assert all(step[4]["reward_factors"] == {} for step in steps[:-1])
    assert len({step[4]["anchor"] for step in steps}) == 6


# What buying shows of the goal color red, size s, below the hat's 99 dollars: the attribute, each
# option and the price are a quarter; no title noun in common makes 0 of everything.
@pytest.mark.parametrize(
    ("way", "score", "terms"),
    [
        (f"{ITEM};click[red];click[s]", 1.0, (1.0, 1.0, 1.0, 1.0)),
        (f"{ITEM};click[red];click[l]", 0.75, (1.0, 1.0, 0.5, 1.0)),
        (ITEM, 0.5, (1.0, 1.0, 0.0, 1.0)),
        ("search[shoe];click[b1];click[s];click[red]", 0.5, (1.0, 0.0, 1.0, 0.0)),
        ("search[shoe];click[b1];click[blue]", 0.0, (1.0, 0.0, 0.0, 0.0)),
        ("search[hat];click[c1]", 0.0, (0.0, 1.0, 0.0, 1.0)),  # light and 12.99 dollars, too
    ],
)
def test_rewards_of_a_purchase(shop, way, score, terms):
    paid = {"success": float(score == 1), "success10": 10.0 * (score == 1), "score": score}
    for reward, expected in paid.items():
        env = shop(reward=reward)
        steps = play(env, f"{way};click[buy now]", task_of(env, 0))
        assert all(step[1] == 0 for step in steps[:-1])
        _, payment, terminated, truncated, info = steps[-1]
        assert (payment, terminated, truncated) == (expected, True, False)
        assert (info["progress"], info["success"]) == (score, score == 1)
        names = ("type", "attributes", "options", "price")
        assert info["reward_factors"] == dict(zip(names, terms, strict=True))
        assert f"[SEP] {score} [SEP]" in steps[-1][0]


def test_progress_is_the_score_of_the_page(shop):
    env = shop()
    way = f"{ITEM};click[red];click[< prev];click[b1];click[red];click[s];click[buy now]"
    steps = play(env, way, task_of(env, 0))
    # red; back; to the dear one, red and small; bought
    assert [step[4]["progress"] for step in steps] == [0, 0, 0.5, 0.75, 0, 0, 0.25, 0.5, 0.5]
    steps = play(env, f"{ITEM};click[red];click[features];click[< prev]", task_of(env, 0))
    assert len({step[4]["progress"] for step in steps[3:]}) == 1  # on a tab it is the product's


def anchor_after(env, way):
    steps = play(env, way)
    assert all(step[4]["valid"] for step in steps)
    return steps[-1][4]["anchor"]


def test_the_way_to_a_page_is_not_in_its_anchor(shop):
    for one, other in (
        ("", f"{ITEM};click[back to search]"),
        ("search[shoe]", f"{ITEM};click[< prev]"),
        ("search[Shoe]", "search[shoe]"),
        (f"{ITEM};click[red];click[s]", f"{ITEM};click[s];click[blue];click[red]"),
        (ITEM, f"{ITEM};click[red];click[< prev];click[a1]"),
        (ITEM, "search[shoe];click[b1];click[< prev];click[a1]"),
        (
            f"{ITEM};click[red];click[features]",
            f"{ITEM};click[red];click[reviews];click[< prev];click[features]",
        ),
    ):
        assert anchor_after(shop(), one) == anchor_after(shop(), other)


def test_parts_of_an_anchor(shop):
    ways = ["", "search[shoe]", "search[nothing of this]", ITEM, "search[shoe];click[b1]"]
    clicks = ("red", "blue", "s", "red];click[s", "features", "reviews", "red];click[features")
    ways += [f"{ITEM};click[{text}]" for text in (*clicks, "buy now", "red];click[buy now")]
    assert len({anchor_after(shop(), way) for way in ways}) == len(ways)
    # the address has the query, so these are two states
    queries = ["search[red shoe]", "search[shoe red]"]
    assert len({anchor_after(shop(), query) for query in queries}) == 2


@pytest.mark.parametrize(
    ("way", "action", "why"),
    [
        *(("", act, "format") for act in ("buy now", "search[]", "think[x]", "")),
        ("", "click[search]", "refused"),
        ("", "click[a1]", "unknown"),
        ("search[shoe]", "click[c1]", "unknown"),  # not among the results
        ("search[shoe]", "click[red canvas shoe]", "unknown"),  # titles are no links
        ("search[shoe]", "click[< prev]", "unknown"),
        ("search[shoe]", "click[search]", "unknown"),
        (ITEM, "click[green]", "unknown"),
        (ITEM, "click[color]", "unknown"),
        (ITEM, "click[attributes]", "unknown"),  # not shown
        (f"{ITEM};click[features]", "click[buy now]", "unknown"),
    ],
)
def test_reasons_why_an_action_is_invalid(shop, way, action, why):
    env = shop()
    steps = play(env, way)
    before = steps[-1]
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == (before[0], 0.0, False, False)
    assert info == before[4] | {"valid": False, "invalid_reason": why, "turn": len(steps)}


def test_case_does_not_matter_and_blanks_do(shop, folder_of, record, wanted):
    # "6/" is read as "6 | "
    folder = folder_of([record(options={"Size": ["6/", "7"]})], {"A1": wanted("light")})
    env = shop()
    assert play(env, "search[shoe];click[A1];click[RED];click[Buy Now]")[-1][2]
    assert not play(env, f"{ITEM};click[ red ]")[-1][4]["valid"]
    *_, last = play(make(data=folder, split="all"), f"{ITEM};click[6 | ]")
    assert last[4]["valid"]
    assert "click[6 | ]" in last[4]["admissible_actions"]


def test_addresses(shop):
    env = shop(observation="url")
    number = task_of(env, 2)
    way = "search[red Shoe];click[a1];click[blue];click[features];click[< prev];click[buy now]"
    base, query = "http://127.0.0.1:3000", "red+shoe"
    assert [step[0] for step in play(env, way, number)] == [
        f"{base}/{number}",
        f"{base}/search_results/{number}/{query}/1",
        f"{base}/item_page/{number}/A1/{query}/1/{{}}",
        f'{base}/item_page/{number}/A1/{query}/1/{{"color": "blue"}}',
        f"{base}/item_sub_page/{number}/A1/{query}/1/Features/{{'color': 'blue'}}",
        f'{base}/item_page/{number}/A1/{query}/1/{{"color": "blue"}}',
        f"{base}/done/{number}/A1/{{'color': 'blue'}}",
    ]


@pytest.mark.parametrize(
    ("observations", "actions", "told"),
    [(0, 0, "2"), (1, 0, "12"), (0, 1, "b2"), (2, 1, "01b2"), (1, 2, "a1b2"), (9, 9, "0a1b2")],
)
def test_previous_observations_and_actions(shop, observations, actions, told):
    a, b = ITEM.split(";")
    plain = [step[0] for step in play(shop(), ITEM)]
    texts = {"a": a, "b": b} | {str(n): text for n, text in enumerate(plain)}
    env = shop(previous_observations=observations, previous_actions=actions)
    for _ in range(2):  # a reset forgets
        steps = play(env, ITEM)
        assert steps[0][0] == plain[0]
        assert steps[2][0] == " [SEP] ".join(texts[name] for name in told)


def test_pages_and_pasts_that_are_too_long_are_cut(folder_of, record, wanted):
    long = record(full_description="x" * 90_000, small_description=["y" * 40_000])
    folder = folder_of([long], {"A1": wanted("shoe")})
    way = "search[canvas];click[a1];click[features];click[< prev];click[description]"
    plain = play(make(data=folder, split="all"), way)
    assert [len(step[0]) for step in plain[3:]] == [len(plain[3][0]), len(plain[2][0]), 65_536]
    *_, tab, item, last = play(make(data=folder, split="all", previous_observations=2), way)
    assert last[0] == plain[5][0]  # no room for what was before
    # 40,000 and what little was before it
    assert item[0] == " [SEP] ".join(step[0] for step in plain[2:5])
    assert len(tab[0]) < 65_536


@pytest.mark.slow
def test_any_text_is_an_action(shop):
    env = shop(observation="text_rich", max_turns=50)
    rng = random.Random(0)

    @settings(max_examples=100, database=None)
    @given(st.lists(st.text(st.characters(codec=None)), min_size=10, max_size=10))
    def play_anything(texts):
        _, before = env.reset(options={"task": 0})
        for text in texts:
            listed = rng.choice(before["admissible_actions"]).replace("<keywords>", "shoe")
            action = rng.choice((text, f"search[{text}]", f"click[{text}]", listed))
            observation, reward, terminated, _, info = env.step(action)
            assert observation in env.observation_space
            assert observation.encode()
            assert reward in {0.0, 1.0}
            assert info["valid"] == (info["invalid_reason"] == "")
            if not info["valid"]:
                assert info["anchor"] == before["anchor"]
                assert info["admissible_actions"] == before["admissible_actions"]
            before = info
            if terminated:
                break

    play_anything()


def test_the_longest_action_is_a_search(shop):
    query = "red " * 1021 + "red"  # 4,087 characters, and 8 around them
    long, short = (play(shop(), f"search[{q}]")[-1][4] for q in (query, "red"))
    assert long["valid"]
    assert long["admissible_actions"] == short["admissible_actions"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goals": "humans"}, "unknown goals 'humans', did you mean 'human'"),
        ({"observation": "rich"}, "unknown observation 'rich', did you mean 'text_rich'"),
        ({"reward": "pay"}, "unknown reward 'pay'; known are success, score, success10"),
        ({"split": "tests"}, "unknown split 'tests', did you mean 'test'"),
        ({"max_turns": 0}, "max_turns must be at least 1, got 0"),
        ({"previous_observations": -1}, "must be at least 0, got -1 and 0"),
        ({"previous_actions": -1}, "must be at least 0, got 0 and -1"),
    ],
)
def test_a_wrong_option_is_refused(shop, options, message):
    with pytest.raises(ValueError, match=message):
        shop(**options)


def test_a_copy_branches_and_the_original_goes_on(shop):
    env = shop(reward="score", previous_actions=9)
    play(env, ITEM, task_of(env, 0))
    copies = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    for twin in copies:
        assert twin.unwrapped.shop is env.unwrapped.shop
        assert twin.step("click[buy now]")[1] == 0.5
    env.step("click[red]")
    env.step("click[s]")
    assert env.step("click[buy now]")[1] == 1.0
    # the task ids of the panel, not 1,000 products
    assert len(pickle.dumps(env)) < 20_000


def test_the_turn_limit(shop):
    steps = play(shop(max_turns=2), ITEM)
    assert [step[2:4] for step in steps[1:]] == [(False, False), (False, True)]
    # a purchase on the last turn ends the episode by itself
    assert play(shop(max_turns=5), BOUGHT)[-1][2:4] == (True, False)
    steps = play(shop(), ";".join(["click[nothing]"] * 15))  # 15 by default
    assert [step[3] for step in steps[1:]] == [False] * 14 + [True]


def test_the_price_seed_draws_the_limits(shop):
    goals = [play(shop(price_seed=seed))[0][4]["goal"] for seed in range(8)]
    assert len({goal.rpartition(" than ")[2] for goal in goals}) > 1
