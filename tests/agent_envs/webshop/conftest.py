"""The recorded shop of the public WebShop, and its real products, where the public data is."""

import json

import pytest


@pytest.fixture(scope="session")
def recorded(shared_data):
    """The folder of recordings of the public WebShop on a made-up catalogue."""
    return shared_data / "webshop" / "transcripts_synthetic"


@pytest.fixture(scope="session")
def made_up(recorded, tmp_path_factory):
    """The made-up catalogue as a folder that `data=` takes."""
    folder = tmp_path_factory.mktemp("made_up")
    for source, name in (
        ("items", "items_shuffle_150"),
        ("attrs", "items_ins_v2_150"),
        ("human", "items_human_ins"),
        ("title_nouns", "title_nouns"),
    ):
        (folder / f"{name}.json.gz").write_bytes((recorded / f"{source}.json.gz").read_bytes())
    return folder


@pytest.fixture(scope="session")
def real(shared_data, tmp_path_factory):
    """The real 1,000 products as a folder that `data=` takes."""
    folder = tmp_path_factory.mktemp("real")
    for name in ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz"):
        (folder / name).write_bytes((shared_data / "webshop" / name).read_bytes())
    return folder


@pytest.fixture(scope="session")
def record():
    """A product's record with the fields given, the others made up."""

    def make(asin="A1", **fields):
        options = fields.pop("options", {})
        return {
            "asin": asin,
            "name": "Red Canvas Shoe",
            "full_description": "A shoe.",
            "small_description": ["light", "soft sole"],
            "pricing": "$12.99",
            "images": ["https://pictures.example/1.jpg"],
            "product_category": "Shoes › Women › Sneakers",
            "category": "fashion",
            "query": "canvas shoe",
            "customization_options": {
                name: [{"value": value, "image": None} for value in values]
                for name, values in options.items()
            },
        } | fields

    return make


@pytest.fixture(scope="session")
def wanted():
    """What the attribute file tells of a product that is asked for."""

    def make(*attributes, instruction="i need a shoe", asked=None):
        return {
            "attributes": list(attributes),
            "instruction": instruction,
            "instruction_attributes": list(attributes if asked is None else asked),
        }

    return make


@pytest.fixture
def folder_of(tmp_path_factory):
    """A folder that `data=` takes, of records, attributes and perhaps people's requests."""

    def write(records, attributes, requests=None):
        folder = tmp_path_factory.mktemp("shop")
        told = {one["asin"]: {} for one in records} | attributes
        files = {"items_shuffle": records, "items_ins_v2": told, "items_human_ins": requests}
        for name, content in files.items():
            if content is not None:
                (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def hostile(record, wanted, folder_of):
    """A shop whose every text tries to run a script or to leave its place on the page."""
    attacks = [
        "<script>window.ran = 1</script>",
        '"><img src=x onerror="window.ran = 1">',
        "'><svg onload='window.ran = 1'></svg>",
        "</title></span></a><iframe src=javascript:parent.ran=1></iframe>",
        "{{ 7 * 7 }}{% raw %}<!-- -->&amp;&#60;b&#62;",
        "javascript:window.ran=1",
    ]
    records = [
        record(
            asin=f"<i>{place}</i>",
            name=attack,
            full_description=attack,
            small_description=[attack, *attacks],
            product_category=attack,
            category=attack,
            query=attack,
            images=[attack],
            customization_options={
                attack: [{"value": value, "image": attack} for value in attacks],
                "size's \"/\\": [{"value": f"{place}/2 \"{attack}'", "image": None}],
            },
        )
        for place, attack in enumerate(attacks)
    ]
    told = {one["asin"]: wanted(one["name"], instruction=one["name"]) for one in records}
    return folder_of(records, told)
