"""The recorded shop of the public WebShop, and its real products, where the public data is."""

from __future__ import annotations

import gzip
import json

import pytest


def load(path):
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture(scope="session")
def recorded(shared_data):
    """The folder of recordings of the public WebShop on a made-up catalogue."""
    return shared_data / "webshop" / "transcripts_synthetic"


@pytest.fixture(scope="session")
def golden(recorded):
    """What the public WebShop answered."""
    return load(recorded / "golden.json.gz")


@pytest.fixture(scope="session")
def documents(recorded):
    """What the public index held."""
    return load(recorded / "index_documents.json.gz")


@pytest.fixture(scope="session")
def made_up(recorded, tmp_path_factory):
    """The made-up catalogue as a folder that `data=` takes."""
    folder = tmp_path_factory.mktemp("made_up")
    names = {
        "items": "items_shuffle_150",
        "attrs": "items_ins_v2_150",
        "human": "items_human_ins",
        "title_nouns": "title_nouns",
    }
    for source, name in names.items():
        (folder / f"{name}.json.gz").write_bytes((recorded / f"{source}.json.gz").read_bytes())
    return folder


@pytest.fixture(scope="session")
def real(shared_data, tmp_path_factory):
    """The real 1,000 products as a folder that `data=` takes."""
    folder = tmp_path_factory.mktemp("real")
    for name in ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz"):
        (folder / name).write_bytes((shared_data / "webshop" / name).read_bytes())
    return folder
