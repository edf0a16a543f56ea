"""Shop: a catalogue with its index, prices and goals, and the rules of its pages.

All environments of a process with the same data and rules share one shop.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.spaces import ACTION_LENGTH
from agent_envs.webshop import pages, reward
from agent_envs.webshop.catalogue import require_requests
from agent_envs.webshop.claims import states
from agent_envs.webshop.goals import draw_prices, make_goals
from agent_envs.webshop.pages import Element, Page

if TYPE_CHECKING:
    from agent_envs.webshop.catalogue import Catalogue, Product
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.reward import Score

MODES = ("strict", "upstream")
PAGES_KEPT = 8192
_UPSTREAM = re.compile(r"(.+)\[(.+)\]")
_STRICT = re.compile(r"\s*(search|click)\[(.*)\]\s*", re.DOTALL)
_SECOND = re.compile(r"\].*\b(?:search|click)\[", re.DOTALL | re.IGNORECASE)
_BUTTONS = frozenset(
    text.lower() for text in (pages.BACK, pages.NEXT, pages.PREVIOUS, pages.BUY, *pages.SUB_PAGES)
)


class Body(NamedTuple):
    """A page below its head: its elements, and the clickable texts of the page."""

    elements: tuple[Element, ...]
    clickable: tuple[str, ...]


class Shop:
    """Goals and pages of a catalogue by the rules of a mode; immutable.

    Args:
        catalogue: Products and their index.
        kind: Kind of goals, "synthetic" or "human".
        strict: Whether the public WebShop's faults are fixed.
        price_seed: Seed of the goals' price limits, and unless `strict`, of the prices of products
            with a range; in `strict` the highest price counts.
        attributes: Whether pages show attributes.
    """

    def __init__(
        self, catalogue: Catalogue, *, kind: str, strict: bool, price_seed: int, attributes: bool
    ) -> None:
        self._arguments = (catalogue, kind, strict, price_seed, attributes)
        self.catalogue, self.strict, self.attributes = catalogue, strict, attributes
        if kind == "human":
            require_requests(catalogue)
        rng = random.Random(price_seed)
        self.prices = draw_prices(catalogue.products, rng)
        if strict:  # the displayed price instead of a hidden one
            self.prices = [product.highest for product in catalogue.products]
        goals = make_goals(catalogue.products, self.prices, kind, rng)
        if strict:
            goals = mark_unmet(goals, catalogue.products)
        self.goals = {goal.task_id: goal for goal in goals}
        self.number = {task_id: str(place) for place, task_id in enumerate(self.goals)}
        self._options = reward.count_exact_options if strict else reward.count_similar_options
        self.build_body = lru_cache(maxsize=PAGES_KEPT)(self._build_body)

    def __deepcopy__(self, memo: dict[int, Any]) -> Shop:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_shop, self._arguments

    def parse(self, action: str) -> tuple[str, str]:
        """Name and lower-case argument of an action, ("", "") for any other text."""
        return parse_action(action, strict=self.strict)

    def follow(self, page: Page, session: str, name: str, argument: str) -> tuple[Page, str]:
        """The page that an action leads to, and "" or why it has no effect."""
        if not name:
            return page, "format"
        if name == "search":
            if self.strict and page.kind != "index":
                return page, "refused"
            return Page("results", argument, visited=page.visited), ""
        if argument == "search" and (page.kind == "index" or not self.strict):
            return page, "refused" if page.kind == "index" else "unknown"
        offered = self.build_body(page).clickable
        if self.strict:  # a value may end in a space
            argument = next((text for text in offered if text.strip() == argument), argument)
        if argument not in offered:
            return page, "unknown"
        return self._click(page, session, argument), ""

    def list_elements(self, page: Page, instruction: str, score: float = 0.0) -> list[Element]:
        """The elements of a page."""
        if page.kind == "index":
            return pages.build_index(instruction)
        if page.kind == "done":
            return pages.build_receipt(page, self._product(page), score)
        return [*pages.build_head(instruction), *self.build_body(page).elements]

    def write_address(self, page: Page, session: str) -> str:
        """The page's address on the public site."""
        product = self._product(page) if page.product >= 0 else None
        return pages.write_address(page, session, product)

    def match(self, goal: Goal, product: int) -> reward.Match:
        """How far a product satisfies a goal, without options."""
        products, nouns = self.catalogue.products, self.catalogue.nouns
        target, bought = products[goal.product], products[product]
        titles = nouns[goal.product], nouns[product]
        if self.strict:
            return reward.match_strictly(goal, target, bought, titles)
        return reward.match_loosely(goal, target, bought, titles, self.prices[product])

    def score(self, goal: Goal, match: reward.Match, page: Page) -> Score:
        """The score of buying the page's product with its chosen options."""
        return reward.score_purchase(goal, match, self._options(goal.options, page.options))

    def _product(self, page: Page) -> Product:
        return self.catalogue.products[page.product]

    def _build_body(self, page: Page) -> Body:
        if page.kind in {"index", "done"}:
            return Body((), ("search",) if page.kind == "index" else ())
        if page.kind == "results":
            elements = pages.build_results(
                page,
                self.catalogue.search(page.query),
                self.catalogue.products,
                bounded=self.strict,
            )
        elif page.kind == "item":
            elements = pages.build_item(
                page, self._product(page), attributes=self.attributes, exact=self.strict
            )
        else:
            elements = pages.build_tab(page, self._product(page))
        clicks = pages.list_clicks([*pages.build_head(""), *elements])
        offered = (text for text in clicks if is_clickable(text, strict=self.strict))
        return Body(tuple(elements), tuple(offered))

    def _click(self, page: Page, session: str, text: str) -> Page:
        if text == pages.BACK.lower():
            return Page()
        if text == pages.BUY.lower():
            return page._replace(kind="done")
        if text in {pages.NEXT.lower(), pages.PREVIOUS.lower()}:
            return self._turn(page, session, forward=text == pages.NEXT.lower())
        if page.kind == "results":
            return page.open_product(self.catalogue.place[text])
        sub = next((sub for sub in pages.SUB_PAGES if sub.lower() == text), None)
        if sub:
            return page._replace(kind="sub", sub=sub)
        return page.choose(self._find_option(page, text), text)

    def _turn(self, page: Page, session: str, *, forward: bool) -> Page:
        """The page after or before this one.

        The public WebShop determines the kind of a page by searching for names of pages in its
        address, which also contains the query.
        """
        kind = page.kind
        if not self.strict:
            names = {"search_results": "results", "item_page": "item", "item_sub_page": "sub"}
            address = self.write_address(page, session)
            kind = next(of for name, of in names.items() if name in address)
        if kind == "results":
            return page.show_results(page.number + (1 if forward else -1))
        if kind == "sub":
            return page._replace(kind="item", sub="")
        return page.show_results(page.number)

    def _find_option(self, page: Page, value: str) -> str:
        """The option that a chosen value belongs to.

        If several options have that value, the public WebShop always takes the last. In "strict"
        it is the first without a choice, or else the first with another choice.
        """
        options, chosen = self._product(page).options, dict(page.options)
        names = [name for name, values in options.items() if value in values]
        if not self.strict:
            return names[-1]
        open_names = [n for n in names if n not in chosen]
        return [*open_names, *(n for n in names if chosen.get(n) != value), *names][0]


def parse_action(action: str, *, strict: bool) -> tuple[str, str]:
    """Name and lower-case argument of an action, ("", "") for any other text.

    Two actions in one text are not an action.
    """
    found = _STRICT.fullmatch(action) if strict else _UPSTREAM.match(action)
    if found is None or found[1] not in {"search", "click"}:
        return "", ""
    if strict and _SECOND.search(found[2]):
        return "", ""
    argument = found[2].strip() if strict else found[2]
    return (found[1], argument.lower()) if argument else ("", "")


def is_clickable(text: str, *, strict: bool) -> bool:
    """Whether an action can name a text of a page: an option may be empty, or have brackets."""
    action, named = f"click[{text}]", text.strip() if strict else text
    is_read = parse_action(action, strict=strict) == ("click", named)
    return is_read and len(action) <= ACTION_LENGTH and (strict or text != "search")


@lru_cache(maxsize=4)
def open_shop(
    catalogue: Catalogue, kind: str, strict: bool, price_seed: int, attributes: bool
) -> Shop:
    """The shop of a catalogue and rules, cached."""
    return Shop(catalogue, kind=kind, strict=strict, price_seed=price_seed, attributes=attributes)


def mark_unmet(goals: Sequence[Goal], products: Sequence[Product]) -> list[Goal]:
    """The goals with their products' names of options, and with the unmet requirements."""
    found = []
    for goal in goals:
        product = products[goal.product]
        options, lacking = find_choices(goal, product)
        unmet = [f"option {value!r}" for value in lacking]
        unmet += [f"attribute {one!r}" for one in goal.attributes if not states(product, one)]
        found.append(replace(goal, options=options, unmet=tuple(unmet)))
    return found


def find_choices(goal: Goal, product: Product) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """Option and value of each choice that a goal requires, and values that cannot be chosen.

    A value cannot be chosen if the product does not offer it, or not together with the others, or
    if it is the text of a button.
    """
    chosen: dict[str, str] = {}
    lacking = []
    for name, value in goal.options:
        found = (name, value) if name else _find_offer(product, value)
        free = found and chosen.get(found[0], found[1]) == found[1]
        if found and free and found[1] not in _BUTTONS and is_clickable(found[1], strict=True):
            chosen[found[0]] = found[1]
        else:
            lacking.append(value)
    return tuple(chosen.items()), lacking


def _find_offer(product: Product, value: str) -> tuple[str, str] | None:
    """The option and value of a product for a requested value."""
    wanted = value.replace("/", " | ").lower().split()
    offers = ((name, offer) for name, values in product.options.items() for offer in values)
    return next((offer for offer in offers if offer[1].split() == wanted), None)
