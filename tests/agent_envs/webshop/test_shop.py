"""The public WebShop's faults, which WebShop-v0 keeps and WebShop-v1 does not have."""

import gymnasium as gym
import pytest

from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.shop import open_facts, open_shop
from agent_envs.webshop.world import SEED

UNKNOWN, REFUSED, FORMAT = "unknown", "refused", "format"
ITEM = "search[shoe];click[a01]"


def make(folder=None, **options):
    """The public shop of a folder, or else a generated one."""
    options = {"reward": "score", "max_turns": 100} | options
    if folder is None:
        return gym.make("WebShop-v1", split="val", **options)
    return gym.make("WebShop-v0", data=folder, split="all", **options)


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
    for way in ("search[shoe]", ITEM, f"{ITEM};click[features]"):
        *_, before, (observation, info) = play(make(shoes()), f"{way};search[canvas]")
        assert "Page 1 (Total results: 12)" in observation
        assert info["valid"]
        assert "search[<keywords>]" in before[1]["admissible_actions"]
    env = make()
    first = play(env, "search[lamp]")[-1][1]["admissible_actions"][-1]
    for way in ("search[lamp]", f"search[lamp];{first}", f"search[lamp];{first};click[features]"):
        *_, before, (observation, info) = play(env, f"{way};search[printer]")
        assert (observation, info["anchor"]) == (before[0], before[1]["anchor"])
        assert info["invalid_reason"] == REFUSED
        assert "search[<keywords>]" not in before[1]["admissible_actions"]


@pytest.mark.parametrize("products", [1, 10, 11, 20, 21])
def test_the_public_pages_never_end(shoes, products):
    seen = play(make(shoes(products)), "search[shoe]" + ";click[next >]" * 7)
    assert f"Page 8 (Total results: {products})" in seen[-1][0]
    assert all(info["valid"] for _, info in seen[2:])
    assert "A01" not in seen[-1][0]


def test_generated_pages_end(shoes):
    seen = play(make(), "search[lamp]" + ";click[next >]" * 9)
    total = int(seen[1][0].partition("Total results: ")[2].partition(")")[0])
    last = -(-total // 10)
    assert 2 <= last <= 5
    assert f"Page {last} (Total" in seen[-1][0]
    reasons = [info["invalid_reason"] for _, info in seen[2:]]
    assert reasons == [""] * (last - 1) + [UNKNOWN] * (10 - last)
    assert len({info["anchor"] for _, info in seen[1 : last + 1]}) == last


def test_pages_tell_what_is_chosen():
    env = make()
    way = f"search[lamp];{play(env, 'search[lamp]')[-1][1]['admissible_actions'][-1]}"
    *_, option = play(env, way)[-1][1]["admissible_actions"]
    for told, clicks in ((False, ""), (True, f";{option}"), (False, f";{option};click[features]")):
        assert (f"{option[6:-1]} (chosen)" in play(env, way + clicks)[-1][0]) == told


def test_the_search_has_no_back_doors(shoes):
    # none of the public WebShop's meanings: 50 random products, all of a category, all of a query,
    # IndexError and TypeError; "canvas shoe" are words of the titles, and "light" of a bullet
    env = make(shoes())
    for query, hits in (
        *(("<r>", 0), ("<c> fashion", 0), ("<c>", 0), ("<q> hat", 0), ("<a>", 0), ("zebra", 0)),
        *(("<q> canvas shoe", 12), ("<a> light", 12)),
    ):
        *_, (observation, info) = play(env, f"search[{query}]")
        assert f"Page 1 (Total results: {hits})" in observation
        assert info["valid"]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        # the address holds "search_results" twice, so the public WebShop believes to be on the
        # results and goes to the page before
        ("search[search_results shoe];click[next >];click[a12]", "Page 1 (T"),
        ("search[search_results shoe];click[a01]", "Page 0 (T"),
        ("search[shoe];click[a01];click[features]", "Price: "),
        ("search[shoe item_page];click[a01];click[features]", "Page 1 (T"),
        ("search[shoe item_sub_page];click[a01];click[features]", "Price: "),
    ],
)
def test_the_way_back(shoes, way, expected):
    assert expected in play(make(shoes()), f"{way};click[< prev]")[-1][0]


def test_products_looked_at_are_marked_until_the_next_search(shoes):
    env = make(shoes(), observation="text_rich")
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
    env, marked = make(folder, observation="text_rich"), value not in ODD
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
        assert play(make(folder), way)[-1][1]["invalid_reason"] == FORMAT
    folder = shoes(1, ["search", "buy now", "description"])
    assert play(make(folder), f"{ITEM};click[search]")[-1][1]["invalid_reason"] == UNKNOWN


@pytest.mark.parametrize("clicks", ["red", "red blue", "none red"])
def test_a_value_that_two_options_have_is_the_lasts(shoes, clicks):
    folder = shoes(1, Color=["red", "blue"], Trim=["red", "blue", "none"])
    way = ";".join([ITEM, *(f"click[{value}]" for value in clicks.split())])
    env = make(folder)
    play(env, way)
    assert dict(env.unwrapped.page.options) == {"trim": clicks.split()[-1]}


@pytest.mark.parametrize(
    ("action", "public", "ours"),
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
def test_the_forms_of_actions(shoes, action, public, ours):
    shop = open_shop(open_catalogue(shoes(1)), "synthetic", 0, False)
    assert shop.parse(action) == (public or ("", ""))
    assert open_facts("val", 3, SEED).parse(action) == (ours or ("", ""))
