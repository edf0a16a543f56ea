"""The Oracle of both shops, which knows the product of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import Planner, Step, playing
from agent_envs.webshop.env import Shopping
from agent_envs.webshop.pages import BACK, BUY, NEXT, PER_PAGE, PREVIOUS

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.webshop.catalogue import Product
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.pages import Page
    from agent_envs.webshop.shop import Shop


class Oracle(Planner):
    """Searches for the request, turns pages to the target product, chooses options and buys.

    If the request does not find the product, it searches for its title.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Shopping)

    def plan(self) -> Step:
        """The next step; nothing is done."""
        env = self._env
        step = plan_step(env.shop, env.task, env.page)
        same = env.trail[-2:] == [env.page] * 2 and env.transcript[-1][0] == step.action
        if same and env.page.product >= 0:  # two public options can share a value
            return click(BUY, "nothing else can be chosen")
        return step


def plan_step(shop: Shop, goal: Goal, page: Page) -> Step:
    """The Oracle's step on a page."""
    product = shop.products[goal.product]
    if page.product == goal.product:
        if page.kind == "sub":
            return click(PREVIOUS, "back to the product")
        offers = (
            (name, value) if name else _find_offer(product, value) for name, value in goal.options
        )
        missing = (one for one in offers if one and one not in page.options)
        chosen = next((one for one in missing if _can_choose(shop, page, one[1])), None)
        name, text = chosen or ("", BUY)
        return click(text, f"{name} should be {text}" if chosen else "all is as asked")
    if page.kind == "index":
        query = " ".join(goal.text.split())
        if goal.product not in shop.search(query.lower()):
            query = " ".join(product.title.split())
        return Step(f"search[{query}]", "search for what is asked")
    results = shop.search(page.query)
    if page.product >= 0 or goal.product not in results:
        return click(BACK, "not this one")
    wanted = results.index(goal.product) // PER_PAGE + 1
    if wanted != page.number:
        return click(NEXT if wanted > page.number else PREVIOUS, "look on another page")
    return click(product.asin, "this one looks right")


def click(text: str, thought: str) -> Step:
    """A click and its reason."""
    return Step(f"click[{text.lower()}]", thought)


def _can_choose(shop: Shop, page: Page, value: str) -> bool:
    """Whether a click on a value chooses it: it can be named, and is no button."""
    clicked, why = shop.follow(page, "0", "click", value)
    return not why and (clicked.kind, clicked.sub) == ("item", "")


def _find_offer(product: Product, value: str) -> tuple[str, str] | None:
    """The option and value of a product for a requested value."""
    wanted = value.replace("/", " | ").lower().split()
    offers = ((name, offer) for name, values in product.options.items() for offer in values)
    return next((offer for offer in offers if offer[1].split() == wanted), None)
