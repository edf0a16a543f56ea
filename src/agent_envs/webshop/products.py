"""Products: a catalogue's records read as in the public WebShop; errors name the record."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset
from agent_envs.contract import encodable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_PRICE = 100.0  # of a product without one
NO_ATTRIBUTES = ("DUMMY_ATTR",)
LONGEST_TEXT = 100_000
LONGEST_ID = 10
MOST_GOALS = 100_000  # of a product
_PRICES = 2  # a product has one price, or a range
_TEXTS = ("name", "full_description", "product_category", "category", "query")


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        asin: Its id.
        title, description, bullets, query, category, product_category: Its texts.
        price_tag: The price as displayed.
        prices: One price, or the ends of a range, dollars.
        options: Values of each option, lower case, in order.
        image: Address of its picture, "" for none.
        attributes: Its attributes for the reward.
        instruction: Request for it without options and price ("" for none), and its attributes.
        requests: Human requests for it.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    query: str
    category: str
    product_category: str
    price_tag: str
    prices: tuple[float, ...]
    options: Mapping[str, tuple[str, ...]]
    image: str
    attributes: tuple[str, ...]
    instruction: tuple[str, tuple[str, ...]] = ("", ())
    requests: tuple[HumanRequest, ...] = ()

    @property
    def highest(self) -> float:
        """The highest price for any choice of options, in dollars."""
        return max(self.prices)

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
    options: tuple[str, ...] = field(default=())


def read_products(
    records: Any,
    attributes: Any,
    requests: Any = None,
    *,
    files: Sequence[str] = ("products", "attributes", "requests"),
) -> list[Product]:
    """The products of `items_shuffle`, with `items_ins_v2` and `items_human_ins`, in file order.

    Records without an id of at most ten characters, and later ones with the same id, are skipped;
    an unpaired surrogate, from a truncated text, becomes U+FFFD.

    Raises:
        BadAsset: An invalid record; the message has file, record and field.
    """
    if not isinstance(records, list):
        raise BadAsset(f"{files[0]}: a list of products is needed, got {type(records).__name__}")
    requests = requests or {}
    for name, content in zip(files[1:], (attributes, requests), strict=True):
        if not isinstance(content, dict):
            raise BadAsset(f"{name}: an object by product id is needed, got {content!r:.60}")
    products: dict[str, Product] = {}
    for place, record in enumerate(records):
        where = f"{files[0]}: record {place}"
        asin = _id(record, where)
        if asin == "nan" or len(asin) > LONGEST_ID or asin in products:
            continue
        told = _known(attributes.get(asin, {}), f"{files[1]}: record {asin!r}")
        asked = _requests(requests.get(asin, []), f"{files[2]}: record {asin!r}")
        products[asin] = _product(record, f"{where} ({asin})", told, asked)
    if not products:
        raise BadAsset(f"{files[0]}: no product with an id of at most {LONGEST_ID} characters")
    return list(products.values())


def _id(record: Any, where: str) -> str:
    if not isinstance(record, dict):
        raise BadAsset(f"{where}: an object is needed, got {record!r:.60}")
    asin = record.get("asin")
    if not isinstance(asin, str):
        raise BadAsset(f"{where}: field 'asin': a text is needed, got {asin!r:.60}")
    return asin


def _product(
    record: dict[str, Any],
    where: str,
    told: tuple[tuple[str, ...], tuple[str, tuple[str, ...]]],
    asked: tuple[HumanRequest, ...],
) -> Product:
    title, description, levels, category, query = (_text(record, name, where) for name in _TEXTS)
    bullets = record.get("small_description") or []
    images = record.get("images") or []
    tag, prices = _price(record.get("pricing"), f"{where}: field 'pricing'")
    options = _options(record.get("customization_options"), where)
    attributes, instruction = told
    orders = math.prod(map(len, options.values()))
    if instruction[0] and orders > MOST_GOALS:
        raise BadAsset(
            f"{where}: field 'customization_options' gives {orders} goals, one per choice; at most "
            f"{MOST_GOALS} are possible"
        )
    return Product(
        asin=record["asin"],
        title=title,
        description=description,
        bullets=_texts(
            [bullets] if isinstance(bullets, str) else bullets, where, "small_description"
        ),
        query=query.lower().strip(),
        category=category,
        product_category=levels,
        price_tag=tag,
        prices=prices,
        options=options,
        image=(*_texts(images, where, "images"), "")[0],
        attributes=attributes,
        instruction=instruction,
        requests=asked,
    )


def _text(record: Mapping[str, Any], name: str, where: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        if value is None and name == "full_description":
            return ""
        raise BadAsset(f"{where}: field {name!r}: a text is needed, got {value!r:.60}")
    if len(value) > LONGEST_TEXT:
        raise BadAsset(
            f"{where}: field {name!r} has {len(value)} characters, more than {LONGEST_TEXT}"
        )
    return encodable(value)


def _texts(values: Any, where: str, name: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadAsset(f"{where}: field {name!r}: a list of texts is needed, got {values!r:.60}")
    if sum(map(len, values)) > LONGEST_TEXT:
        raise BadAsset(f"{where}: field {name!r} has more than {LONGEST_TEXT} characters")
    return tuple(map(encodable, values))


def _price(given: Any, where: str) -> tuple[str, tuple[float, ...]]:
    """Price tag and prices of a text such as "$12.99 - $15.00"; a plain number is a price, too."""
    if given is None or given == "":
        return f"${NO_PRICE}", (NO_PRICE,)
    if not isinstance(given, str):
        raise BadAsset(f"{where}: a text such as '$12.99' is needed, got {given!r:.60}")
    pieces = given.split("$")[1:] if "$" in given else [given]
    try:
        prices = tuple(float(re.sub(r"[^0-9.]", "", piece)) for piece in pieces)[:_PRICES]
    except ValueError:
        prices = ()
    if not prices or math.inf in prices:
        raise BadAsset(f"{where}: a price such as '$12.99' is needed, got {given!r:.60}")
    return " to ".join(f"${price}" for price in prices), prices


def _options(given: Any, where: str) -> dict[str, tuple[str, ...]]:
    field = "customization_options"
    if not given:
        return {}
    if not isinstance(given, dict):
        raise BadAsset(
            f"{where}: field {field!r}: an object by option name is needed, got {given!r:.60}"
        )
    options = {}
    for name, choices in given.items():
        if not isinstance(choices, list | None):
            raise BadAsset(
                f"{where}: field {field!r}: a list of choices is needed, got {choices!r:.60}"
            )
        if choices is not None:
            values = [_value(choice, f"{where}: field {field!r}") for choice in choices]
            options[encodable(name).lower()] = _texts(values, where, field)
    return options


def _value(choice: Any, where: str) -> str:
    if not isinstance(choice, dict) or not isinstance(choice.get("value"), str):
        raise BadAsset(f"{where}: choices with a text 'value' are needed, got {choice!r:.60}")
    value: str = choice["value"]
    return value.strip().replace("/", " | ").lower()


def _known(entry: Any, where: str) -> tuple[tuple[str, ...], tuple[str, tuple[str, ...]]]:
    """Attributes of a product, and its instruction with the attributes in it."""
    if not isinstance(entry, dict):
        raise BadAsset(f"{where}: an object is needed, got {entry!r:.60}")
    attributes: tuple[str, ...] = NO_ATTRIBUTES
    if "attributes" in entry:
        attributes = _texts(entry["attributes"], where, "attributes")
    if not entry.get("instruction"):
        return attributes, ("", ())
    text = _text(entry, "instruction", where)
    wanted = _texts(entry.get("instruction_attributes"), where, "instruction_attributes")
    if not wanted:
        raise BadAsset(f"{where}: field 'instruction_attributes' has none for its instruction")
    return attributes, (text, wanted)


def _requests(entries: Any, where: str) -> tuple[HumanRequest, ...]:
    if not isinstance(entries, list):
        raise BadAsset(f"{where}: a list of requests is needed, got {entries!r:.60}")
    found = []
    for place, entry in enumerate(entries):
        here = f"{where}, request {place}"
        if not isinstance(entry, dict):
            raise BadAsset(f"{here}: an object is needed, got {entry!r:.60}")
        wanted = _texts(entry.get("instruction_attributes"), here, "instruction_attributes")
        options = _texts(entry.get("instruction_options"), here, "instruction_options")
        found.append(HumanRequest(_text(entry, "instruction", here), wanted, options))
    return tuple(found)
