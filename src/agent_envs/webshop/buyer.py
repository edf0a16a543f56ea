"""A scripted buyer that knows which product a goal was made of, for demonstrations and bounds.

It searches for the instruction, turns pages to the product, opens it, chooses its options and buys;
where the instruction does not find the product, it searches for its title. Left out: looking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from agent_envs.webshop.pages import BACK, BUY, NEXT, PER_PAGE, PREVIOUS, Page
from agent_envs.webshop.shop import choices

if TYPE_CHECKING:
    from typing import Any

    import gymnasium as gym

    from agent_envs.webshop.env import WebShop
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.shop import Shop


class Step(NamedTuple):
    """An action and what it is for, in a few words."""

    action: str
    thought: str


class Buyer:
    """The buyer in one episode: `act()` says what to do next, `think()` why."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = cast("WebShop", env.unwrapped)

    def act(self) -> str:
        """The next action; nothing is done."""
        return self._next().action

    def think(self) -> str:
        """What the next action is for."""
        return self._next().thought

    def _next(self) -> Step:
        return next_step(self._env.shop, self._env.task, self._env.page)


def explorer(env: gym.Env[Any, Any]) -> Buyer:
    """The buyer for the episode under way."""
    return Buyer(env)


def oracle(env: gym.Env[Any, Any]) -> list[str]:
    """All actions that the buyer would do from here to the purchase.

    Where no search finds the product they end without one.
    """
    web = cast("WebShop", env.unwrapped)
    page, actions, seen = web.page, list[str](), set[Page]()
    while page.kind != "done":
        again = page in seen  # in "upstream" one value can stand for two options
        if again and page.product < 0:
            break
        action = _click(BUY) if again else next_step(web.shop, web.task, page).action
        actions.append(action)
        seen.add(page)
        page, _ = web.shop.follow(page, "", *web.shop.parse(action))
    return actions


def next_step(shop: Shop, goal: Goal, page: Page) -> Step:
    """What the buyer does on a page."""
    if page.product == goal.product:
        if page.kind == "sub":
            return Step(_click(PREVIOUS), "back to the product")
        return _choose(shop, goal, page)
    if page.kind == "index":
        return _search(shop, goal)
    results = shop.catalogue.search(page.query)
    if page.product >= 0 or goal.product not in results:
        return Step(_click(BACK), "not this one")
    wanted = results.index(goal.product) // PER_PAGE + 1
    if wanted != page.number:
        return Step(_click(NEXT if wanted > page.number else PREVIOUS), "look on another page")
    product = shop.catalogue.products[goal.product]
    return Step(_click(product.asin), "this one looks right")


def _search(shop: Shop, goal: Goal) -> Step:
    query = " ".join(goal.text.split())
    if goal.product not in shop.catalogue.search(query.lower()):
        query = " ".join(shop.catalogue.products[goal.product].title.split())
    return Step(f"search[{query}]", "search for what is asked")


def _choose(shop: Shop, goal: Goal, page: Page) -> Step:
    product = shop.catalogue.products[goal.product]
    for name, value in choices(goal, product)[0]:
        if (name, value) not in page.options:
            return Step(_click(value), f"{name} should be {value}")
    return Step(_click(BUY), "all is as asked")


def _click(text: str) -> str:
    return f"click[{text.lower()}]"
