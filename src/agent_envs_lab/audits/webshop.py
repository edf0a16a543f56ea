"""Players for the audits of WebShop: an actor that revisits pages, and non-solvers.

They see only what an agent sees, and need `observation="text"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SEPARATOR, SUB_PAGES

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np

Actor: TypeAlias = Callable[[str, dict[str, Any]], str]

ODD = (
    "search[]",
    "click[]",
    "click[nothing]",
    "click[search]",
    "click[next >",
    "buy now",
    "",
    "Search[shoe]",
    " click[< prev] ",
    "search[shoe] now",
    "click[Buy Now] please",
    "search[<r>]",
    "search[item_page]",
    "search[?!]",
    "search[search_results/1]",
)
_BUTTONS = frozenset(f"click[{text.lower()}]" for text in (BACK, NEXT, PREVIOUS, BUY, *SUB_PAGES))
_BUY = f"click[{BUY.lower()}]"
_CLICKS = 2  # clicks on a product's page
_PRICE = re.compile(r"\$(\d+(?:\.\d+)?)")
LIMIT = 0.2  # below the limit, one product of eight is right
_LIMIT = re.compile(r"(?:price lower than |\$)(\d+(?:\.\d+)?)")


def actions(env: gym.Env[Any, Any], rng: np.random.Generator) -> Actor:
    """The actor of an episode for the anchor audit: few searches, many returns, odd actions."""
    del env

    def act(_: str, info: dict[str, Any]) -> str:
        words = info["goal"].split()
        clicks: list[str] = [a for a in info["admissible_actions"] if a.startswith("click")]
        queries = (words, words, words[:4], ["item_page"])
        search = f"search[{' '.join(queries[int(rng.integers(len(queries)))])}]"
        draw = rng.random()
        if draw < 1 / 8:
            return str(rng.choice(ODD))
        if not clicks or draw < 1 / 5:  # also on pages without a search bar
            return search
        if draw < 1 / 3:
            return f"click[{str(rng.choice([BACK, PREVIOUS, NEXT])).lower()}]"
        if draw < 1 / 2:  # a product at the top of the list, or an option
            return next((action for action in clicks if action not in _BUTTONS), clicks[0])
        return str(rng.choice(clicks))

    return act


def _first(rng: np.random.Generator) -> Actor:
    """Searches for the instruction, opens the first result, buys."""
    return _shopper(rng, within=False, options=False)


def _first_with_options(rng: np.random.Generator) -> Actor:
    """As `_first`, but clicks the option values in the instruction."""
    return _shopper(rng, within=False, options=True)


def _reads_no_page(rng: np.random.Generator) -> Actor:
    """Searches, opens the first result within the limit, clicks the values in the goal, buys."""
    return _shopper(rng, within=True, options=True)


def _same_for_all(_: np.random.Generator) -> Actor:
    """Searches for "a", opens the first result, buys, regardless of the goal."""

    def act(_: str, info: dict[str, Any]) -> str:
        offered = info["admissible_actions"]
        if _BUY in offered:
            return _BUY
        return next((action for action in offered if _product(action)), "search[a]")

    return act


def _any_result(rng: np.random.Generator) -> Actor:
    """Searches for the instruction, opens any result, clicks any values, buys."""
    clicked = 0

    def act(_: str, info: dict[str, Any]) -> str:
        nonlocal clicked
        offered = info["admissible_actions"]
        choices: list[str] = [action for action in offered if _product(action)]
        if _BUY in offered:
            clicked += 1
            return str(rng.choice(choices)) if choices and clicked <= _CLICKS else _BUY
        return str(rng.choice(choices)) if choices else f"search[{info['goal']}]"

    return act


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "the same for every task": _same_for_all,
    "any result, any options": _any_result,
    "first result": _first,
    "first result, options named": _first_with_options,
    "first result within the limit, options named": _reads_no_page,
}


def _shopper(_: np.random.Generator, *, within: bool, options: bool) -> Actor:
    """A rule that reads the list of results and the texts of buttons, but no product page."""
    values: list[str] = []

    def act(observation: str, info: dict[str, Any]) -> str:
        goal, offered = info["goal"].lower(), info["admissible_actions"]
        if _BUY in offered:
            if not values:
                values.extend(_find_named(goal, [a[6:-1] for a in offered if _product(a)]))
                values.append(BUY.lower())
            return f"click[{values.pop(0)}]" if options else _BUY
        products = [action for action in offered if _product(action)]
        if not products:
            return f"search[{info['goal']}]"
        limit = _LIMIT.search(goal)
        prices = _prices(observation) if within and limit else {}
        most = float(limit[1]) if limit else 0.0
        return next((str(p) for p in products if prices.get(p, 0.0) < most), products[0])

    return act


def _product(action: str) -> bool:
    """Whether an action is a click on a product, or on an option's value."""
    return action.startswith("click[") and action not in _BUTTONS


def _find_named(goal: str, values: list[str]) -> list[str]:
    """The values in a goal, the longest first; each word of the goal is used once."""
    found = []
    for value in sorted(values, key=lambda value: (-len(value), value)):
        place = re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", goal)
        if place:
            found.append(value)
            goal = f"{goal[: place.start()]}\n{goal[place.end() :]}"
    return found


def _prices(observation: str) -> dict[str, float]:
    """The highest displayed price of each listed product, by the click that opens it."""
    texts = observation.split(SEPARATOR)
    found = {}
    for asin, price in zip(texts, texts[2:], strict=False):
        tags = _PRICE.findall(price)
        if tags and price.startswith("$"):
            found[f"click[{asin.lower()}]"] = max(map(float, tags))
    return found
