"""A page of the shop as HTML, and its address on the site.

An address contains the whole state of its page, so that the browser's history and a reload work.
The agent's text is read from the elements with `data-kind`, in order; the rest is for people. The
server is in `site`. There are no pictures of products, which would be loaded from elsewhere.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from agent_envs.assets import require
from agent_envs.contract import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jinja2 import Environment, Template

    from agent_envs.webshop.catalogue import Product
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.pages import Element, Page
    from agent_envs.webshop.shop import Shop

ON_PRODUCT = ("item", "sub", "done")
_TONES = 6  # colours of the placeholders


class Shown(NamedTuple):
    """A displayed element, with the target of a click and whether it is the purchase."""

    kind: str
    text: str
    chosen: bool
    link: str
    buys: bool


def render_page(
    shop: Shop,
    page: Page,
    goal: Goal,
    score: float = 0.0,
    *,
    link: Callable[[Page], str] | None = None,
    more: bool = False,
) -> str:
    """The page as HTML.

    Args:
        shop: The shop.
        page: The page.
        goal: The shopper's goal.
        score: The score on the last page.
        link: Maps each page that this one links to, to its address; None for `write_link`.
        more: Whether the last page offers another task.

    Raises:
        ImportError: Jinja is not installed.
    """
    session = shop.number[goal.task_id]
    link = link or partial(write_link, shop)
    elements = shop.list_elements(page, goal.text, score)
    shown = [_show_element(shop, page, session, element, link) for element in elements]
    product = shop.catalogue.products[page.product] if page.kind in ON_PRODUCT else None
    template, groups = _load_template(page.kind), _group_elements(page.kind, shown)
    text = template.render(
        page=page, product=product, goal=goal.text, score=score, more=more, **groups
    )
    # An HTML parser converts a bare carriage return to a line feed, and does not accept NUL.
    return encodable(text).replace("\r", "&#13;").replace("\0", "\ufffd")


def render_notice(title: str, text: str, *, back: bool) -> str:
    """A page outside of any episode, with or without a link back to the running one."""
    return _load_template("notice").render(title=title, text=text, back=back)


def write_link(shop: Shop, page: Page) -> str:
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
        fields["options"] = _write_places(shop.catalogue.products[page.product], page.options)
    if page.visited:
        fields["visited"] = ".".join(map(str, sorted(page.visited)))
    return f"{page.kind}?{urlencode(fields)}"


def _write_places(product: Product, options: Sequence[tuple[str, str]]) -> str:
    """The options by place of name and value, such as "0-2.1-0", so that nothing needs quoting."""
    names = list(product.options)
    return ".".join(
        f"{names.index(name)}-{product.options[name].index(value)}" for name, value in options
    )


def _show_element(
    shop: Shop, page: Page, session: str, element: Element, link: Callable[[Page], str]
) -> Shown:
    if element.kind == "text" or page.kind == "index":
        return Shown(*element, link="", buys=False)
    target, _ = shop.follow(page, session, "click", element.text.lower())
    return Shown(*element, link=link(target), buys=target.kind == "done")


def _group_elements(kind: str, shown: list[Shown]) -> dict[str, Any]:
    """The elements of a kind of page in order, grouped for its layout."""
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
        "choices": _group_options(rest[: last + 1]),
        "details": [element for element in tail if element.kind == "text"],
        "tabs": [element for element in tail if element.kind == "button"],
    }


def _group_options(shown: Sequence[Shown]) -> list[tuple[list[Shown], list[Shown]]]:
    """Options: the elements before the values (mostly one name), and the values."""
    found: list[tuple[list[Shown], list[Shown]]] = []
    for element in shown:
        if not found or (element.kind == "text" and found[-1][1]):
            found.append(([], []))
        found[-1][element.kind == "option"].append(element)
    return found


def _load_template(name: str) -> Template:
    return _load_environment().get_template(f"{name}.html")


@lru_cache(maxsize=1)
def _load_environment() -> Environment:
    jinja2 = require("jinja2", "webshop")
    environment: Environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.PackageLoader("agent_envs.webshop"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # The colour of a placeholder depends on the title alone, so that it reveals nothing hidden.
    environment.filters["tone"] = lambda title: sum(title.encode(errors="replace")) % _TONES
    environment.filters["initial"] = lambda title: next(
        (char.upper() for char in title if char.isalnum()), "·"
    )
    return environment
