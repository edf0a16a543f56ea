"""A shopper that knows only what pages show, and demonstrations with slips in them.

It searches for the product and the attributes asked for, opens what is of the kind and within the
limit, chooses the options and buys; where an option is missing it goes back to the next. It does
not read descriptions. Written for the embedded catalogue, whose titles name the kind of product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agent_envs.webshop import pages
from agent_envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.products import Product
    from agent_envs.webshop.shop import Shop

OTHER, SEEN, DEAR, GOOD = "is another", "is known", "is too dear", "is good"
"""What a product of a list can be: of another kind, seen, above the limit, or worth a look."""


class Shown(NamedTuple):
    """One turn: what was seen, what was done and why, whether it was a slip."""

    observation: str
    action: str
    thought: str
    slip: bool


class Shopper:
    """One trip through a shop: `act(page)` says what to do and why.

    Args:
        shop: Where it shops.
        goal: What it is asked for; of its product it knows the kind, which the text names.
        hasty: Buys the first that is of the kind and within the limit, with one option at most.
    """

    def __init__(self, shop: Shop, goal: Goal, *, hasty: bool = False) -> None:
        self.shop, self.goal, self.hasty = shop, goal, hasty
        self.kind = shop.catalogue.products[goal.product].query
        self.options = goal.options[:1] if hasty else goal.options
        self.seen: set[int] = set()  # products that have not got what is asked for

    def act(self, page: Page) -> tuple[str, str]:
        """The next action and the thought behind it."""
        if page.kind == "index":
            return f"search[{' '.join([self.kind, *self.goal.attributes])}]", self.kind
        if page.kind == "results":
            return self.pick(page, self.shop.catalogue.search(page.query))
        if page.kind == "sub":
            return _click(PREVIOUS), "that says nothing"
        return self._decide(page)

    def _decide(self, page: Page) -> tuple[str, str]:
        """What to do with the product that the page shows."""
        product = self.shop.catalogue.products[page.product]
        if not self._offers(product):
            self.seen.add(page.product)
            return _click(PREVIOUS), "not this one"
        missing = self._missing(page, product)
        if missing:
            return _click(missing[1]), " ".join(missing)
        return _click(BUY), "all is as asked"

    def pick(self, page: Page, results: Sequence[int]) -> tuple[str, str]:
        """The first product of the kind that is within the limit and not known to be wrong.

        The thought goes through the list in its order, as far as what is chosen.
        """
        thoughts = [f"{self.kind} under ${self.goal.price_upper:.0f}"]
        for place in pages.listed(results, page.number):
            product = self.shop.catalogue.products[place]
            verdict = self._verdict(place, product)
            price = f" ${int(product.prices[0])}" if verdict in (DEAR, GOOD) else ""
            thoughts.append(f"{product.asin}{price} {verdict}".lower())
            if verdict == GOOD:
                return _click(product.asin), "; ".join(thoughts)
        if page.number * pages.PER_PAGE < len(results) or not self.shop.strict:
            return _click(NEXT), "; ".join(thoughts)
        return _click(BACK), "; ".join(thoughts)

    def _verdict(self, place: int, product: Product) -> str:
        """What a product of the list is to the shopper."""
        if self.kind not in product.title.lower():
            return OTHER
        if place in self.seen:
            return SEEN
        return GOOD if product.highest < self.goal.price_upper else DEAR

    def _missing(self, page: Page, product: Product) -> tuple[str, str] | None:
        """The next option to choose of those that the product has."""
        for name, value in self.options:
            if (name, value) not in page.options and value in product.options.get(name, ()):
                return name, value
        return None

    def _offers(self, product: Product) -> bool:
        offered = product.options
        return self.hasty or all(value in offered.get(name, ()) for name, value in self.options)


def demonstration(
    shop: Shop,
    goal: Goal,
    rng: np.random.Generator,
    *,
    slips: float = 0.1,
    hasty: bool = False,
    max_turns: int = 15,
) -> Iterator[Shown]:
    """A trip to its purchase, with slips, which are random clicks that buy nothing.

    Raises:
        ValueError: `slips` outside [0, 1).
    """
    if not 0 <= slips < 1:
        raise ValueError(f"slips is a share of turns and must lie in [0, 1), got {slips}")
    shopper, page = Shopper(shop, goal, hasty=hasty), Page()
    for _ in range(max_turns):
        seen = pages.as_text(shop.elements(page, goal.text), marked=shop.strict)
        action, thought = shopper.act(page)
        others = [t for t in shop.body(page).clickable if t not in {"search", BUY.lower()}]
        slip = bool(others) and rng.random() < slips
        if slip:
            action = _click(others[int(rng.integers(len(others)))])
        yield Shown(seen, action, thought, slip)
        page, _ = shop.follow(page, "", *shop.parse(action))
        if page.kind == "done":
            return


def _click(text: str) -> str:
    return f"click[{text.lower()}]"
