"""The score of a purchase, part by part, by the rules of the public WebShop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.webshop.catalogue import read_products
from agent_envs.webshop.goals import Goal
from agent_envs.webshop.reward import (
    Match,
    are_alike,
    count_similar_options,
    has_attribute,
    make_score,
    match_product,
    score_type,
    token_set_ratio,
)


@pytest.fixture
def product(record):
    def make(attributes=(), **fields):
        return read_products([record(**fields)], {"A1": {"attributes": list(attributes)}})[0]

    return make


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("red shoe", "Shoe, RED!", 100),
        ("navy blue", "blue", 100),  # one set holds the other
        ("xx-large", "large", 100),
        ("7", "7.5", 100),
        ("", "", 0),
        ("", "red", 0),
        ("--", "--", 0),  # no words
        ("é", "é", 0),  # U+0080 to U+00FF are dropped
        ("café", "caf", 100),
        # distance 6 + 7 - 2 * 4 ("ittn") of 13
        ("kitten", "sitting", 100 - 500 / 13),
        # distance 5 + 5 - 2 * 1 of 10
        ("large", "small", 20),
        # both share "of pack", 7: "of pack 2" to "of pack 12" is 1 of 9 + 10
        ("pack of 2", "pack of 12", 100 - 100 / 19),
        # both share "abc": 6 of 7 + 7 apart, but "abc" to "abc def" only 4 of 3 + 7
        ("abc def", "abc xyz", 60),
        # "('size', 'pack of 12')" to "pack of 2": "of pack" to "of pack 2" is 2 of 7 + 9
        ("('size', 'pack of 12')", "pack of 2", 87.5),
    ],
)
def test_token_set_ratios_by_hand(one, other, expected):
    assert token_set_ratio(one, other) == pytest.approx(expected)
    assert token_set_ratio(other, one) == pytest.approx(expected)


def test_a_ratio_that_rounds_to_more_than_85_is_alike():
    # 100 - 100 * 1/7 = 85.71 -> 86; 100 - 100 * 7/47 = 85.11 -> 85; 58/400: 85.5 -> 86, the even
    for one, other, expected in ((3, 4, True), (20, 27, False), (171, 229, True)):
        assert are_alike("a" * one, "a" * other) is expected


ALONE = {"query": "x", "product_category": "X"}  # shares nothing but title nouns with the other


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ("shoe", "shoe", 1.0),
        ("a b c d shoe", "shoe", 0.5),  # 1/5 is not above .2
        ("a b c d e f g h shoe", "shoe a", 1.0),  # 2/9 is
        ("a b c d e f g h i shoe", "shoe", 0.5),  # 1/10 is not below .1
        ("a b c d e f g h i j shoe", "shoe", 0.1),  # 1/11 is
        ("shoe", "hat", 0.0),
        ("", "shoe", 0.5),  # no nouns count as .2
        ("shoe", "", 0.0),
        ("shoe shoe shoe shoe shoe", "shoe", 0.5),  # repeated ones count in the length only
        ("shoe", "shoe shoe shoe a b c d e f", 1.0),
    ],
)
def test_the_type_by_title_nouns(product, wanted, found, expected):
    nouns = wanted.split(), found.split()
    assert score_type(product(), product(**ALONE), *nouns) == expected
    if expected < 0.5:  # titles far apart outweigh query and category
        assert score_type(product(), product(), *nouns) == expected


@pytest.mark.parametrize(
    ("bought", "expected"),
    [
        ({"query": "Canvas Shoe "}, 1.0),  # queries are read lower-case and stripped
        ({"query": "canvas"}, 0.5),
        ({"product_category": "Shoes › Men › Sneakers"}, 1.0),  # two levels
        ({"product_category": "Sneakers›Shoes"}, 1.0),  # whatever their order and blanks
        ({"product_category": "Shoes › Men › Boots"}, 0.5),
        ({"product_category": "Shoes › Shoes"}, 0.5),  # one level, twice
    ],
)
def test_the_type_by_query_and_category(product, bought, expected):
    nouns = [*"abcd", "shoe"], ["shoe"]  # .2, too little by itself
    assert score_type(product(), product(**(ALONE | bought)), *nouns) == expected


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("machine wash", True),  # among the words of "machine wash cold"
        ("machine wosh cold", True),  # nearly it: see the ratio below
        ("machine dry", False),
        ("canvas sh", True),  # inside the title
        ("light soft", True),  # from one bullet to the next
        ("a shoe.", True),  # the description
        ("Canvas", False),  # texts are lower case, what is asked for is taken as it is
        ("A1", False),
    ],
)
def test_ways_to_have_an_attribute(product, attribute, expected):
    # "machine wash cold", "machine wosh cold": share "cold machine", 12; "wash" to "wosh" 2 of
    # 17 + 17 apart: 94
    assert has_attribute(product(["machine wash cold", "waterproof"]), attribute) is expected


OPTIONS = [
    # wanted, chosen, the count of a person's goal and of a made one
    ("large", "large", 1, 1),
    ("large", "xx-large", 1, 0),
    ("xx-large", "large", 1, 1),  # of "size xx large" and "large" the first holds the second
    ("7.5", "7", 1, 1),
    ("7", "7.5", 1, 0),
    ("pack of 12", "pack of 2", 1, 1),
    ("ash", "dash", 1, 1),
    ("red", "predator", 1, 1),
    ("blue", "navy blue", 1, 1),
    ("red", "dark red", 0, 0),  # "dark" is a color and comes first
    ("graywash", "graywash", 1, 0),  # chosen it reads "ash", asked for with its name it stays
    ("small", "large", 0, 0),
]


@pytest.mark.parametrize(("asked", "chosen", "listed", "named"), OPTIONS)
def test_options_of_people_and_made_ones(asked, chosen, listed, named):
    picked = [("size", chosen)]
    assert count_similar_options([("", asked)], picked) == listed
    assert count_similar_options([("size", asked)], picked) == named


def test_options_are_counted_by_value_alone():
    wanted = [("color", "red"), ("trim", "red")]
    assert count_similar_options(wanted, [("trim", "red")]) == 2
    assert count_similar_options(wanted, []) == 0


def goal(attributes=(), options=(), price_upper=20.0):
    return Goal("A1-0", 0, "a shoe", tuple(attributes), tuple(options), price_upper)


def test_a_score_is_the_share_of_matches_times_the_type():
    found = make_score(0.5, (2, 3), (1, 2), price=True)
    assert found.total == pytest.approx((2 + 1 + 1) / (3 + 2 + 1) * 0.5)  # 1/3
    assert found[1:] == (0.5, pytest.approx(2 / 3), 0.5, 1.0)
    # only the price is asked about: (0 + 0 + 1) / 1
    assert make_score(1.0, (0, 0), (0, 0), price=True) == (1.0, 1.0, 1.0, 1.0, 1.0)


def test_titles_decide_the_type(product):
    asked = goal(["waterproof", "canvas", "leather"])
    for fields, noun, kind in (
        ({}, "shoe", 1.0),
        (ALONE, "shoe", 1.0),
        (ALONE, "hat", 0.0),
        ({}, "hat", 0.0),  # the same query and category do not help
    ):
        bought, nouns = product(["waterproof"], **fields), (["shoe"], [noun])
        expected = Match(type=kind, attributes=2, price=True)
        assert match_product(asked, product(), bought, nouns, 1.0) == expected


@given(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_scores_lie_in_0_to_1_and_are_1_only_for_all(attributes, options, price, kind):
    found = make_score(kind, (attributes, 3), (options, 3), price=price)
    assert 0 <= found.total <= 1
    assert (found.total == 1) == ((attributes, options, price, kind) == (3, 3, True, 1.0))


@pytest.mark.parametrize(("price", "allowed"), [(19.99, True), (20.0, True), (20.01, False)])
def test_what_a_limit_of_20_allows(product, price, allowed):
    nouns = (("shoe",), ("shoe",))
    assert match_product(goal(), product(), product(), nouns, price).price == allowed
