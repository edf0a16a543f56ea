"""Records of the public data: what is read, and what is refused by file, record and field."""

from __future__ import annotations

import pytest
from agent_envs.webshop.products import HumanRequest, read_products

from agent_envs import BadAsset

FILES = ("items.json", "ins.json", "human.json")


def read(records, attributes=None, requests=None):
    return read_products(records, {} if attributes is None else attributes, requests, files=FILES)


def test_a_record_is_read_field_by_field(record):
    told = {"A1": {"attributes": ["light"]}}
    product = read([record(query=" Canvas SHOE ", category="Fashion")], told)[0]
    assert (product.asin, product.title, product.description) == (
        "A1",
        "Red Canvas Shoe",
        "A shoe.",
    )
    assert product.bullets == ("light", "soft sole")
    assert (product.query, product.category) == ("canvas shoe", "Fashion")
    assert product.product_category == "Shoes › Women › Sneakers"
    assert (product.price_tag, product.prices) == ("$12.99", (12.99,))
    assert product.image == "https://pictures.example/1.jpg"
    assert product.attributes == ("light",)
    assert (product.instruction, product.requests) == (("", ()), ())


@pytest.mark.parametrize(
    ("pricing", "tag", "prices"),
    [
        ("$12", "$12.0", (12.0,)),
        ("$877.80", "$877.8", (877.8,)),
        ("$1,234.50", "$1234.5", (1234.5,)),
        ("$12.99 - $15.00", "$12.99 to $15.0", (12.99, 15.0)),
        ("$1$2$3", "$1.0 to $2.0", (1.0, 2.0)),
        ("from $5 only", "$5.0", (5.0,)),
        ("12.99", "$12.99", (12.99,)),  # the public WebShop breaks here
        ("12.99 EUR", "$12.99", (12.99,)),
        ("", "$100.0", (100.0,)),
        (None, "$100.0", (100.0,)),
    ],
)
def test_prices(record, pricing, tag, prices):
    product = read([record(pricing=pricing)])[0]
    assert (product.price_tag, product.prices) == (tag, prices)


def test_a_price_that_is_not_told_is_100(record):
    fields = record()
    del fields["pricing"]
    assert read([fields])[0].prices == (100.0,)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"small_description": "just one"}, {"bullets": ("just one",)}),
        ({"small_description": None}, {"bullets": ()}),
        ({"small_description": []}, {"bullets": ()}),
        ({"full_description": None}, {"description": ""}),
        ({"images": []}, {"image": ""}),
        ({"images": None}, {"image": ""}),
        ({"images": ["a", "b"]}, {"image": "a"}),
        ({"customization_options": None}, {"options": {}}),
        ({"customization_options": ""}, {"options": {}}),
        ({"customization_options": {"Size": None, "Color": []}}, {"options": {"color": ()}}),
        ({"name": ""}, {"title": ""}),
        ({"unheard_of": object()}, {}),
    ],
)
def test_what_may_be_missing(record, changed, found):
    product = read([record(**changed)])[0]
    assert {name: getattr(product, name) for name in found} == found


def test_option_values_are_lower_case_stripped_and_without_slashes(record):
    options = {"Size": [" 6/7 ", 'TWIN 39"x75"'], "Fit Type": ["Men's", "a]b[c"]}
    assert read([record(options=options)])[0].options == {
        "size": ("6 | 7", 'twin 39"x75"'),
        "fit type": ("men's", "a]b[c"),
    }


def test_what_the_index_holds(record):
    options = {"Size": ["S", "M"], "Color": ["Red"]}
    product = read([record(options=options, small_description=["First", "second"])])[0]
    assert product.document == "red canvas shoe a shoe. first size: s, m, and color: red"
    bare = read([record(small_description=[], full_description=None)])[0]
    assert bare.document.split() == ["red", "canvas", "shoe"]


def test_ids_that_are_left_out(record):
    records = [
        record("A1"),
        record("nan", name=5),  # their fields are not looked at
        record("ABCDEFGHIJK", name=5),  # eleven characters
        record("A1", name="Again"),
        record("ABCDEFGHIJ"),
    ]
    found = read(records)
    assert [product.asin for product in found] == ["A1", "ABCDEFGHIJ"]
    assert found[0].title == "Red Canvas Shoe"


def test_attributes_and_instructions(record):
    records = [record("A1"), record("A2"), record("A3")]
    attributes = {
        "A1": {"attributes": ["x"], "instruction": "get x", "instruction_attributes": ["x"]},
        "A2": {"attributes": [], "instruction": None},
    }
    one, two, three = read(records, attributes)
    assert (one.attributes, one.instruction) == (("x",), ("get x", ("x",)))
    assert (two.attributes, two.instruction) == ((), ("", ()))
    assert three.attributes == ("DUMMY_ATTR",)


def test_requests(record):
    asked = {
        "instruction": "a red shoe.",
        "instruction_attributes": ["light"],
        "instruction_options": ["red"],
        "worker_id": 3,
    }
    product = read([record()], {}, {"A1": [asked], "elsewhere": 5})[0]
    assert product.requests == (HumanRequest("a red shoe.", ("light",), ("red",)),)


@pytest.mark.parametrize(
    ("changed", "field", "why"),
    [
        ({"name": None}, "name", "a text is needed, got None"),
        ({"name": 5}, "name", "a text is needed, got 5"),
        ({"full_description": ["x"]}, "full_description", r"a text is needed, got \['x'\]"),
        ({"product_category": None}, "product_category", "a text is needed"),
        ({"category": {}}, "category", "a text is needed"),
        ({"query": None}, "query", "a text is needed"),
        ({"name": "x" * 100_001}, "name", None),
        ({"full_description": "x" * 100_001}, "full_description", None),
        ({"small_description": 5}, "small_description", "a list of texts is needed, got 5"),
        ({"small_description": ["x", None]}, "small_description", "a list of texts is needed"),
        ({"small_description": ["x" * 60_000] * 2}, "small_description", None),
        ({"images": "http://x"}, "images", "a list of texts is needed"),
        ({"images": [{}]}, "images", "a list of texts is needed"),
        ({"pricing": 12.99}, "pricing", r"a text such as '\$12.99' is needed, got 12.99"),
        ({"pricing": ["$1"]}, "pricing", "a text such as"),
        ({"pricing": "$abc"}, "pricing", r"a price such as '\$12.99' is needed, got '\$abc'"),
        ({"pricing": "abc"}, "pricing", "got 'abc'"),
        ({"pricing": "$"}, "pricing", "a price such as"),
        ({"pricing": "$1.2.3"}, "pricing", "a price such as"),
        ({"pricing": "$1 - $x"}, "pricing", "a price such as"),
        ({"pricing": "$" + "9" * 400}, "pricing", "a price such as"),  # beyond all floats
        ({"customization_options": ["red"]}, "customization_options", "an object by option name"),
        ({"customization_options": "red"}, "customization_options", "an object by option name"),
        ({"customization_options": {"size": 3}}, "customization_options", "a list of choices"),
        ({"customization_options": {"size": "s"}}, "customization_options", "a list of choices"),
        ({"customization_options": {"size": {}}}, "customization_options", "a list of choices"),
        (
            {"customization_options": {"size": ["s"]}},
            "customization_options",
            "choices with a text 'value' are needed, got 's'",
        ),
        (
            {"customization_options": {"size": [{"value": 7}]}},
            "customization_options",
            "choices with a text 'value' are needed",
        ),
        ({"customization_options": {"size": [{}]}}, "customization_options", "choices with a text"),
        (
            {"customization_options": {"size": [{"value": "x" * 100_001}]}},
            "customization_options",
            None,
        ),
    ],
)
def test_a_broken_record_is_named(record, changed, field, why):
    # None: it is too long
    why = why or "has .*more than 100000"
    with pytest.raises(BadAsset, match=rf"^items.json: record 1 \(A2\): field '{field}'.*{why}"):
        read([record("A1"), record("A2", **changed)])


@pytest.mark.parametrize("field", ["name", "product_category", "category", "query"])
def test_a_missing_field_is_named(record, field):
    fields = record()
    del fields[field]
    with pytest.raises(BadAsset, match=rf"^items.json: record 0 \(A1\): field '{field}'"):
        read([fields])


@pytest.mark.parametrize("asin", [None, 5, ["A1"]])
def test_an_id_is_a_text(record, asin):
    with pytest.raises(BadAsset, match=r"^items.json: record 1: field 'asin': a text is needed"):
        read([record(), record(asin)])


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ({}, "items.json: a list of products is needed, got dict"),
        (None, "items.json: a list of products is needed, got NoneType"),
        ([5], "items.json: record 0: an object is needed, got 5"),
        ([], "items.json: no product with an id of at most 10 characters"),
        ([{"asin": "nan"}], "items.json: no product with an id"),
    ],
)
def test_broken_products(records, why):
    with pytest.raises(BadAsset, match=f"^{why}"):
        read(records)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ([], r"ins.json: an object by product id is needed, got \[\]"),
        ({"A1": ["x"]}, "ins.json: record 'A1': an object is needed"),
        ({"A1": {"attributes": None}}, "ins.json: record 'A1': field 'attributes': a list"),
        ({"A1": {"attributes": "x"}}, "ins.json: record 'A1': field 'attributes': a list"),
        ({"A1": {"instruction": 5}}, "ins.json: record 'A1': field 'instruction': a text"),
        (
            {"A1": {"instruction": "x"}},
            "ins.json: record 'A1': field 'instruction_attributes': a list of texts",
        ),
        (
            {"A1": {"instruction": "x", "instruction_attributes": []}},
            "ins.json: record 'A1': field 'instruction_attributes' has none",
        ),
        (
            {"A1": {"instruction": "x" * 100_001, "instruction_attributes": ["x"]}},
            "ins.json: record 'A1': field 'instruction' has 100001 characters",
        ),
    ],
)
def test_broken_attributes(record, attributes, why):
    with pytest.raises(BadAsset, match=f"^{why}"):
        read([record()], attributes)


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([5], r"human.json: an object by product id is needed, got \[5\]"),
        ({"A1": {}}, "human.json: record 'A1': a list of requests is needed"),
        ({"A1": [5]}, "human.json: record 'A1', request 0: an object is needed"),
        (
            {"A1": [{"instruction_attributes": [], "instruction_options": []}]},
            "human.json: record 'A1', request 0: field 'instruction': a text",
        ),
        (
            {"A1": [{"instruction": "x", "instruction_options": []}]},
            "human.json: record 'A1', request 0: field 'instruction_attributes': a list",
        ),
        (
            {"A1": [{"instruction": "x", "instruction_attributes": []}]},
            "human.json: record 'A1', request 0: field 'instruction_options': a list",
        ),
        (
            {
                "A1": [
                    {"instruction": "", "instruction_attributes": [], "instruction_options": []},
                    {"instruction": "", "instruction_attributes": [], "instruction_options": [1]},
                ]
            },
            "human.json: record 'A1', request 1: field 'instruction_options': a list",
        ),
    ],
)
def test_broken_requests(record, requests, why):
    with pytest.raises(BadAsset, match=f"^{why}"):
        read([record()], {}, requests)


def test_half_a_character_of_a_cut_text_is_replaced(record):
    cut = "shoe \ud83d"
    product = read(
        [record(name=cut, small_description=[cut], options={cut: [cut]}, query=cut)],
        {"A1": {"attributes": [cut], "instruction": cut, "instruction_attributes": [cut]}},
    )[0]
    whole = "shoe \ufffd"
    assert (product.title, product.bullets, product.query) == (whole, (whole,), whole)
    assert product.options == {whole: (whole,)}
    assert product.instruction == (whole, (whole,))
    product.document.encode()


def test_options_that_make_too_many_goals_are_refused(record, wanted):
    # 400 x 400 = 160,000 orders; without a request there are no goals and nothing is wrong
    many = {"Color": [f"c{n}" for n in range(400)], "Size": [f"s{n}" for n in range(400)]}
    assert len(read_products([record(options=many)], {})) == 1
    with pytest.raises(BadAsset, match=r"record 0 \(A1\): field 'customization_options' .*160000"):
        read_products([record(options=many)], {"A1": wanted("light")})
