"""Catalogue: the products of a folder or of the generator, with search index and title nouns."""

from __future__ import annotations

import copy
import gzip
import json
import os
import re
import zlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset, MissingAsset
from agent_envs.panels import one_of
from agent_envs.retrieval.dense import Dense
from agent_envs.retrieval.factory import default_model, encoder_of
from agent_envs.retrieval.passages import Passage
from agent_envs.webshop.generate import SEED, generated
from agent_envs.webshop.products import read_products
from agent_envs.webshop.search import KEPT, MOST, Index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_envs.webshop.products import Product

FILES = ("items_shuffle*.json", "items_ins_v2*.json", "items_human_ins.json")
SEARCHES = ("bm25", "dense")
NOUNS = "title_nouns.json"
TAGGER = "en_core_web_sm"
_COMMON_WORDS = """
a about after all an and any are as at be by can each for free from has high in into is it its low
made more new no not of off on one or other our out over pack per set so than that the their this to
up use used with without you your
"""


class Catalogue:
    """Products in file order, with their search index; one shared object per folder.

    Args:
        folder: The folder of the products, None for the embedded ones.
        products: The products.
        nouns: Nouns of each title.
        title_nouns: Source of the nouns: "stored", "spacy" or "words".

    Attributes:
        search: `search(query)` returns the places of at most 50 products, best first.
        model: The encoder of a dense search, "" for Lucene's.
    """

    def __init__(
        self,
        folder: Path | None,
        products: Sequence[Product],
        nouns: Sequence[tuple[str, ...]],
        title_nouns: str,
    ) -> None:
        self.folder, self.products = folder, products
        self.nouns, self.title_nouns = nouns, title_nouns
        self.place = {product.asin.lower(): at for at, product in enumerate(products)}
        index = Index((product.document for product in products), [p.asin for p in products])
        self.search: Callable[[str], tuple[int, ...]] = index.search
        self.model = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> Catalogue:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_opened, (self.folder,)) if not self.model else (_dense, (self.folder, self.model))


def open_catalogue(
    data: str | os.PathLike[str] = "auto", *, search: str = "bm25", model: str = ""
) -> Catalogue:
    """The products of "embedded", of a folder, or of "auto": `$WEBSHOP_DATA` if that is set.

    `search` is "bm25", like Lucene's, or "dense", with the encoder `model`.

    Raises:
        ValueError: An unknown search, or a dense one without an encoder.
        ImportError: A dense search without the packages of the extra [dense].
        MissingAsset: A folder without the products' files.
        BadAsset: A broken file.
    """
    named = os.fspath(data)
    if named == "auto":
        named = os.environ.get("WEBSHOP_DATA") or "embedded"
    folder = None if named == "embedded" else Path(named).expanduser().absolute()
    one_of("search", search, SEARCHES)
    return _opened(folder) if search == "bm25" else _dense(folder, model or default_model())


def made_catalogue(seed: int) -> Catalogue:
    """The generated products of a seed; `generate.SEED` gives the embedded ones."""
    records, attributes, nouns = generated(seed=seed)
    products = read_products(records, attributes)
    return Catalogue(None, products, [nouns[p.asin] for p in products], "stored")


@lru_cache(maxsize=2)
def _opened(folder: Path | None) -> Catalogue:
    if folder is None:
        return made_catalogue(SEED)
    found = [_file(folder, pattern) for pattern in FILES]
    for path, pattern in zip(found[:2], FILES[:2], strict=True):
        if path is None:
            raise MissingAsset(
                f"no {pattern} (or .gz) in {folder}; put WebShop's data there, see "
                "https://github.com/princeton-nlp/WebShop, or use data='embedded'"
            )
    products = read_products(
        *(None if path is None else _read(path) for path in found),
        files=[str(path or pattern) for path, pattern in zip(found, FILES, strict=True)],
    )
    stored = _file(folder, NOUNS)
    if stored is None:
        return Catalogue(folder, products, *_nouns([p.title for p in products]))
    return Catalogue(folder, products, _stored(stored, products), "stored")


@lru_cache(maxsize=2)
def _dense(folder: Path | None, model: str) -> Catalogue:
    """The catalogue of a folder with its own dense search."""
    catalogue = copy.copy(_opened(folder))
    passages = [Passage(str(i), "", p.document) for i, p in enumerate(catalogue.products)]
    dense = Dense(passages, encoder_of(model))

    def search(query: str) -> tuple[int, ...]:
        return tuple(int(found.id) for found in dense.search([query], MOST)[0])

    catalogue.search, catalogue.model = lru_cache(maxsize=KEPT)(search), model
    return catalogue


def require_requests(catalogue: Catalogue) -> None:
    """Refuse a catalogue without human requests.

    Raises:
        ValueError: The embedded catalogue.
        MissingAsset: A folder without the file of requests.
        BadAsset: A file without a request for any product.
    """
    folder, name = catalogue.folder, FILES[2]
    if folder is None:
        raise ValueError(
            "goals='human' needs human requests, and the embedded catalogue has none; use "
            f"goals='synthetic', or set data= to a folder of WebShop's data with {name}"
        )
    path = _file(folder, name)
    if path is None:
        raise MissingAsset(
            f"no {name} (or .gz) in {folder}, which goals='human' needs; put WebShop's file "
            "there, see https://github.com/princeton-nlp/WebShop, or use goals='synthetic'"
        )
    if not any(
        request.attributes for product in catalogue.products for request in product.requests
    ):
        raise BadAsset(f"{path}: no request for attributes of one of the {FILES[0]}'s products")


def _file(folder: Path, pattern: str) -> Path | None:
    """The file of that name, plain or compressed.

    Raises:
        BadAsset: There are several.
    """
    found = sorted([*folder.glob(pattern), *folder.glob(f"{pattern}.gz")])
    if len(found) > 1:
        raise BadAsset(
            f"{folder} has {len(found)} files for {pattern}: {', '.join(p.name for p in found)}; "
            "the choice is ambiguous: keep one, and move the others to another folder"
        )
    return found[0] if found else None


def _read(path: Path) -> Any:
    try:
        packed = path.read_bytes()
        return json.loads(gzip.decompress(packed) if path.suffix == ".gz" else packed)
    except (ValueError, EOFError, RecursionError, zlib.error, gzip.BadGzipFile) as error:
        raise BadAsset(f"{path} is no JSON: {error}") from error


def _stored(path: Path, products: Sequence[Product]) -> list[tuple[str, ...]]:
    """The title nouns in a file, by product id."""
    nouns = _read(path)
    if not isinstance(nouns, dict):
        raise BadAsset(f"{path}: an object by product id is needed, got {nouns!r:.60}")
    found = []
    for product in products:
        words = nouns.get(product.asin)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise BadAsset(f"{path}: record {product.asin!r}: words are needed, got {words!r:.60}")
        found.append(tuple(words))
    return found


def _nouns(titles: Sequence[str]) -> tuple[list[tuple[str, ...]], str]:
    """Nouns of each title, by spaCy if it and its English model are installed."""
    if find_spec("spacy") is None or find_spec(TAGGER) is None:
        return [_words(title) for title in titles], "words"
    import spacy

    tagger = spacy.load(TAGGER, disable=["parser", "ner", "lemmatizer"])
    tagged = tagger.pipe(titles)
    return [
        tuple(word.text.lower() for word in title if word.pos_ in {"NOUN", "PROPN"})
        for title in tagged
    ], "spacy"


def _words(title: str) -> tuple[str, ...]:
    """The words of a title without numbers and the most common words."""
    common = set(_COMMON_WORDS.split())
    return tuple(word for word in re.findall(r"[^\W\d_]+", title.lower()) if word not in common)
