"""Products: where they come from, what is read of a record, and what is refused."""

import copy
import gzip
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest

import agent_envs.webshop.catalogue as module
from agent_envs import BadAsset, MissingAsset
from agent_envs.webshop.catalogue import HumanRequest, open_catalogue, read_products


def read(records, attributes=None, requests=None):
    files = ("items.json", "ins.json", "human.json")
    return read_products(records, {} if attributes is None else attributes, requests, files=files)


@pytest.fixture
def folder(folder_of, record, wanted):
    """A folder with one product, asked for."""
    return folder_of([record()], {"A1": wanted("light")})


def test_auto_is_the_folder_of_the_variable(monkeypatch, folder):
    for given in ("auto", "embedded"):
        with pytest.raises(
            MissingAsset, match=r"give a folder as data=, or play .* WebShop-v1"
        ) as no:
            open_catalogue(given)
        assert "\n" not in str(no.value)
    monkeypatch.setenv("WEBSHOP_DATA", str(folder))
    catalogue = open_catalogue()
    assert catalogue is open_catalogue(folder)
    assert (catalogue.folder, catalogue.place) == (folder, {"a1": 0})
    assert catalogue.search("red shoe") == (0,)


def test_copies_and_pickles_are_the_catalogue_itself(folder):
    catalogue = open_catalogue(folder)
    assert copy.deepcopy(catalogue) is catalogue
    pickled = pickle.dumps(catalogue)
    assert len(pickled) < 1000  # the folder's name, not its products
    assert pickle.loads(pickled) is catalogue


def test_human_goals_need_their_file(folder_of, record, wanted, folder):
    def make(data, split="train"):
        return gym.make("WebShop-v0", data=data, goals="human", split=split)

    with pytest.raises(MissingAsset, match=r"^no items_human_ins.json \(or .gz, .xz\) in "):
        make(folder)
    bare = {"instruction": "x", "instruction_attributes": [], "instruction_options": []}
    for requests in ({}, {"B1": [bare]}, {"A1": [bare]}):
        folder = folder_of([record()], {"A1": wanted("light")}, requests)
        with pytest.raises(BadAsset, match=r"items_human_ins\.json: no request for attributes of"):
            make(folder)
    folder = folder_of([record()], {}, {"A1": [bare | {"instruction_attributes": ["light"]}]})
    assert make(folder, split="all").unwrapped.panel.task_ids == ("A1-h0",)


PACKED = gzip.compress(json.dumps([{"asin": "A1"}] * 99).encode(), mtime=0)
ITEMS, NOUNS = "items_shuffle.json", "title_nouns.json"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (ITEMS, None, r"no items_shuffle\*\.json \(or \.gz, \.xz\) in {folder}; put"),
        ("items_ins_v2.json", None, r"no items_ins_v2\*\.json \(or \.gz, \.xz\) in {folder}; put"),
        # as a full download of the public data
        ("items_shuffle_1.json", b"", "{folder} has 2 files for items_shuffle.*{name}; .*keep"),
        ("items_ins_v2_1.json.gz", b"", "{folder} has 2 files for items_ins_v2.*{name}; .*keep"),
        ("items_human_ins.json.gz", b"", "{folder} has 2 files for items_human_ins.*; .*keep"),
        (ITEMS, b"[{", "{folder}/{name} is (no JSON|damaged)"),
        (ITEMS, b"[" * 100_000, "{folder}/{name} is (no JSON|damaged)"),  # deeper than can be read
        (f"{ITEMS}.gz", b"[]", "{folder}/{name} is (no JSON|damaged)"),  # not packed
        (f"{ITEMS}.gz", PACKED[:-9], "{folder}/{name} is (no JSON|damaged)"),  # cut
        # no such block
        (f"{ITEMS}.gz", PACKED[:15] + b"\xff\xff\xff" + PACKED[18:], "{folder}/{name} is damaged"),
        (NOUNS, b"[]", "{folder}/{name}: an object by product id is needed"),
        (NOUNS, b"{}", "{folder}/{name}, record 'A1': a list of words is needed, got None"),
        (NOUNS, b'{"A1": "x"}', "{folder}/{name}, record 'A1': a list of words is needed, got 'x'"),
    ],
)
def test_a_file_that_is_missing_there_twice_or_broken_is_named(folder, name, content, why):
    (folder / "items_human_ins.json").write_text("{}")
    if content is None or name == f"{ITEMS}.gz":
        (folder / name.removesuffix(".gz")).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises((MissingAsset, BadAsset), match=f"^{why.format(folder=folder, name=name)}"):
        open_catalogue(folder, strict=True)


def test_stored_nouns(folder):
    (folder / NOUNS).write_text(json.dumps({"A1": ["shoe", "shoe"], "other": 3}))
    catalogue = open_catalogue(folder)
    assert (catalogue.nouns, catalogue.title_nouns) == ([("shoe", "shoe")], "stored")


@pytest.mark.parametrize("missing", ["spacy", "en_core_web_sm"])
def test_without_a_tagger_nouns_are_all_but_common_words(monkeypatch, folder_of, record, missing):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == missing else name)
    title = "The New 12-Pack of Men's Shoes, Café Brown (size 7.5) for Shoes"
    catalogue = open_catalogue(folder_of([record(name=title)], {}))
    # the, new, pack, of and for are common; digits part words
    words = ("men", "s", "shoes", "café", "brown", "size", "shoes")
    assert (catalogue.nouns, catalogue.title_nouns) == ([words], "words")


def test_with_a_tagger_nouns_are_its_nouns_and_names(monkeypatch, folder_of, record):
    class Word:
        def __init__(self, text):
            self.text, self.pos_ = text, {"Acme": "PROPN", "Shoe": "NOUN"}.get(text, "ADJ")

    class Spacy:
        @staticmethod
        def load(name, disable):
            return Spacy()

        def pipe(self, titles):
            return [map(Word, title.split()) for title in titles]

    monkeypatch.setattr(module, "find_spec", lambda name: name)
    monkeypatch.setitem(__import__("sys").modules, "spacy", Spacy)
    catalogue = open_catalogue(folder_of([record(name="Acme Red Shoe Shoe")], {}))
    assert (catalogue.nouns, catalogue.title_nouns) == ([("acme", "shoe", "shoe")], "spacy")


class Meaning:
    """An encoder that knows what is to sit at and what is to wear."""

    name, prefixes = "meaning", ("", "")

    def encode_queries(self, texts):
        kinds = [[w in text.lower() for w in ("table", "furniture")] for text in texts]
        return np.array([[any(kind), not any(kind)] for kind in kinds], dtype=np.float32)

    def encode_passages(self, passages):
        return self.encode_queries([f"{passage.title}\n{passage.text}" for passage in passages])


@pytest.mark.slow  # faiss
def test_a_dense_search_finds_what_is_meant(monkeypatch, folder_of, record, wanted):
    monkeypatch.setattr(module, "open_encoder", lambda model: Meaning())
    table = record("A2", name="Oak table for a kitchen", full_description="", small_description=[])
    folder = folder_of([record("A1", name="Red sneakers"), table], {"A1": wanted("light")})
    catalogue = open_catalogue(folder, search="dense", model="meaning")
    assert catalogue.search("furniture for dining")[0] == 1
    assert catalogue.search("running footwear")[0] == 0
    assert pickle.loads(pickle.dumps(catalogue)) is catalogue
    with pytest.raises(ValueError, match="did you mean 'dense'"):
        open_catalogue(folder, search="dens")
    env = gym.make("WebShop-v0", data=folder, split="all", search="dense", model="meaning")
    assert env.unwrapped.shop.catalogue is catalogue


def test_a_record_is_read_field_by_field(record):
    options = {"Size": [" 6/7 ", 'TWIN 39"x75"'], "Fit Type": ["Men's", "a]b[c"]}
    fields = record(query=" Canvas SHOE ", category="Fashion", options=options)
    product = read([fields], {"A1": {"attributes": ["light"]}})[0]
    texts = (product.title, product.description, *product.bullets)
    assert (product.asin, *texts) == ("A1", "Red Canvas Shoe", "A shoe.", "light", "soft sole")
    assert (product.query, product.category) == ("canvas shoe", "Fashion")
    assert product.product_category == "Shoes › Women › Sneakers"
    assert (product.price_tag, product.prices) == ("$12.99", (12.99,))
    assert product.options == {"size": ("6 | 7", 'twin 39"x75"'), "fit type": ("men's", "a]b[c")}
    assert (product.attributes, product.instruction, product.requests) == (("light",), ("", ()), ())


TAGS = {
    "€12,99": "$12.99", "12,99 $": "$12.99", "1.299 €": "$1299.0", "1 299,50 kr": "$1299.5",
    "CHF 1'299.00": "$1299.0", "₹1,23,456.00": "$123456.0", "Rs.499": "$499.0",
    "£5 – £7,50": "$5.0 to $7.5", "12.99 - 15.00": "$12.99 to $15.0", "12.999": "$12.999",
    "$1,299": "$1299.0", "$.99": "$0.99",
}  # fmt: skip
NO_PRICES = "-5", "$-5", "12%", "2 for €5", "$1e5", "1.2.3", "12 15", "free", "12,99,5"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"pricing": "$12"}, {"price_tag": "$12.0", "prices": (12.0,)}),
        ({"pricing": "$1,234.50"}, {"price_tag": "$1234.5", "prices": (1234.5,)}),
        ({"pricing": "$1.9 - $15.00"}, {"price_tag": "$1.9 to $15.0", "prices": (1.9, 15.0)}),
        ({"pricing": "$1$2$3"}, {"price_tag": "$1.0 to $2.0", "prices": (1.0, 2.0)}),
        ({"pricing": "from $5 only"}, {"price_tag": "$5.0", "prices": (5.0,)}),
        *(({"pricing": pricing}, {"price_tag": tag}) for pricing, tag in TAGS.items()),
        # the public WebShop breaks here
        ({"pricing": "12.99 EUR"}, {"price_tag": "$12.99", "prices": (12.99,)}),
        ({"pricing": ""}, {"price_tag": "$100.0", "prices": (100.0,)}),
        ({"pricing": None}, {"price_tag": "$100.0", "prices": (100.0,)}),
        ({"small_description": "just one"}, {"bullets": ("just one",)}),
        ({"small_description": None}, {"bullets": ()}),
        ({"full_description": None}, {"description": ""}),
        ({"customization_options": None}, {"options": {}}),
        ({"customization_options": ""}, {"options": {}}),
        ({"customization_options": {"Size": None, "Color": []}}, {"options": {"color": ()}}),
        ({"name": ""}, {"title": ""}),
        ({"unheard_of": object()}, {}),
    ],
)
def test_prices_and_fields_that_may_be_missing(record, changed, found):
    product = read([record(**changed)])[0]
    assert {name: getattr(product, name) for name in found} == found


def test_the_text_in_the_index(record):
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


def test_attributes_instructions_and_requests(record):
    asked = {"instruction": "a red shoe.", "instruction_attributes": ["light"], "worker_id": 3}
    one, two, three = read(
        [record("A1"), record("A2"), record("A3")],
        {
            "A1": {"attributes": ["x"], "instruction": "get x", "instruction_attributes": ["x"]},
            "A2": {"attributes": [], "instruction": None},
        },
        {"A1": [asked | {"instruction_options": ["red"]}], "elsewhere": 5},
    )
    assert (one.attributes, one.instruction) == (("x",), ("get x", ("x",)))
    assert one.requests == (HumanRequest("a red shoe.", ("light",), ("red",)),)
    assert (two.attributes, two.instruction) == ((), ("", ()))
    assert three.attributes == ("DUMMY_ATTR",)


def test_half_a_character_of_a_cut_text_is_replaced(record):
    cut, whole = "shoe \ud83d", "shoe \ufffd"
    product = read(
        [record(name=cut, small_description=[cut], options={cut: [cut]}, query=cut)],
        {"A1": {"attributes": [cut], "instruction": cut, "instruction_attributes": [cut]}},
    )[0]
    assert (product.title, product.bullets, product.query) == (whole, (whole,), whole)
    assert (product.options, product.instruction) == ({whole: (whole,)}, (whole, (whole,)))
    product.document.encode()


LONG = "x" * 100_001
OPTIONS = "customization_options"
MANY = {name: [{"value": f"{n}"} for n in range(400)] for name in ("Color", "Size")}
ASKED = {"instruction": "x", "instruction_attributes": ["x"], "instruction_options": []}
REFUSED = [  # fields of the record A2, words of the message about it
    ({"name": None}, "field 'name': a text is needed, got None"),
    *(
        ({field: 5}, f"field '{field}': a text is needed, got 5")
        for field in ("full_description", "product_category", "category", "query")
    ),
    ({"name": LONG}, "field 'name': a text is needed with at most 100000 characters, got 100001"),
    ({"small_description": ["x", None]}, "field 'small_description': a list of texts is needed"),
    ({"small_description": [LONG]}, "field 'small_description': .*at most 100000"),
    ({"pricing": 12.99}, r"field 'pricing': a text such as '\$12.99' is needed, got 12.99"),
    ({"pricing": "$abc"}, r"field 'pricing': a price such as '\$12.99' is needed, got '\$abc'"),
    *(({"pricing": no}, "field 'pricing': a price such as") for no in ("$1 - $x", *NO_PRICES)),
    ({"pricing": "$" + "9" * 400}, "field 'pricing': a price such as"),  # beyond all floats
    ({OPTIONS: ["red"]}, f"field '{OPTIONS}': an object by option name is needed"),
    ({OPTIONS: {"size": "s"}}, f"field '{OPTIONS}': a list of choices with a text 'value' is"),
    ({OPTIONS: {"size": [{}]}}, f"field '{OPTIONS}': a list of choices with a text 'value'"),
    ({OPTIONS: {"size": [{"value": LONG}]}}, f"field '{OPTIONS}': .*at most 100000"),
    ({OPTIONS: MANY}, f"field '{OPTIONS}': at most 100000 goals, .* got 160000"),
]


@pytest.mark.parametrize(
    ("place", "content", "why"),
    [
        *((0, changed, f"items.json, record 1: {why}") for changed, why in REFUSED),
        (0, {}, "items.json: a list of products is needed, got {}"),
        (0, [5], "items.json, record 0: an object is needed, got 5"),
        (0, [{"asin": 5}], "items.json, record 0: field 'asin': a text is needed, got 5"),
        (0, [{"asin": "nan"}], "items.json: no product with an id of at most 10 characters"),
        (1, [], r"ins.json: an object by product id is needed, got \[\]"),
        (1, {"A1": {"attributes": "x"}}, "ins.json, record 'A1': field 'attributes': a list"),
        (1, {"A1": {"instruction": 5}}, "ins.json, record 'A1': field 'instruction': a text"),
        (
            1,
            {"A1": ASKED | {"instruction_attributes": []}},
            "ins.*'instruction_attributes' has none",
        ),
        (2, [5], r"human.json: an object by product id is needed, got \[5\]"),
        (2, {"A1": {}}, "human.json, record 'A1': a list of requests is needed"),
        *(
            (2, {"A1": [ASKED, ASKED | {field: None}]}, f"human.*: field '{field}': a ")
            for field in ASKED
        ),
    ],
)
def test_a_broken_record_is_named(record, wanted, place, content, why):
    contents = [[record()], {"A1": wanted("light"), "A2": wanted("light")}, {}]
    one_field = place == 0 and isinstance(content, dict) and content
    contents[place] = [record("A1"), record("A2", **content)] if one_field else content
    with pytest.raises(BadAsset, match=f"^{why}"):
        read(*contents)
