"""The shop's pages: their elements, where a click leads, and their texts.

A page is a value. Of the path to it, it only contains the products opened since the search page.
The HTML of pages is in `render`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agent_envs.webshop.catalogue import Product

BACK, NEXT, PREVIOUS, BUY = "Back to Search", "Next >", "< Prev", "Buy Now"
FEATURES = "Features"
SUB_PAGES = ("Description", FEATURES, "Reviews", "Attributes")
BUTTONS = frozenset(text.lower() for text in (BACK, NEXT, PREVIOUS, BUY, *SUB_PAGES))
PER_PAGE = 10
ADDRESS = "http://127.0.0.1:3000"
SEPARATOR = " [SEP] "


class Page(NamedTuple):
    """The current page of a shopper.

    Attributes:
        kind: "index", "results", "item", "sub" or "done".
        query: The keywords, lower case.
        number: Page of the results, from 1.
        product: Place of the product, -1 for none.
        options: (name, value) of each option chosen, in the order of first choice.
        sub: Which of `SUB_PAGES`.
        visited: Products opened since the search page.
    """

    kind: str = "index"
    query: str = ""
    number: int = 1
    product: int = -1
    options: tuple[tuple[str, str], ...] = ()
    sub: str = ""
    visited: frozenset[int] = frozenset()

    def choose(self, name: str, value: str) -> Page:
        """The page with an option chosen or replaced."""
        return self._replace(options=tuple((dict(self.options) | {name: value}).items()))

    def show_results(self, number: int) -> Page:
        """The results page of that number."""
        return Page("results", self.query, number, visited=self.visited)

    def open_product(self, product: int) -> Page:
        """The product's own page without chosen options."""
        return Page("item", self.query, self.number, product, visited=self.visited | {product})


class Element(NamedTuple):
    """One piece of text on a page: a "text", "button", "option" or "product", chosen or not."""

    kind: str
    text: str
    chosen: bool = False


def slice_results(results: Sequence[int], number: int) -> Sequence[int]:
    """The products on one page of the results."""
    return results[(number - 1) * PER_PAGE : number * PER_PAGE]


def build_index(instruction: str) -> list[Element]:
    """The search page."""
    return [*_make_texts("WebShop", "Instruction: ", instruction), Element("button", "Search")]


def build_head(instruction: str) -> list[Element]:
    """The elements at the top of every page except the first and the last."""
    return [*_make_texts("Instruction:", instruction), Element("button", BACK)]


def build_results(
    page: Page, results: Sequence[int], products: Sequence[Product], *, bounded: bool
) -> list[Element]:
    """A page of results; if `bounded`, the last page has no next page."""
    elements = _make_texts(f"Page {page.number} (Total results: {len(results)})")
    if page.number > 1:
        elements.append(Element("button", PREVIOUS))
    if not bounded or page.number * PER_PAGE < len(results):
        elements.append(Element("button", NEXT))
    for place in slice_results(results, page.number):
        product = products[place]
        elements.append(Element("product", product.asin, place in page.visited))
        elements += _make_texts(product.title, product.price_tag)
    return elements


def build_item(page: Page, product: Product, *, attributes: bool) -> list[Element]:
    """A public product's page; `attributes` adds the tab with its attributes.

    A value is marked as chosen if the page's address has it in double quotes, as published.
    """
    shown = write_address(page, "", product)
    tabs = SUB_PAGES if attributes else SUB_PAGES[:-1]
    return [
        *_list_options(product, lambda _, value: f'"{value}"' in shown),
        *_make_texts(product.title, f"Price: {product.price_tag}", "Rating: N.A."),
        *(Element("button", text) for text in (*tabs, BUY)),
    ]


def build_told_item(page: Page, product: Product) -> list[Element]:
    """A generated product's page, with the lines of its description."""
    lines = product.description.splitlines()
    return [
        *_list_options(product, lambda name, value: (name, value) in page.options),
        *_make_texts(product.title, *lines, f"Price: {product.price_tag}"),
        *(Element("button", text) for text in (FEATURES, BUY)),
    ]


def _list_options(product: Product, is_chosen: Callable[[str, str], bool]) -> list[Element]:
    """The elements at the top of a product's page."""
    elements = [Element("button", PREVIOUS)]
    for name, values in product.options.items():
        elements += _make_texts(name)
        elements += [Element("option", value, is_chosen(name, value)) for value in values]
    return elements


def build_tab(page: Page, product: Product) -> list[Element]:
    """The content of one of the product's tabs."""
    texts = {
        "Description": [product.description],
        FEATURES: [f" {bullet}" for bullet in product.bullets],
        "Attributes": [
            *(f" {attribute}" for attribute in product.attributes),
            *(product.category, product.query, product.product_category),
        ],
    }
    return [Element("button", PREVIOUS), *_make_texts(*texts.get(page.sub, []))]


def build_receipt(page: Page, product: Product, score: float) -> list[Element]:
    """The receipt, with everything that the public WebShop prints there."""
    return _make_texts(
        *("Thank you for shopping with us!", "Your code: ", "None"),
        *(" (Paste it in your MTurk interface.)", "Purchased", "asin", product.asin, "options"),
        *(_write_json(dict(page.options)), "attrs", "None", "category", "None", "query", "None"),
        *("product category", "None", "Target", "asin", "options", "attrs", "price upper"),
        *("instuction text", "category", "product category", "query", "Goal ", "None", "Reward"),
        *("Your score (min 0.0, max 1.0)", str(score), "Reward Details ", "None"),
    )


def list_clicks(elements: Sequence[Element]) -> list[str]:
    """The clickable texts in lower case: buttons, then products, then options, each once."""
    kinds = ("button", "product", "option")
    return list(dict.fromkeys(e.text.lower() for kind in kinds for e in elements if e.kind == kind))


def write_text(elements: Iterable[Element], *, marked: bool) -> str:
    """All texts, stripped, separated by [SEP]; `marked` marks the chosen options."""
    return SEPARATOR.join(
        f"{text.strip()} (chosen)" if marked and chosen and kind == "option" else text.strip()
        for kind, text, chosen in elements
    )


def write_rich_text(elements: Sequence[Element]) -> str:
    """One text per line, with clickable texts marked; the chosen options are listed first."""
    lines = "".join(f"{_write_rich(element)}\n" for element in elements)
    for element in elements:
        if element.kind == "option" and element.chosen:
            lines = f"You have clicked {element.text}.\n{lines}"
    return lines


def write_address(page: Page, session: str, product: Product | None) -> str:
    """The page's address on the public site."""
    words, options = page.query.replace(" ", "+"), dict(page.options)
    asin = product and product.asin
    parts: dict[str, list[object]] = {
        "index": [session],
        "results": ["search_results", session, words, page.number],
        "item": ["item_page", session, asin, words, page.number, json.dumps(options)],
        "sub": ["item_sub_page", session, asin, words, page.number, page.sub, options],
        "done": ["done", session, asin, options],
    }
    return "/".join(map(str, [ADDRESS, *parts[page.kind]]))


def _write_json(options: dict[str, str]) -> str:
    """JSON as the public site's templates write it: sorted, and safe inside HTML."""
    text = json.dumps(options, sort_keys=True)
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _write_rich(element: Element) -> str:
    if element.kind == "text":
        return element.text
    word = "clicked button" if element.chosen else "button"
    before = {"option": "  ", "product": "\n"}.get(element.kind, "")
    return f"{before}[{word}] {element.text} [{word}_]"


def _make_texts(*texts: str) -> list[Element]:
    """Text elements, without texts that are empty or whitespace with a line break."""
    return [Element("text", t) for t in texts if t and not (t.isspace() and "\n" in t)]
