"""Players for the audits of Sotopia-v1: an actor that revisits states, and non-solvers.

They see only what an agent sees. None of the non-solvers reads what the partner says: they concede
from their own goal, take what is offered, or offer at random.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium as gym

    Actor = Callable[[str, dict[str, Any]], str]

_LEAVES, _IDLES, _OFFERS = 0.02, 0.2, 3
_IDLE = ("Hm.", "I see.", '{"accept": false}', '{"offer": {"price": -1}}', '{"ask": "wine"}', "")
_OPTIONS = re.compile(r"([\w:-]+) (\d+)(?=[,;.])")
_MOST = 400  # offers that a player considers


def actions(env: gym.Env[Any, Any], rng: np.random.Generator) -> Actor:
    """An actor that asks, offers a few deals and idles, in any order."""
    del env
    chosen: list[str] = []

    def act(observation: str, info: dict[str, Any]) -> str:
        if not chosen:
            offers = list_offers(observation, info["goal"])
            places = range(0, len(offers), max(1, len(offers) // _OFFERS))
            chosen.extend(_offer(offers[place]) for place in places)
            chosen.extend(json.dumps({"ask": topic}) for topic in _list_topics(observation))
        if rng.random() < _LEAVES:
            return '{"leave": true}'
        if rng.random() < _IDLES:
            return str(rng.choice(_IDLE))
        return chosen[int(rng.integers(len(chosen)))]

    return act


def _concede(first: float, last: float, *, asks: bool) -> Callable[[np.random.Generator], Actor]:
    """A player that offers what leaves it these shares of its wishes, asking first or not."""

    def begin(rng: np.random.Generator) -> Actor:
        offers: list[dict[str, Any]] = []
        topics: list[str] = []
        made = 0

        def act(observation: str, info: dict[str, Any]) -> str:
            nonlocal made
            if not offers:
                offers.extend(list_offers(observation, info["goal"]))
                topics.extend(_list_topics(observation) if asks else ())
            if topics:
                return json.dumps({"ask": topics.pop()})
            share = (first, last)[min(made, 1)]
            made += 1
            place = int((1 - share) * (len(offers) - 1))
            near = offers[max(0, place - 2) : place + 3]
            return _offer(near[int(rng.integers(len(near)))])

        return act

    return begin


def _say(lines: Sequence[str]) -> Callable[[np.random.Generator], Actor]:
    """A player that makes these acts in order, the last one again and again."""

    def begin(rng: np.random.Generator) -> Actor:
        del rng
        return lambda _, info: lines[min(int(info["turn"]), len(lines) - 1)]

    return begin


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "wishes": _concede(1.0, 0.9, asks=False),
    "concedes": _concede(0.85, 0.7, asks=False),
    "yields": _concede(0.6, 0.4, asks=False),
    "asks, does not read": _concede(0.8, 0.6, asks=True),
    "accepts": _say(("Good day.", '{"accept": true}', '{"leave": true}')),
}
"""Players that ignore what the partner says: they read their own goal, or say fixed lines."""


def _offer(terms: dict[str, Any]) -> str:
    return json.dumps({"offer": terms})


def _list_topics(observation: str) -> list[str]:
    """What can be asked about, of a first observation."""
    found = re.search(r'"ask": "[^"]+"} \(([^)]+)\)', observation)
    return found[1].split(", ") if found else []


def list_offers(observation: str, goal: str) -> list[dict[str, Any]]:
    """The possible offers of a first observation, those best for the agent first."""
    worth = {name: int(points) for name, points in _OPTIONS.findall(goal)}
    valued: Iterator[tuple[float, dict[str, Any]]]
    if "keep" in observation:
        return _list_shares(observation, worth)
    if '"price"' in observation:
        valued = _list_prices(goal)
    elif '"friend"' in observation:
        valued = ((0, {"friend": name}) for name in re.findall(r": (\w+)(?=[;.])", goal))
    else:
        issues = re.findall(r"(\w+): ([^;]+?)(?=;|\.$)", goal.partition("points: ")[2])
        names = [name for name, _ in issues]
        options = [re.findall(r"([\w:-]+) \d+", listed) for _, listed in issues]
        points = {
            one: int(n) for _, listed in issues for one, n in re.findall(r"([\w:-]+) (\d+)", listed)
        }
        valued = (
            (sum(points[one] for one in some), dict(zip(names, some, strict=True)))
            for some in product(*options)
        )
    ranked = [terms for _, terms in sorted(valued, key=lambda one: -one[0])]
    return ranked[:: max(1, len(ranked) // _MOST)]


def _list_shares(observation: str, worth: dict[str, int]) -> list[dict[str, Any]]:
    """Shares of things, those best for the agent first: of hundreds of thousands, `_MOST`."""
    names, totals = zip(*re.findall(r'"(\w+)": <0 to (\d+)>', observation), strict=True)
    counts = np.indices([int(total) + 1 for total in totals]).reshape(len(names), -1)
    values = np.array([worth[name] for name in names]) @ counts
    ranked = np.argsort(-values, kind="stable")
    chosen = counts[:, ranked[:: max(1, len(ranked) // _MOST)]].T.tolist()
    return [{"keep": dict(zip(names, some, strict=True))} for some in chosen]


def _list_prices(goal: str) -> Iterator[tuple[float, dict[str, Any]]]:
    """Prices and extras with a gain, by the goal of a buyer."""
    limit, *worths = map(int, re.findall(r"\$(\d+)", goal))
    extras = re.findall(r"the (\w[\w-]*) \$", goal)
    for taken in product((0, 1), repeat=len(extras)):
        total = limit + sum(map(int.__mul__, worths, taken))
        chosen = [name for name, one in zip(extras, taken, strict=True) if one]
        for price in range(total // 4, total, 4):
            yield total - price, {"price": price} | ({"with": chosen} if extras else {})
