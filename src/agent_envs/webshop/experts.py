"""The experts of WebShop: an Explorer that reads pages, an Oracle that knows the target product.

The Explorer is written for the embedded catalogue, whose requests begin with the kind of product
and whose titles contain it. It does not read features and descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.experts import playing
from agent_envs.webshop import pages
from agent_envs.webshop.env import WebShop
from agent_envs.webshop.goals import NO_LIMIT
from agent_envs.webshop.pages import BACK, BUY, NEXT, PER_PAGE, PREVIOUS, Page
from agent_envs.webshop.shop import find_choices

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.webshop.catalogue import Product
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.shop import Shop

OTHER, SEEN, DEAR, GOOD = "is another", "is known", "is too dear", "is good"
"""Judgements of a listed product: another kind, seen, above the limit, or a candidate."""
_REQUEST = re.compile(
    r"(?:find me|i am looking for|i need|show me) (?P<kind>[^,]+?)(?: that are|,) "
    r"(?P<attributes>.+?)(?: with (?P<options>\w+: .+?))?"
    r"(?:, and price lower than (?P<limit>\d+\.\d\d) dollars)?"
)


class Step(NamedTuple):
    """An action and its reason in a few words."""

    action: str
    thought: str


class Request(NamedTuple):
    """A parsed request of the embedded catalogue; the limit is in dollars."""

    kind: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    limit: float


def read_request(text: str) -> Request:
    """Parse the text of a request.

    Raises:
        ValueError: its wording is not one of the embedded catalogue.
    """
    found = _REQUEST.fullmatch(text)
    if found is None:
        raise ValueError(
            "the Explorer of WebShop only reads requests of data='embedded', got "
            f"{text!r:.200}; use the Oracle"
        )
    options = tuple(re.findall(r"(\w+): (.+?)(?:, and |$)", found["options"] or ""))
    attributes = tuple(found["attributes"].split(" and "))
    return Request(found["kind"], attributes, options, float(found["limit"] or NO_LIMIT))


class Oracle:
    """Searches for the request, turns pages to the target product, chooses options and buys.

    If the request does not find the product, it searches for its title.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, WebShop)

    def act(self) -> str:
        """The next action; nothing is done."""
        return self._plan().action

    def think(self) -> str:
        """The reason for the next action."""
        return self._plan().thought

    def _plan(self) -> Step:
        env = self._env
        step = plan_step(env.shop, env.task, env.page)
        same = env.trail[-2:] == [env.page] * 2 and env.transcript[-1][0] == step.action
        if same and env.page.product >= 0:  # in "upstream" two options can share a value
            return Step(_click(BUY), "nothing else can be chosen")
        return step


class Explorer(Oracle):
    """A `Shopper` that has seen all pages of the episode, including those opened by others.

    Raises:
        ValueError: the request is not one of the embedded catalogue.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._shopper = Shopper(self._env.shop, read_request(self._env.goal))

    def _plan(self) -> Step:
        return self._shopper.take_step(self._env.trail)


class Shopper:
    """Uses only the pages shown: opens products of the kind within the limit, chooses, buys.

    If an option is missing it goes back to the next product of the list.
    """

    def __init__(self, shop: Shop, request: Request) -> None:
        self.shop, self.request = shop, request

    def take_step(self, trail: Sequence[Page]) -> Step:
        """The step on the last of these pages, given the pages before it."""
        page, request = trail[-1], self.request
        if page.kind == "index":
            return Step(f"search[{' '.join([request.kind, *request.attributes])}]", request.kind)
        if page.kind == "results":
            seen = {one.product for one in trail if one.kind == "item" and not self._offers(one)}
            return self.pick_product(page, self.shop.catalogue.search(page.query), seen)
        if page.kind == "sub":
            return Step(_click(PREVIOUS), "that says nothing")
        if not self._offers(page):
            return Step(_click(PREVIOUS), "not this one")
        missing = self._find_missing(page)
        if missing:
            return Step(_click(missing[1]), " ".join(missing))
        return Step(_click(BUY), "all is as asked")

    def pick_product(self, page: Page, results: Sequence[int], seen: set[int]) -> Step:
        """A click on the first unseen product of the kind within the limit.

        The thought judges the products of the list in order, up to the chosen one.
        """
        thoughts = [f"{self.request.kind} under ${self.request.limit:.0f}"]
        for place in pages.slice_results(results, page.number):
            product = self.shop.catalogue.products[place]
            verdict = self._judge_product(product, seen=place in seen)
            price = f" ${int(product.prices[0])}" if verdict in (DEAR, GOOD) else ""
            thoughts.append(f"{product.asin}{price} {verdict}".lower())
            if verdict == GOOD:
                return Step(_click(product.asin), "; ".join(thoughts))
        more = page.number * PER_PAGE < len(results) or not self.shop.strict
        return Step(_click(NEXT if more else BACK), "; ".join(thoughts))

    def _judge_product(self, product: Product, *, seen: bool) -> str:
        """The judgement of a listed product."""
        if self.request.kind not in product.title.lower():
            return OTHER
        if seen:
            return SEEN
        return GOOD if product.highest < self.request.limit else DEAR

    def _find_missing(self, page: Page) -> tuple[str, str] | None:
        """The next option to choose, of those that the product has."""
        offered = self._find_product(page).options
        for name, value in self.request.options:
            if (name, value) not in page.options and value in offered.get(name, ()):
                return name, value
        return None

    def _offers(self, page: Page) -> bool:
        offered = self._find_product(page).options
        return all(value in offered.get(name, ()) for name, value in self.request.options)

    def _find_product(self, page: Page) -> Product:
        return self.shop.catalogue.products[page.product]


def plan_step(shop: Shop, goal: Goal, page: Page) -> Step:
    """The Oracle's step on a page."""
    product = shop.catalogue.products[goal.product]
    if page.product == goal.product:
        if page.kind == "sub":
            return Step(_click(PREVIOUS), "back to the product")
        missing = [one for one in find_choices(goal, product)[0] if one not in page.options]
        click, thought = BUY, "all is as asked"
        for name, value in missing[:1]:
            click, thought = value, f"{name} should be {value}"
        return Step(_click(click), thought)
    if page.kind == "index":
        query = " ".join(goal.text.split())
        if goal.product not in shop.catalogue.search(query.lower()):
            query = " ".join(product.title.split())
        return Step(f"search[{query}]", "search for what is asked")
    results = shop.catalogue.search(page.query)
    if page.product >= 0 or goal.product not in results:
        return Step(_click(BACK), "not this one")
    wanted = results.index(goal.product) // PER_PAGE + 1
    if wanted != page.number:
        return Step(_click(NEXT if wanted > page.number else PREVIOUS), "look on another page")
    return Step(_click(product.asin), "this one looks right")


def _click(text: str) -> str:
    return f"click[{text.lower()}]"
