"""Catalogue: the public products of a folder, with search index and title nouns.

Records are read as in the public WebShop; errors name file, record and field.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_envs.assets import BadAsset, MissingAsset, Reading, find_data, read_json, read_stamps
from agent_envs.contract import encodable
from agent_envs.panels import one_of
from agent_envs.retrieval.dense import Dense
from agent_envs.retrieval.factory import default_model, open_encoder
from agent_envs.retrieval.passages import Passage
from agent_envs.webshop.search import KEPT, MOST, Index

if TYPE_CHECKING:
    import os

T = TypeVar("T")
Instruction = tuple[str, tuple[str, ...]]

NO_PRICE = 100.0  # of a product without one
NO_ATTRIBUTES = ("DUMMY_ATTR",)
LONGEST_TEXT = 100_000
LONGEST_ID = 10
MOST_GOALS = 100_000  # of a product
_GROUP = 3  # digits between separators of thousands
_AMOUNT = re.compile(r"(?:(?<![^\W\d_])\.)?\d[\d.,'’\s]*")
_RANGE = re.compile(r"[-–—~]|\bto\b")
_CURRENCIES = re.compile(r"(?:[^\w%/]|\b(?:[A-Z]{2,3}|Fr|kr|Rs|zł|to)\b)*")
_PRICES = 2  # a product has one price, or a range
_TEXTS = ("name", "full_description", "product_category", "category", "query")

FILES = ("items_shuffle*.json", "items_ins_v2*.json", "items_human_ins.json")
SEARCHES = ("bm25", "dense")
NOUNS = "title_nouns.json"
TAGGER = "en_core_web_sm"
_COMMON_WORDS = """
a about after all an and any are as at be by can each for free from has high in into is it its low
made more new no not of off on one or other our out over pack per set so than that the their this to
up use used with without you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        asin: Its id.
        title, description, bullets: Its texts.
        price_tag: The price as displayed.
        prices: One price, or the ends of a range, dollars.
        options: Values of each option, lower case, in order.
        query, category, product_category: More texts, of public products.
        attributes: Its attributes for the reward.
        instruction: Request for it without options and price ("" for none), and its attributes.
        requests: Human requests for it.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_tag: str
    prices: tuple[float, ...]
    options: Mapping[str, tuple[str, ...]]
    query: str = ""
    category: str = ""
    product_category: str = ""
    attributes: tuple[str, ...] = ()
    instruction: tuple[str, tuple[str, ...]] = ("", ())
    requests: tuple[HumanRequest, ...] = ()

    @property
    def document(self) -> str:
        """Its text in the search index."""
        options = ", and ".join(f"{name}: {', '.join(vs)}" for name, vs in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """A human request: its text, and the attributes and option values in it."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


class Catalogue:
    """Products in file order, with their search index; one shared object per folder.

    Args:
        folder: The folder of the products.
        products: The products.
        nouns: Nouns of each title.
        title_nouns: Source of the nouns: "stored", "spacy" or "words".
        reading: What was left out of the folder's files.

    Attributes:
        search: `search(query)` returns the places of at most 50 products, best first.
        model: The encoder of a dense search, "" for Lucene's.
    """

    def __init__(
        self,
        folder: Path,
        products: Sequence[Product],
        nouns: Sequence[tuple[str, ...]],
        title_nouns: str,
        reading: Reading,
    ) -> None:
        self.folder, self.products, self.reading = folder, products, reading
        self.nouns, self.title_nouns = nouns, title_nouns
        self.place = {product.asin.lower(): at for at, product in enumerate(products)}
        index = Index((product.document for product in products), [p.asin for p in products])
        self.search: Callable[[str], tuple[int, ...]] = index.search
        self.model = ""

    def __deepcopy__(self, _: dict[int, Any]) -> Catalogue:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.model:
            return _open_dense, (self.folder, self.model)
        return _open_folder, (self.folder,)


def open_catalogue(
    data: str | os.PathLike[str] = "auto",
    *,
    search: str = "bm25",
    model: str = "",
    strict: bool = False,
) -> Catalogue:
    """The products of a folder, or of "auto": that of `$WEBSHOP_DATA`.

    `search` is "bm25", like Lucene's, or "dense", with the encoder `model`. Bad records are left
    out with a warning.

    Raises:
        ValueError: An unknown search, or a dense one without an encoder.
        ImportError: A dense search without the packages of the extra [dense].
        MissingAsset: No folder, or one without the products' files.
        BadAsset: A broken file; with `strict`, a bad record.
    """
    folder = find_data(data, "WEBSHOP_DATA")
    if folder is None:
        raise MissingAsset(
            f"WebShop-v0 plays public products and has none of its own, got data={data!r}; give a "
            "folder as data=, or play the generated catalogue, WebShop-v1"
        )
    one_of("search", search, SEARCHES)
    _open_folder(folder).reading.report(strict=strict)
    if search == "bm25":
        return _open_folder(folder)
    return _open_dense(folder, model or default_model())


def _open_folder(folder: Path) -> Catalogue:
    return _read_folder(folder, read_stamps(folder))


@lru_cache(maxsize=2)
def _read_folder(folder: Path, _stamps: tuple[Any, ...]) -> Catalogue:
    """The catalogue of a folder; `_stamps` invalidates the cache when a file changes."""
    found = [_find_file(folder, pattern) for pattern in FILES]
    for path, pattern in zip(found[:2], FILES[:2], strict=True):
        if path is None:
            raise MissingAsset(
                f"no {pattern} (or .gz, .xz) in {folder}; put WebShop's data there, see "
                "https://github.com/princeton-nlp/WebShop, or play WebShop-v1"
            )
    reading = Reading()
    products = read_products(
        *(None if path is None else read_json(path) for path in found),
        files=[str(path or pattern) for path, pattern in zip(found, FILES, strict=True)],
        reading=reading,
    )
    stored = _find_file(folder, NOUNS)
    if stored is None:
        return Catalogue(folder, products, *_tag_nouns([p.title for p in products]), reading)
    return Catalogue(folder, products, _read_nouns(stored, products, reading), "stored", reading)


def _open_dense(folder: Path, model: str) -> Catalogue:
    return _make_dense(_open_folder(folder), model)


@lru_cache(maxsize=2)
def _make_dense(shared: Catalogue, model: str) -> Catalogue:
    """The catalogue with a dense search of its own."""
    catalogue = copy.copy(shared)
    passages = [Passage(str(i), "", p.document) for i, p in enumerate(catalogue.products)]
    dense, catalogue.model = Dense(passages, open_encoder(model)), model
    catalogue.search = lru_cache(maxsize=KEPT)(
        lambda query: tuple(int(found.id) for found in dense.search([query], MOST)[0])
    )
    return catalogue


def require_requests(catalogue: Catalogue) -> None:
    """Refuse a catalogue without human requests.

    Raises:
        MissingAsset: A folder without the file of requests.
        BadAsset: A file without a request for any product.
    """
    folder, name = catalogue.folder, FILES[2]
    path = _find_file(folder, name)
    if path is None:
        raise MissingAsset(
            f"no {name} (or .gz, .xz) in {folder}, which goals='human' needs; put WebShop's file "
            "there, see https://github.com/princeton-nlp/WebShop, or use goals='synthetic'"
        )
    if not any(request.attributes for one in catalogue.products for request in one.requests):
        raise BadAsset(f"{path}: no request for attributes of one of the {FILES[0]}'s products")


def _find_file(folder: Path, pattern: str) -> Path | None:
    """The file of that name, plain or compressed.

    Raises:
        BadAsset: There are several.
    """
    pattern_of_links = f"[{pattern[0]}]{pattern[1:]}"  # a name leaves out links to nothing
    found = sorted([*folder.glob(pattern_of_links), *folder.glob(f"{pattern_of_links}.?z")])
    if len(found) > 1:
        raise BadAsset(
            f"{folder} has {len(found)} files for {pattern}: {', '.join(p.name for p in found)}; "
            "the choice is ambiguous: keep one, and move the others to another folder"
        )
    return found[0] if found else None


def _read_nouns(path: Path, products: Sequence[Product], reading: Reading) -> list[tuple[str, ...]]:
    """The title nouns in a file, by product id; where it has none, all but common words."""
    nouns = expect(dict, read_json(path), f"{path}: an object by product id")
    found = {}
    for product in products:
        with reading.record(path, f"record {product.asin!r}"):
            found[product.asin] = _expect_texts(nouns.get(product.asin), "a list of words")
    return [found[p.asin] if p.asin in found else _split_words(p.title) for p in products]


def _tag_nouns(titles: Sequence[str]) -> tuple[list[tuple[str, ...]], str]:
    """Nouns of each title: by spaCy if it and its model are installed, else less common words."""
    if find_spec("spacy") is None or find_spec(TAGGER) is None:
        return [_split_words(title) for title in titles], "words"
    import spacy

    tagger = spacy.load(TAGGER, disable=["parser", "ner", "lemmatizer"])
    return [
        tuple(word.text.lower() for word in title if word.pos_ in {"NOUN", "PROPN"})
        for title in tagger.pipe(titles)
    ], "spacy"


def _split_words(title: str) -> tuple[str, ...]:
    """The words of a title, lower case, without the common ones."""
    words = re.findall(r"[^\W\d_]+", title.lower())
    return tuple(word for word in words if word not in _COMMON)


def read_products(
    records: Any,
    attributes: Any,
    requests: Any = None,
    *,
    files: Sequence[str] = ("products", "attributes", "requests"),
    reading: Reading | None = None,
) -> list[Product]:
    """The products of `items_shuffle`, with `items_ins_v2` and `items_human_ins`, in file order.

    As in the public WebShop, records without an id of at most ten characters, and later ones with
    the same id, are skipped; an unpaired surrogate, from a truncated text, becomes U+FFFD. Other
    bad records of a file are left out, which `reading` counts.

    Raises:
        BadAsset: No product is good, or one is bad and there is no `reading`.
    """
    expect(list, records, f"{files[0]}: a list of products")
    expect(dict, attributes, f"{files[1]}: an object by product id")
    requests = expect(dict, requests or {}, f"{files[2]}: an object by product id")
    found = reading or Reading()
    products: dict[str, Product] = {}
    skipped, empty, other = list[str](), list[str](), list[str]()
    for place, record in enumerate(records):
        with found.record(files[0], f"record {place}"):
            expect(dict, record, "an object")
            asin = expect(str, record.get("asin"), "field 'asin': a text")
            if asin == "nan" or len(asin) > LONGEST_ID or asin.lower() in products:
                skipped.append(asin)
                continue
            known: tuple[tuple[str, ...], Instruction] = NO_ATTRIBUTES, ("", ())
            if asin in attributes:
                with found.record(files[1], f"record {asin!r}"):
                    known = _read_known(attributes[asin])
            human: tuple[HumanRequest, ...] = ()
            if asin in requests:
                with found.record(files[2], f"record {asin!r}"):
                    entries = expect(list, requests[asin], "a list of requests")
                    human = tuple(map(_read_request, entries))
            product = products[asin.lower()] = _read_product(record, known, human)
            other += [asin] * (not {*known[1][1]} <= {*known[0]})
            empty += [asin] * (bool(known[1][0]) and not all(product.options.values()))
    found.note(files[0], skipped, len(records), "records have no id of their own and are skipped")
    found.note(files[0], empty, len(products), "products have an option of no values, so no goal")
    found.note(files[1], other, len(products), "products lack what their instruction asks for")
    asins = {product.asin: None for product in products.values()}
    bare = [asin for asin in asins if asin not in attributes]
    shared = len(asins) - len(bare)
    found.note(files[1], bare, len(asins), "products have no record here, so no synthetic goal")
    for file, entries in zip(files[1:], (attributes, requests), strict=True):
        loose = [asin for asin in entries if asin not in asins]
        found.note(file, loose, len(entries), "records are of no product and are left out")
    if attributes and 2 * shared < len(asins):
        why = f"only {shared} of {len(asins)} products have a record here: it is of other data"
        found.leave_out(files[1], "as a whole", why)
    if reading is None or not products:
        found.report(strict=True)
    if not products:
        raise BadAsset(f"{files[0]}: no product with an id of at most {LONGEST_ID} characters")
    return list(products.values())


def _read_product(
    record: dict[str, Any],
    known: tuple[tuple[str, ...], Instruction],
    requests: tuple[HumanRequest, ...],
) -> Product:
    described = record | {"full_description": record.get("full_description") or ""}
    title, description, levels, category, query = (_read_text(described, name) for name in _TEXTS)
    bullets = record.get("small_description") or []
    bullets = [bullets] if isinstance(bullets, str) else bullets
    tag, prices = _read_price(record.get("pricing"))
    options = _read_options(record.get("customization_options"))
    attributes, instruction = known
    orders = math.prod(map(len, options.values()))
    if instruction[0] and orders > MOST_GOALS:
        raise BadAsset(
            f"field 'customization_options': at most {MOST_GOALS} goals, one per choice, are "
            f"possible, got {orders}"
        )
    return Product(
        asin=record["asin"],
        title=title,
        description=description,
        bullets=_read_texts({"small_description": bullets}, "small_description"),
        query=query.lower().strip(),
        category=category,
        product_category=levels,
        price_tag=tag,
        prices=prices,
        options=options,
        attributes=attributes,
        instruction=instruction,
        requests=requests,
    )


def _read_price(given: Any) -> tuple[str, tuple[float, ...]]:
    """Price tag and prices of a text such as "$12.99 - $15.00", "1.299,00 €" or "12.99".

    With "$" signs each piece between them is a price, as in the public WebShop, whatever else it
    says. Otherwise only currencies and the signs of a range may be there; none is converted.
    """
    if given is None or given == "":
        return f"${NO_PRICE}", (NO_PRICE,)
    expect(str, given, "field 'pricing': a text such as '$12.99'")
    pieces, in_dollars = given.split("$"), "$" in given
    if in_dollars:  # the sign is before or after the amount
        pieces = pieces[1:] if re.search(r"\d", pieces[-1]) else pieces[:-1]
    else:
        is_price = _CURRENCIES.fullmatch(_AMOUNT.sub(" ", given))
        pieces = _RANGE.split(given) if is_price else []
    is_pointed = in_dollars or not re.search(r"[^\d\s.,'’–—~-]", given)
    prices: tuple[float, ...] = ()
    with suppress(ValueError):
        prices = tuple(_read_amount(piece, is_pointed=is_pointed) for piece in pieces)[:_PRICES]
    if not prices or math.inf in prices or re.match(r"\W*[-−]", given):
        raise BadAsset(f"field 'pricing': a price such as '$12.99' is needed, got {given!r:.60}")
    return " to ".join(f"${price}" for price in prices), prices


def _read_amount(piece: str, *, is_pointed: bool) -> float:
    """The one number in a text, in any notation: "1,299.00", "1.299,00", "1 299", "12,99".

    A mark before three digits separates thousands, except a point if the price `is_pointed`.
    """
    (text,) = _AMOUNT.findall(piece)
    text = re.sub(r"(?<=\d)['’\s](?=\d{3})", "", text).rstrip(".,'’ \t\n\u00a0\u202f")
    marks = re.sub(r"\d", "", text)
    whole, mark, cents = text.rpartition(marks[-1]) if marks else (text, "", "")
    groups = marks == mark and len(cents) == _GROUP and whole.strip("0")
    if marks.count(mark) > 1 or (groups and not (is_pointed and mark == ".")):
        whole, cents = text, ""
    if mark not in ".," or not re.fullmatch(r"\d*|\d{1,3}([.,])(?:\d{2,3}\1)*\d{3}", whole):
        raise ValueError(f"no price: {piece}")
    return float(f"{re.sub('[.,]', '', whole)}.{cents}")


def _read_options(given: Any) -> dict[str, tuple[str, ...]]:
    where = "field 'customization_options'"
    what = f"{where}: a list of choices with a text 'value'"
    options = {}
    for name, choices in expect(dict, given or {}, f"{where}: an object by option name").items():
        if choices is not None:
            entries = [expect(dict, choice, what) for choice in expect(list, choices, what)]
            texts = _expect_texts([entry.get("value") for entry in entries], what)
            values = tuple(text.strip().replace("/", " | ").lower() for text in texts)
            options[encodable(name).lower()] = values
    return options


def _read_known(entry: Any) -> tuple[tuple[str, ...], Instruction]:
    """Attributes of a product, and its instruction with the attributes in it."""
    expect(dict, entry, "an object")
    attributes: tuple[str, ...] = NO_ATTRIBUTES
    if "attributes" in entry:
        attributes = _read_texts(entry, "attributes")
    if not entry.get("instruction"):
        return attributes, ("", ())
    text, wanted = _read_text(entry, "instruction"), _read_texts(entry, "instruction_attributes")
    if not wanted:
        raise BadAsset("field 'instruction_attributes' has none for its instruction")
    return attributes, (text, wanted)


def _read_request(entry: Any) -> HumanRequest:
    expect(dict, entry, "an object")
    wanted = _read_texts(entry, "instruction_attributes")
    options = _read_texts(entry, "instruction_options")
    return HumanRequest(_read_text(entry, "instruction"), wanted, options)


def _read_text(record: Mapping[str, Any], name: str) -> str:
    what = f"field {name!r}: a text"
    return _expect_texts([expect(str, record.get(name), what)], what)[0]


def _read_texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return _expect_texts(record.get(name), f"field {name!r}: a list of texts")


def _expect_texts(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadAsset(f"{what} is needed, got {values!r:.60}")
    if (length := sum(map(len, values))) > LONGEST_TEXT:
        raise BadAsset(f"{what} is needed with at most {LONGEST_TEXT} characters, got {length}")
    return tuple(map(encodable, values))


def expect(kind: type[T], value: Any, what: str) -> T:
    """A value of a file, which must be of a kind.

    Raises:
        BadAsset: It is not; `what` has the place and what is needed.
    """
    if not isinstance(value, kind):
        raise BadAsset(f"{what} is needed, got {value!r:.60}")
    return value
