"""Players for the audits of Sotopia-v0: actors that revisit states, and non-solvers.

They see only what an agent sees. `deaf` reads its own goal and concedes step by step, ignoring the
other side; the other non-solvers do not even read their goal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium as gym

    Actor = Callable[[str, dict[str, Any]], str]
    Valued = tuple[dict[str, Any], float]

_POOL, _CHOICES = 6, 3  # number of an actor's lines, and of offers among them
_LEAVES, _IDLES = 0.02, 0.35
_LINES = (
    "Hm.", "I see.", "Well, well.", "Thank you, that is kind.", "What matters to you?",
    "I ask for it because my old one broke last week.", "Agreed.", "Yes.", "No, thanks.", "Maybe.",
    "Yes, but not today.", "I take that back.", "You are an idiot.", "Do you know Anouk?",
    "[action] nods", "did nothing", "I have a meeting on Monday at 9:00 since last year.",
)  # fmt: skip
_FIELDS = (
    '{"action_type": "speak", "argument": "So be it.", "accept": true}',
    '{"action_type": "speak", "argument": "Rather not.", "accept": false}',
)
_NO_ACTS = (  # invalid acts, which the other does not notice
    '{"action_type": "speak", "argument": "Hm.", "offer": {"price": -1}}',
    '{"action_type": "sing", "argument": "La."}',
    "",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_HOURS = (9, 11, 13, 15, 17)
_FORM = re.compile(r'"offer": (.*)}, or "accept"')
_CLOCK = re.compile(r"(\w+day) at (\d+):00")
_FIRST, _LAST, _STEPS = 1.0, 0.62, 4
_REASONS = (
    "I ask for it because it means a lot to me, thank you.",
    "You would help me since my week was hard.",
    "I cannot do more because my means are small.",
    "Please think about it because I like to settle things.",
)
_BEYOND = 200  # most amounts considered between limit and target


def actions(env: gym.Env[Any, Any], rng: np.random.Generator) -> Actor:
    """An actor that uses a small set of lines per task, in any order.

    Two episodes of a task often reach the same state in different ways: lines in another order,
    idle acts in between, offers that are made and withdrawn.
    """
    del env
    chosen: list[str] = []

    def act(observation: str, info: dict[str, Any]) -> str:
        if not chosen:
            offers = [offer for offer, _ in _value_offers(observation, info["goal"])]
            places = [len(offers) * part // _CHOICES for part in range(_CHOICES)] if offers else []
            chosen.extend(_offering(offers[place]) for place in places)
            chosen.extend(f"What about ${n}?" for n in _dollars(info["goal"])[:1])
            own = np.random.default_rng(list(info["task_id"].encode()))
            chosen.extend(own.choice(_LINES, _POOL - len(chosen), replace=False).tolist())
            chosen.append(str(own.choice(_FIELDS)))
        if rng.random() < _LEAVES:
            return "left the conversation"
        if rng.random() < _IDLES:
            return str(rng.choice(_NO_ACTS))
        return chosen[int(rng.integers(len(chosen)))]

    return act


def deaf(rng: np.random.Generator) -> Actor:
    """Offers its best deal first, 0.62 of its target from the fourth on, with fixed reasons.

    It reads its own goal and the form of an offer, but nothing of the other side.
    """
    del rng
    made: list[dict[str, Any]] = []
    known: list[Valued] = []

    def act(observation: str, info: dict[str, Any]) -> str:
        known.extend([] if known else _value_offers(observation, info["goal"]))
        aim = max(_LAST, _FIRST - len(made) * (_FIRST - _LAST) / (_STEPS - 1))
        fitting = [one for one in known if one[1] >= aim and one[0] not in made]
        if not fitting:
            return f"Let us agree on something good. That is number {info['turn']}."
        reason = _REASONS[len(made)] if len(made) < _STEPS else ""
        made.append(min(fitting, key=lambda one: one[1])[0])
        return _offering(made[-1], reason)

    return act


def _saying(lines: tuple[str, ...]) -> Callable[[np.random.Generator], Actor]:
    """A player that says these lines in order, numbered so that none is a repetition."""

    def begin(rng: np.random.Generator) -> Actor:
        del rng

        def act(observation: str, info: dict[str, Any]) -> str:
            del observation
            turn = int(info["turn"])
            return lines[min(turn, len(lines) - 1)].format(turn=turn, goal=info["goal"])

        return act

    return begin


def _accepting(word: str) -> str:
    return f'{{{{"action_type": "speak", "argument": "{word} {{turn}}", "accept": true}}}}'


_PLEASE = "Thank you, I ask for it because it means so much to me, please? I say it {turn} times."
NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "deaf": deaf,
    "leave": _saying(("left the conversation",)),
    "accept": _saying(("Good day.", _accepting("Agreed."))),
    "courtesy": _saying((*[_PLEASE] * 3, _accepting("Agreed."))),
    "courtesy only": _saying((_PLEASE,)),
    "goal": _saying(("{goal}", "{goal} {turn}")),
}
"""Players that ignore the other side: one reads its own goal, the others say fixed lines."""


def _offering(offer: dict[str, Any], reason: str = "") -> str:
    words = ", ".join(f"{name} {value}" for name, value in offer.items())
    said = f"{reason} My offer: {words}.".strip()
    return json.dumps({"action_type": "speak", "argument": said, "offer": offer})


def _dollars(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\$(\d+)", text)]


def _value_offers(observation: str, goal: str) -> list[Valued]:
    """The possible offers by the displayed form, with their values by the goal.

    0 is the limit in the goal and 1 the target.
    """
    form = _FORM.search(observation)
    if form is None:
        return []
    name = re.findall(r"\w+", form[1])[0]
    kinds: dict[str, Callable[[str, str], Iterator[Valued]]] = {
        "price": _amounts, "monthly": _amounts, "keep": _shares, "hours": _favours, "day": _slots,
        "friend": _friends,
    }  # fmt: skip
    return sorted(kinds[name](form[1], goal), key=lambda one: -one[1])


def _amounts(form: str, goal: str) -> Iterator[Valued]:
    limit, hope = _dollars(goal)[-2:]
    name = re.findall(r"\w+", form)[0]
    step = max(1, abs(hope - limit) // _BEYOND) * (1 if hope > limit else -1)
    for amount in range(limit, hope + (1 if step > 0 else -1), step):
        yield {name: amount}, (amount - limit) / (hope - limit)


def _shares(form: str, goal: str) -> Iterator[Valued]:
    totals = {name: int(most) for name, most in re.findall(r'"(\w+)": <0 to (\d+)>', form)}
    worth = {name: int(n) for name, n in re.findall(r"(\w+) (\d+)(?=[,.])", goal) if name in totals}
    for counts in product(*(range(most + 1) for most in totals.values())):
        kept = dict(zip(totals, counts, strict=True))
        points = sum(worth[name] * count for name, count in kept.items())
        yield {"keep": kept}, _share(points, goal)


def _favours(form: str, goal: str) -> Iterator[Valued]:
    words = re.findall(r"\w+", form.rpartition("<")[2])
    price = {word: int(n) for word, n in re.findall(r"(\w+) (\d+)(?=[,.])", goal) if word in words}
    asks = "costs you: " in goal
    for hours, word in product(range(1, 7), words):
        own = 2 * hours - price.get(word, 0) if asks else 3 - hours + price.get(word, 0)
        yield {"hours": hours, "return": word}, _share(own, goal)


def _slots(form: str, goal: str) -> Iterator[Valued]:
    del form
    days = re.findall(r"\w+day", goal.partition("Hours")[0])
    hours = re.findall(r"(\d+):00", goal.partition("Hours")[2].partition("Both")[0])
    busy = set(_CLOCK.findall(goal))
    points = (5, 4, 3, 1, 0)
    for day, hour in product(_DAYS, _HOURS):
        worth = (points[days.index(day)] + points[hours.index(str(hour))]) / 10
        yield {"day": day, "hour": hour}, -1.0 if (day, str(hour)) in busy else worth


def _friends(form: str, goal: str) -> Iterator[Valued]:
    del form
    for name in re.findall(r"(\w+) works at", goal):
        yield {"friend": name}, 0.0


def _share(points: int, goal: str) -> float:
    least, hoped = (int(n) for n in re.findall(r"Fewer than (\d+) .*?(\d+) would", goal)[0])
    return (points - least) / (hoped - least)
