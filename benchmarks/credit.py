"""Time and memory of `credit`: python benchmarks/credit.py [--turns 1000000] [--no-reference].

It prints one table, measured on one thread. Times are CPU time of this process. The reference is
the same formula as public trainers write it, with a dict of lists and a scalar for each row, on the
same batch in the same run. If the two disagree, the benchmark stops. Comparing every pair of texts
by difflib takes minutes; that reference runs on one group. Memory is the peak of a call, divided by
the size of the columns.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import tracemalloc
from collections import defaultdict
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
# This file has the name of the package that it measures.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import credit  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MEMBERS, LENGTH = 8, 50  # rollouts of a task, their turns
THRESHOLD = 0.9  # of similarity
COMPARED = 1024  # trajectories up to which texts are compared
INVALID = 0.2  # share of turns


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--turns", type=int, default=1_000_000, help="turns of the largest batch")
    options.add_argument("--no-reference", action="store_true", help="leave out the reference")
    given = options.parse_args()
    table = Table("trajectories", "method", "seconds", "reference", "ratio", "memory")
    largest = given.turns // LENGTH
    for trajectories in (*(n for n in (MEMBERS, 128, 1024) if n < largest), largest):
        turns = make_turns(trajectories)
        for name, method in methods(trajectories).items():
            plain = None if given.no_reference else reference_of(name, trajectories)
            table.add_row(f"{trajectories:,} x {LENGTH}", name, *row(turns, method, plain))
        table.add_section()
    Console(width=100).print(table)


def row(turns: credit.Turns, method: Any, plain: Callable[..., list[float]] | None) -> list[str]:
    """Cells of a method: seconds, seconds of the reference, their ratio, memory."""
    spent, ours = cpu(lambda: method(turns))
    size = sum(
        getattr(turns, name).nbytes
        for name in turns.__dataclass_fields__
        if isinstance(getattr(turns, name), np.ndarray)
    )
    tracemalloc.start()
    method(turns)
    memory = f"{tracemalloc.get_traced_memory()[1] / size:.1f}x"
    tracemalloc.stop()
    if plain is None:
        return [f"{spent:.4f}", "", "", memory]
    columns = {
        name: column.tolist()
        for name in turns.__dataclass_fields__
        if isinstance(column := getattr(turns, name), np.ndarray)
    }
    slow, theirs = cpu(lambda: plain(columns))
    if not np.allclose(ours, theirs, atol=1e-6):
        raise SystemExit(f"the reference of {method} disagrees with it")
    return [f"{spent:.4f}", f"{slow:.4f}", f"{slow / spent:.1f}", memory]


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, the best of up to three, and its result."""
    best, result = math.inf, None
    for _ in range(3):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
        if best > 1:
            break
    return best, result


def make_turns(trajectories: int) -> credit.Turns:
    """A batch of eight rollouts per task; each task has 200 observations, rooms in words."""
    rng = np.random.default_rng(0)
    total = trajectories * LENGTH
    owner = np.repeat(np.arange(trajectories), LENGTH)
    group = np.arange(trajectories) // MEMBERS
    things = [f"{noun} {k}" for noun in ("mug", "pen", "cd", "book", "lamp") for k in range(1, 5)]
    spots = [f"{noun} {k}" for noun in ("shelf", "drawer", "desk", "cabinet") for k in range(1, 51)]
    seen = rng.integers(0, len(things), (group[-1] + 1, len(spots), 3))
    invalid = rng.random(total) < INVALID
    anchor = []
    for task, spot in zip(group[owner].tolist(), rng.integers(0, len(spots), total), strict=True):
        first, second, third = (things[one] for one in seen[task, spot])
        here = spots[spot]
        anchor.append(
            f"You arrive at {here}. On the {here}, you see a {first}, a {second}, and a {third}."
        )
    return credit.Turns(
        group=group,
        outcome=rng.integers(0, 2, trajectories).astype(float),
        goal=[f"task {task}" for task in group],
        trajectory=owner,
        reward=-0.1 * invalid,
        valid=~invalid,
        progress=rng.random(total),
        anchor=anchor,
        action=[f"go to {one}" for one in rng.integers(0, 30, total)],
        turn_reward=rng.normal(size=(total, 1)),
        turn_reward_names=("implicit",),
        entropy=rng.exponential(size=total),
    )


def methods(trajectories: int) -> dict[str, Any]:
    """Methods to time: all turn-level estimators, GRPO, and STAPO's mask."""
    similar = {"gigpo similar": credit.make("gigpo", anchors="similar")}
    if trajectories == MEMBERS:
        return similar
    named = ("grpo", "mt_grpo", "mt_rloo", "gigpo", "empg", "has", "istar", "prime")
    chosen: dict[str, Any] = {name: credit.make(name) for name in named}
    chosen["mgr"] = credit.make("mgr", gate="none")
    chosen["stapo mask"] = credit.STAPO().mask
    return chosen | similar if trajectories <= COMPARED else chosen


def reference_of(name: str, trajectories: int) -> Callable[..., list[float]] | None:
    """Reference of a method; None for similar texts of more than one group."""
    if name == "gigpo similar" and trajectories > MEMBERS:
        return None
    return REFERENCES[name]


def standardize(values: list[float], keys: list[Hashable]) -> list[float]:
    found: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        found[key].append(value)
    scale = {}
    for key, members in found.items():
        mean = sum(members) / len(members)
        squares = sum((value - mean) ** 2 for value in members)
        deviation = math.sqrt(squares / (len(members) - 1)) if len(members) > 1 else math.inf
        scale[key] = mean, deviation + 1e-6
    return [(v - scale[k][0]) / scale[k][1] for k, v in zip(keys, values, strict=True)]


def leave_one_out(values: list[float], keys: list[Hashable]) -> list[float]:
    total: dict[Hashable, float] = defaultdict(float)
    count: dict[Hashable, int] = defaultdict(int)
    for key, value in zip(keys, values, strict=True):
        total[key] += value
        count[key] += 1
    return [
        v - (total[k] - v) / (count[k] - 1) if count[k] > 1 else 0.0
        for k, v in zip(keys, values, strict=True)
    ]


def spread_scores(scores: list[float], c: dict[str, Any]) -> list[float]:
    return [scores[owner] for owner in c["trajectory"]]


def positions(c: dict[str, Any]) -> list[int]:
    seen: dict[int, int] = defaultdict(int)
    places = []
    for owner in c["trajectory"]:
        places.append(seen[owner])
        seen[owner] += 1
    return places


def lasts(c: dict[str, Any]) -> list[bool]:
    owners = c["trajectory"]
    return [i + 1 == len(owners) or owners[i + 1] != owners[i] for i in range(len(owners))]


def pairs(c: dict[str, Any], column: list[Any]) -> list[Hashable]:
    return [(c["group"][o], x) for o, x in zip(c["trajectory"], column, strict=True)]


def implicit(c: dict[str, Any]) -> list[float]:
    return [row[0] for row in c["turn_reward"]]


def grpo(c: dict[str, Any]) -> list[float]:
    return spread_scores(standardize(c["outcome"], c["group"]), c)


def multi_turn(c: dict[str, Any], relative: Callable[..., list[float]]) -> list[float]:
    outcome = spread_scores(relative(c["outcome"], c["group"]), c)
    turn = relative(implicit(c), pairs(c, positions(c)))
    rows = zip(lasts(c), outcome, turn, strict=True)
    return [whole if last else own + whole for last, whole, own in rows]


def gigpo(c: dict[str, Any], states: list[Any] | None = None) -> list[float]:
    returns, following, ends = [0.0] * len(c["reward"]), 0.0, lasts(c)
    for i in range(len(returns) - 1, -1, -1):
        if ends[i]:
            following = c["reward"][i] + c["outcome"][c["trajectory"][i]]
        else:
            following = c["reward"][i] + 0.95 * following
        returns[i] = following
    step = standardize(returns, pairs(c, states or c["anchor"]))
    return [a + b for a, b in zip(grpo(c), step, strict=True)]


def gigpo_similar(c: dict[str, Any]) -> list[float]:
    heads: dict[int, list[str]] = defaultdict(list)
    states = []
    for owner, key in zip(c["trajectory"], c["anchor"], strict=True):
        mine = heads[c["group"][owner]]
        ratios = [SequenceMatcher(None, key, head).ratio() for head in mine]
        if max(ratios, default=0.0) < THRESHOLD:
            mine.append(key)
            ratios.append(1.0)
        states.append(f"cluster {ratios.index(max(ratios))}")
    return gigpo(c, states)


def mgr(c: dict[str, Any]) -> list[float]:
    relative = leave_one_out(c["outcome"], c["group"])
    rewards, before, seen = [], 0, {}
    for i, (owner, valid) in enumerate(zip(c["trajectory"], c["valid"], strict=True)):
        if i == 0 or owner != c["trajectory"][i - 1]:
            before, seen = 0, defaultdict(int)
        sign = 1 if valid else -1
        local = sign + 0.1 * sign * (before == -sign)
        before = sign
        if valid:
            seen[c["action"][i]] += 1
            local -= 0.5 * max(seen[c["action"][i]] - 2, 0)
        rewards.append(local * abs(relative[owner]))
    return rewards


def stapo_mask(c: dict[str, Any]) -> list[bool]:
    values = standardize(c["entropy"], pairs(c, c["anchor"]))
    ordered = sorted(values)
    first, third = quantile(ordered, 0.25), quantile(ordered, 0.75)
    low, high = first - 1.5 * (third - first), third + 1.5 * (third - first)
    return [not low <= value <= high for value in values]


def quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def empg(c: dict[str, Any]) -> list[float]:
    low, high = min(c["entropy"]), max(c["entropy"])
    sure = [math.exp(-(h - low) / (high - low)) for h in c["entropy"]]
    mean, ends = sum(sure) / len(sure), lasts(c)
    whole = [
        a * s / mean + (0.0 if ends[i] else 0.05 * sure[i + 1])
        for i, (a, s) in enumerate(zip(grpo(c), sure, strict=True))
    ]
    centre = sum(whole) / len(whole)
    return [a - centre for a in whole]


def has(c: dict[str, Any]) -> list[float]:
    places, progress = positions(c), c["progress"]
    moved = [p - (progress[i - 1] if places[i] else 0.0) for i, p in enumerate(progress)]
    turn = standardize(moved, pairs(c, places))
    return [0.5 * a + 0.5 * b for a, b in zip(grpo(c), turn, strict=True)]


def istar(c: dict[str, Any]) -> list[float]:
    step = standardize(implicit(c), spread_scores(c["group"], c))
    return [a + b for a, b in zip(grpo(c), step, strict=True)]


def prime(c: dict[str, Any]) -> list[float]:
    rewards, ends = implicit(c), lasts(c)
    of_trajectory: dict[int, list[float]] = defaultdict(list)
    for owner, reward in zip(c["trajectory"], rewards, strict=True):
        of_trajectory[owner].append(reward)
    means = [sum(of_trajectory[o]) / len(of_trajectory[o]) for o in range(len(c["group"]))]
    others = [m - lead for m, lead in zip(means, leave_one_out(means, c["group"]), strict=True)]
    outcome, following = leave_one_out(c["outcome"], c["group"]), 0.0
    advantage = [0.0] * len(rewards)
    for i in range(len(rewards) - 1, -1, -1):
        owner = c["trajectory"][i]
        following = rewards[i] - others[owner] + (0.0 if ends[i] else following)
        advantage[i] = outcome[owner] + following
    return advantage


REFERENCES: dict[str, Callable[..., list[float]]] = {
    "grpo": grpo,
    "mt_grpo": lambda c: multi_turn(c, standardize),
    "mt_rloo": lambda c: multi_turn(c, leave_one_out),
    "gigpo": gigpo,
    "gigpo similar": gigpo_similar,
    "mgr": mgr,
    "stapo mask": stapo_mask,
    "empg": empg,
    "has": has,
    "istar": istar,
    "prime": prime,
}


if __name__ == "__main__":
    main()
