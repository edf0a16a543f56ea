"""The public WebShop's faults: kept with mode="upstream" or mended by mode="strict" or by both."""

import gymnasium as gym
import pytest
from planned import planned

from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.experts import Oracle
from agent_envs.webshop.shop import MODES, open_shop

STRICT, UPSTREAM = "strict", "upstream"
UNKNOWN, REFUSED, FORMAT = "unknown", "refused", "format"
ITEM = "search[shoe];click[a01]"


def make(folder, mode, **options):
    defaults = {"split": "all", "reward": "score", "max_turns": 100}
    return gym.make("WebShop-v0", data=folder, mode=mode, **(defaults | options))


def play(env, way="", task=0):
    """Observations and infos of an episode, the first at the reset."""
    seen = [env.reset(options={"task": task})]
    for action in way.split(";") if way else []:
        observation, _, _, _, info = env.step(action)
        seen.append((observation, info))
    return seen


@pytest.fixture
def shoes(folder_of, record, wanted):
    """Twelve shoes, A01 to A12, each in red, blue and dark red."""

    def write(number=12, values=("Red", "Blue", "Dark Red"), name="Color", **options):
        names = [f"A{n:02}" for n in range(1, number + 1)]
        options = options or {name: values}
        records = [record(name, options=options) for name in names]
        return folder_of(records, {"A01": wanted("light")})

    return write


def test_searching_on_a_page_without_a_search_bar(shoes):
    folder = shoes()
    for way in ("search[shoe]", ITEM, f"{ITEM};click[features]"):
        *_, before, (observation, info) = play(make(folder, UPSTREAM), f"{way};search[canvas]")
        assert "Page 1 (Total results: 12)" in observation
        assert info["valid"]
        assert "search[<keywords>]" in before[1]["admissible_actions"]
        *_, before, (observation, info) = play(make(folder, STRICT), f"{way};search[canvas]")
        assert (observation, info["anchor"]) == (before[0], before[1]["anchor"])
        assert info["invalid_reason"] == REFUSED
        assert "search[<keywords>]" not in before[1]["admissible_actions"]


@pytest.mark.parametrize(("products", "last"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_pages_beyond_the_last(shoes, products, last):
    folder, way = shoes(products), "search[shoe]" + ";click[next >]" * (last + 5)
    seen = play(make(folder, UPSTREAM), way)
    assert f"Page {last + 6} (Total results: {products})" in seen[-1][0]
    assert all(info["valid"] for _, info in seen[2:])
    assert "A01" not in seen[-1][0]
    seen = play(make(folder, STRICT), way)
    assert f"Page {last} (Total results: {products})" in seen[-1][0]
    reasons = [info["invalid_reason"] for _, info in seen[2:]]
    assert reasons == [""] * (last - 1) + [UNKNOWN] * 6
    more = ["click[next >]" in info["admissible_actions"] for _, info in seen[1 : last + 1]]
    assert more == [True] * (last - 1) + [False]


@pytest.mark.parametrize("mode", MODES)
def test_the_search_has_no_back_doors(shoes, mode):
    # none of the public WebShop's meanings: 50 random products, all of a category, all of a query,
    # IndexError and TypeError; "canvas shoe" are words of the titles, and "light" of a bullet
    env = make(shoes(), mode)
    for query, hits in (
        *(("<r>", 0), ("<c> fashion", 0), ("<c>", 0), ("<q> hat", 0), ("<a>", 0), ("zebra", 0)),
        *(("<q> canvas shoe", 12), ("<a> light", 12)),
    ):
        *_, (observation, info) = play(env, f"search[{query}]")
        assert f"Page 1 (Total results: {hits})" in observation
        assert info["valid"]


@pytest.mark.parametrize(
    ("way", "upstream", "strict"),
    [
        # the address holds "search_results" twice, so the public WebShop believes to be on the
        # results and goes to the page before
        ("search[search_results shoe];click[next >];click[a12]", "Page 1 (T", "Page 2 (T"),
        ("search[search_results shoe];click[a01]", "Page 0 (T", "Page 1 (T"),
        ("search[shoe];click[a01];click[features]", "Price: ", "Price: "),
        ("search[shoe item_page];click[a01];click[features]", "Page 1 (T", "Price: "),
        ("search[shoe item_sub_page];click[a01];click[features]", "Price: ", "Price: "),
    ],
)
def test_the_way_back(shoes, way, upstream, strict):
    for mode, expected in ((UPSTREAM, upstream), (STRICT, strict)):
        assert expected in play(make(shoes(), mode), f"{way};click[< prev]")[-1][0]


@pytest.mark.parametrize("mode", MODES)
def test_products_looked_at_are_marked_until_the_next_search(shoes, mode):
    env = make(shoes(), mode, observation="text_rich")
    way = f"{ITEM};click[features];click[< prev];click[< prev];click[a02];click[< prev]"
    way += ";click[next >];click[< prev];click[back to search];search[shoe]"
    seen = [observation for observation, _ in play(env, way)]
    marks = [
        [n for n in range(1, 11) if f"[clicked button] A{n:02} [" in seen[place]]
        for place in (1, 5, 7, 9, 11)
    ]
    assert marks == [[], [1], [1, 2], [1, 2], []]


ODD = ['7" wide', "café", "back\\slash", "tab\there"]


@pytest.mark.parametrize("value", [*ODD, "men's", "6 | 7", "a]b", "plain"])
def test_marks_of_choices_in_rich_text(shoes, value):
    # the public WebShop looks for the value in double quotes in the address, where JSON has it
    # escaped
    folder = shoes(1, [value, "other"])
    mark = f"  [clicked button] {value} [clicked button_]\n"
    told = f"You have clicked {value}.\n"
    for mode, marked in ((UPSTREAM, value not in ODD), (STRICT, True)):
        env = make(folder, mode, observation="text_rich")
        observation, info = play(env, f"{ITEM};click[{value}]")[-1]
        assert (mark in observation) == observation.startswith(told) == marked
        assert observation.count("[clicked button]") == marked
        assert info["valid"]


def test_values_that_look_like_actions_and_buttons(shoes):
    # the public WebShop takes what is before the last opening bracket for the action's name, and
    # "search" is no click for it, wherever it stands
    folder = shoes(1, ["a[b]", "c[d"])
    for value in ("a[b]", "c[d"):
        way = f"{ITEM};click[{value}]"
        assert play(make(folder, UPSTREAM), way)[-1][1]["invalid_reason"] == FORMAT
        assert play(make(folder, STRICT), way)[-1][1]["valid"]
    folder = shoes(1, ["search", "buy now", "description"])
    way = f"{ITEM};click[search]"
    assert play(make(folder, UPSTREAM), way)[-1][1]["invalid_reason"] == UNKNOWN
    assert play(make(folder, STRICT), way)[-1][1]["valid"]
    # the buttons win, and no split has a goal that asks for what cannot be chosen
    env = make(folder, STRICT)
    unmet = [goal.unmet for goal in env.unwrapped.shop.goals.values()]
    assert sorted(unmet) == [(), ("option 'buy now'",), ("option 'description'",)]
    assert len(env.unwrapped.panel) == 1
    play(env)
    assert [env.step(action) for action in planned(env, Oracle)][-1][1] == 1.0


SHARED = {"Color": ["red", "blue"], "Trim": ["red", "blue", "none"]}


@pytest.mark.parametrize(
    ("clicks", "strict"),
    [
        ("red", {"color": "red"}),
        ("red blue", {"color": "red", "trim": "blue"}),
        ("none red", {"color": "red", "trim": "none"}),
        # once both are chosen, the first that has another one; then nothing is left to change
        ("red red blue", {"color": "blue", "trim": "red"}),
        ("blue blue blue", {"color": "blue", "trim": "blue"}),
    ],
)
def test_a_value_that_two_options_have(shoes, clicks, strict):
    folder = shoes(1, **SHARED)
    way = ";".join([ITEM, *(f"click[{value}]" for value in clicks.split())])
    for mode, chosen in ((STRICT, strict), (UPSTREAM, {"trim": clicks.split()[-1]})):
        env = make(folder, mode, observation="text_rich")
        observation, _ = play(env, way)[-1]
        assert dict(env.unwrapped.page.options) == chosen
        if clicks == "red":
            assert observation.count("You have clicked red.\n") == 1 + (mode == UPSTREAM)


@pytest.mark.parametrize(
    ("action", "upstream", "strict"),
    [
        ("search[X Y]", ("search", "x y"), ("search", "x y")),
        ("search[a]b]", ("search", "a]b"), ("search", "a]b")),
        ("search[ ]", ("search", " "), None),
        ("search[x] tail", ("search", "x"), None),
        ("search[x]\n", ("search", "x"), ("search", "x")),
        (" search[x] ", None, ("search", "x")),
        ("search[a\nb]", None, ("search", "a\nb")),
        ("click[a][b]", None, ("click", "a][b")),
        ("click[a[b]", None, ("click", "a[b")),
        ("search[a]\n\nclick[b]", ("search", "a"), None),
        ("search[research[a]", None, ("search", "research[a")),
        ("click[Buy Now]", ("click", "buy now"), ("click", "buy now")),
        *((act, None, None) for act in ("search[a] click[b]", "click[a], then search[b]", "[x]")),
        *((act, None, None) for act in ("search[a] Click[b]", "Search[x]", "search [x]", "")),
        *((act, None, None) for act in ("search[]", "think[x]", "Action: search[x]", "search")),
    ],
)
def test_the_forms_of_actions(shoes, action, upstream, strict):
    catalogue = open_catalogue(shoes(1))
    for mended, expected in ((False, upstream), (True, strict)):
        shop = open_shop(catalogue, "synthetic", mended, 0, False)
        assert shop.parse(action) == (expected or ("", ""))
