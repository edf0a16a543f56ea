"""A page of the shop as HTML, and the address that it has on the site.

All of a page is in its address, so that a link, the browser's history and a reload just work. What
an agent reads are the elements with `data-kind`, in their order; the rest is for people. Left out:
who serves the pages (`site`), and pictures of products, which would be loaded from elsewhere.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from agent_envs.assets import require
from agent_envs.contract import encodable
from agent_envs.webshop.pages import SUB_PAGES, Page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.pages import Element
    from agent_envs.webshop.products import Product
    from agent_envs.webshop.shop import Shop

ON_PRODUCT = ("item", "sub", "done")
KINDS = ("results", *ON_PRODUCT)
_TONES = 6  # colours of the placeholders


class Shown(NamedTuple):
    """An element as a page shows it: where a click leads, and whether it is the purchase."""

    kind: str
    text: str
    chosen: bool
    link: str
    buys: bool


def html(shop: Shop, page: Page, goal: Goal, score: float = 0.0) -> str:
    """The page as HTML, for a shopper with that goal; the last page tells the score.

    Raises:
        ImportError: Jinja is not installed.
    """
    session = shop.number[goal.task_id]
    elements = shop.elements(page, goal.text, score)
    shown = [_shown(shop, page, session, element) for element in elements]
    product = shop.catalogue.products[page.product] if page.kind in ON_PRODUCT else None
    template = _templates().get_template(f"{page.kind}.html")
    text = template.render(
        page=page, product=product, goal=goal.text, score=score, **_parts(page.kind, shown)
    )
    # A parser makes a line feed of a bare carriage return, and has no NUL.
    return encodable(text).replace("\r", "&#13;").replace("\0", "\ufffd")


def link(shop: Shop, page: Page) -> str:
    """The page's address, relative to the other pages of the episode."""
    if page.kind == "index":
        return "./"
    fields: dict[str, object] = {"query": page.query}
    if page.number != 1:
        fields["number"] = page.number
    if page.product >= 0:
        fields["product"] = page.product
    if page.sub:
        fields["sub"] = page.sub
    if page.options:
        fields["options"] = _places(shop.catalogue.products[page.product], page.options)
    if page.visited:
        fields["visited"] = ".".join(map(str, sorted(page.visited)))
    return f"{page.kind}?{urlencode(fields)}"


def page_at(shop: Shop, kind: str, fields: Mapping[str, str]) -> Page:
    """The page that an address of `link` means: its last part, "" for the search page, and fields.

    Raises:
        ValueError: It means none.
    """
    if not kind:
        return Page()
    if kind not in KINDS:
        raise ValueError(f"no page {kind!r}; there are {', '.join(KINDS)}")
    page = Page(
        kind,
        fields.get("query", ""),
        int(fields.get("number", "1")),
        int(fields.get("product", "-1")),
        sub=fields.get("sub", ""),
        visited=frozenset(map(int, _split(fields.get("visited", "")))),
    )
    count = len(shop.catalogue.products)
    named = page.visited | ({page.product} if kind in ON_PRODUCT else set())
    if not all(0 <= place < count for place in named):
        raise ValueError(f"products have numbers in 0..{count - 1}, got {dict(fields)!r:.200}")
    if (kind == "sub") != (page.sub in SUB_PAGES):
        raise ValueError(f"a product has the tabs {', '.join(SUB_PAGES)}, got {page.sub!r:.60}")
    for place in _split(fields.get("options", "")):
        page = page.chosen(*_option(shop.catalogue.products[page.product], place))
    return page


def _places(product: Product, options: Sequence[tuple[str, str]]) -> str:
    """The options by place of name and value, "0-2.1-0": no value needs quoting."""
    names = list(product.options)
    return ".".join(
        f"{names.index(name)}-{product.options[name].index(value)}" for name, value in options
    )


def _option(product: Product, place: str) -> tuple[str, str]:
    """The option's name and value at a place of `_places`."""
    name_at, _, value_at = place.partition("-")
    try:
        name, values = list(product.options.items())[int(name_at)]
        return name, values[int(value_at)]
    except IndexError:
        raise ValueError(f"the product has no option {place!r:.60}") from None


def _split(listed: str) -> list[str]:
    return listed.split(".") if listed else []


def _shown(shop: Shop, page: Page, session: str, element: Element) -> Shown:
    if element.kind == "text" or page.kind == "index":
        return Shown(*element, link="", buys=False)
    target, _ = shop.follow(page, session, "click", element.text.lower())
    return Shown(*element, link=link(shop, target), buys=target.kind == "done")


def _parts(kind: str, shown: list[Shown]) -> dict[str, Any]:
    """What a kind of page lays out: its elements in order, cut where the layout needs it."""
    if kind == "index":
        return {"said": shown[:-1], "search": shown[-1]}
    if kind == "done":
        return {"thanks": shown[0], "receipt": shown[1:]}
    first = next(at for at, element in enumerate(shown) if element.kind == "button")
    head, back, rest = shown[:first], shown[first], shown[first + 1 :]
    if kind == "results":
        starts = [at for at, element in enumerate(rest) if element.kind == "product"]
        ends = [*starts, len(rest)]
        cards = [rest[start:end] for start, end in pairwise(ends)]
        return {"head": head, "back": back, "pager": rest[: ends[0]], "cards": cards}
    previous, *rest = rest
    if kind == "sub":
        return {"head": head, "back": back, "previous": previous, "told": rest}
    last = max((at for at, element in enumerate(rest) if element.kind == "option"), default=-1)
    tail = rest[last + 1 :]
    return {
        "head": head,
        "back": back,
        "previous": previous,
        "choices": _choices(rest[: last + 1]),
        "details": [element for element in tail if element.kind == "text"],
        "tabs": [element for element in tail if element.kind == "button"],
    }


def _choices(shown: Sequence[Shown]) -> list[tuple[list[Shown], list[Shown]]]:
    """Options: what stands before the values, mostly one name, and the values."""
    found: list[tuple[list[Shown], list[Shown]]] = []
    for element in shown:
        if not found or (element.kind == "text" and found[-1][1]):
            found.append(([], []))
        found[-1][element.kind == "option"].append(element)
    return found


@lru_cache(maxsize=1)
def _templates() -> Environment:
    jinja2 = require("jinja2", "webshop")
    environment: Environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.PackageLoader("agent_envs.webshop"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["tone"] = _tone
    environment.filters["initial"] = _initial
    return environment


def _tone(title: str) -> int:
    """Colour of a placeholder, by the title alone: it must tell nothing that is hidden."""
    return sum(title.encode(errors="replace")) % _TONES


def _initial(title: str) -> str:
    return next((char.upper() for char in title if char.isalnum()), "·")
