"""Panel: a split's ordered tasks, with a hash that is the same on every machine.

And the share of tasks that is solved, with an interval that counts tasks of one origin as what they
are worth.
"""

from __future__ import annotations

import difflib
import json
from bisect import bisect
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import inf, sqrt
from operator import index
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

COMPARED = 64
"""How many names `nearest` compares; of a longer list, those with a similar beginning or end."""
SHOWN = 200  # characters of a wrong name that are compared and quoted
_Z = NormalDist().inv_cdf(0.975)
_SERIES = (
    ((1, 1), 4),
    ((3, 16, 5), 96),
    ((-15, 17, 19, 3), 384),
    ((-945, -1920, 1482, 776, 79), 92160),
)
"""Coefficients of z, z³, z⁵, ... and their divisor in each term of the quantile of Student's t."""


@dataclass(frozen=True)
class Panel:
    """The tasks of one split in a fixed order. A panel is immutable, and copying returns itself.

    split, task_ids: name and tasks; `hash` depends on these two.
    source: where the tasks come from, the same on every machine: "embedded" for tasks that the
        package ships or generates, else the format and the last part of the path, such as
        "alfworld:json_games".
    origins: by task, what it was made from, the same in every panel that has a task made from it;
        a policy is not evaluated on what it was trained on. Tasks without one are not compared.
        Intervals and tests count the tasks of an origin as dependent.

    Raises:
        ValueError: no task, or a task that is listed twice.
    """

    split: str
    task_ids: tuple[str, ...]
    source: str = "embedded"
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "task_ids", tuple(self.task_ids))
        if not self.task_ids:
            raise ValueError(f"split {self.split!r} has no tasks; a panel needs at least one")
        if len(self._places) < len(self.task_ids):
            twice = next(t for i, t in enumerate(self.task_ids) if self._places[t] != i)
            raise ValueError(f"task {twice!r} is twice in split {self.split!r}; list it once")

    @cached_property
    def hash(self) -> str:
        """Hex SHA-256 of the ASCII JSON array `["split","first id",...]` without whitespace."""
        listing = json.dumps([self.split, *self.task_ids], separators=(",", ":"))
        return sha256(listing.encode("ascii")).hexdigest()

    @cached_property
    def _places(self) -> dict[str, int]:
        return {task_id: place for place, task_id in enumerate(self.task_ids)}

    def __len__(self) -> int:
        return len(self.task_ids)

    def at(self, task: Any) -> str:
        """The id of task number `task`, counted from 0.

        Raises:
            TypeError: not an integer.
            ValueError: outside the panel.
        """
        if isinstance(task, bool) or not hasattr(task, "__index__"):
            raise TypeError(f"task must be an integer, got {task!r} of type {type(task).__name__}")
        if not 0 <= index(task) < len(self):
            raise ValueError(
                f"task must lie in 0..{len(self) - 1} for split {self.split!r}, got {task}"
            )
        return self.task_ids[index(task)]

    def find(self, task_id: Any) -> str:
        """Check that `task_id` is in the panel, and return it.

        Raises:
            ValueError: no such task; the message suggests the most similar id.
        """
        if isinstance(task_id, str) and task_id in self._places:
            return task_id
        raise ValueError(
            f"no task {task_id!r:.{SHOWN}} in split {self.split!r} of {len(self)} tasks"
            f"{nearest(str(task_id), self.task_ids)}; env.unwrapped.panel.task_ids lists them"
        )

    def draw_rows(self, count: int, rng: np.random.Generator) -> list[int]:
        """Numbers of `count` random tasks, without repeats until all have occurred."""
        return draw_numbers(len(self), count, rng)

    def choose_part(self, count: int) -> Panel:
        """The panel with `count` of its tasks, the same ones on every machine."""
        rows = np.sort(np.random.default_rng(0).permutation(len(self))[:count])
        ids = tuple(self.task_ids[row] for row in rows)
        return Panel(self.split, ids, self.source, self.origins)

    def find_shared(self, other: Panel) -> list[str]:
        """The origins that tasks of both panels have, in the order of this one."""
        own, its = (
            dict.fromkeys(one.origins[task] for task in one.task_ids if task in one.origins)
            for one in (self, other)
        )
        return [origin for origin in own if origin in its]

    def __copy__(self) -> Panel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Panel:
        return self


def find_copies(contents: Mapping[str, Hashable]) -> dict[str, str]:
    """The origins of tasks whose whole content another task of a panel has, too."""
    count = Counter(contents.values())
    return {task: str(content) for task, content in contents.items() if count[content] > 1}


@dataclass(frozen=True)
class Share:
    """The share `count / total` with Wilson's 95% interval [low, high] in [0, 1].

    worth: how many independent ones the total is worth, by default all.
    freedom: degrees of freedom of that estimate; the interval is as much wider as Student's t.
    """

    count: int
    total: int
    worth: float | None = None
    freedom: float = inf

    @property
    def share(self) -> float:
        """`count / total`."""
        return self.count / self.total

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return max(0.0, self._centre - self._half) if self.count else 0.0

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return min(1.0, self._centre + self._half) if self.count < self.total else 1.0

    @property
    def _centre(self) -> float:
        return (self.share * self._size + self._reach**2 / 2) / (self._size + self._reach**2)

    @property
    def _half(self) -> float:
        spread = self.share * (1 - self.share) * self._size + self._reach**2 / 4
        return self._reach * sqrt(spread) / (self._size + self._reach**2)

    @property
    def _reach(self) -> float:
        return find_quantile(self.freedom)

    @property
    def _size(self) -> float:
        return self.total if self.worth is None else self.worth

    def __str__(self) -> str:
        return f"{self.share:.1%} [{self.low:.1%}, {self.high:.1%}]"


def measure_share(solved: Sequence[bool], groups: Sequence[Any]) -> Share:
    """The share of tasks [n] that is solved, its interval that of as many as these are worth.

    These are as many independent ones as have the variance of the mean that `vary_mean` finds (Kish
    1965, the design effect), at least as many as its groups, and so many where all or none are
    solved, which tells nothing about the variance.

    Args:
        solved: [n] whether each task was solved.
        groups: [n] what each task is made from.
    """
    count, share = len(solved), float(np.mean(solved))
    variance, worth = vary_mean(solved, groups)
    if worth == count:  # all are independent
        return Share(sum(solved), count)
    freedom = max(worth - 1, 1.0)
    if 0 < share < 1:
        worth = min(max(share * (1 - share) / variance, worth), count)
    return Share(sum(solved), count, worth, freedom)


def vary_mean(values: ArrayLike, groups: Sequence[Any]) -> tuple[float, float]:
    """The variance of the mean of values [n], and how many groups of equal size theirs are worth.

    Values of a group are dependent, groups are not. The variance is the jackknife's, with each of m
    groups left out in turn, (m - 1) / m Σ_g (x̄_g - x̄)², infinite for one group and at least that
    of independent values (Efron and Stein 1981). The groups are worth n² / Σ_g n_g².
    """
    own = np.asarray(values, float)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    rows, size = np.array([numbers[group] for group in groups]), len(own)
    sizes, sums = np.bincount(rows), np.bincount(rows, weights=own - own.mean())
    count, worth = len(sizes), size**2 / float(sizes @ sizes)
    if count == 1:
        return inf, worth
    apart = sums / (size - sizes)
    return max(float((count - 1) / count * (apart @ apart)), float(own.var() / size)), worth


def find_quantile(freedom: float) -> float:
    """The 97.5% quantile of Student's t, within 0.001 from 5 degrees of freedom on, 11% at 1.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    terms = (
        sum(factor * _Z ** (2 * power + 1) for power, factor in enumerate(factors)) / divisor
        for factors, divisor in _SERIES
    )
    return _Z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def nearest(given: str, known: Iterable[str]) -> str:
    """`", did you mean 'x'?"` for the most similar of `known`; "" if none is similar."""
    given, names = given[:SHOWN], list(known)
    if len(names) > COMPARED:
        names = _neighbours(given, names)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def _neighbours(given: str, names: Sequence[str]) -> list[str]:
    """The neighbours of `given` in alphabetical order, of the names and of the reversed names."""
    found = dict[str, None]()
    for step in (1, -1):
        ordered = sorted(name[::step] for name in names)
        place, half = bisect(ordered, given[::step]), COMPARED // 4
        found |= dict.fromkeys(
            name[::step] for name in ordered[max(0, place - half) : place + half]
        )
    return list(found)


def source_of(kind: str, path: Path) -> str:
    """`Panel.source` for tasks that are read from `path`."""
    return f"{kind}:{path.name}"


def one_of(option: str, given: Any, known: Sequence[str]) -> None:
    """Refuse a value that is not one of `known`.

    Raises:
        ValueError: an unknown value; the message suggests the most similar one.
    """
    if given not in known:
        raise ValueError(
            f"unknown {option} {given!r}{nearest(str(given), known)}; known are {', '.join(known)}"
        )


def draw_numbers(size: int, count: int, rng: np.random.Generator) -> list[int]:
    """`count` of the numbers below `size`, without repeats until all have occurred."""
    rounds = [rng.permutation(size) for _ in range(-(-count // size))]
    rows: list[int] = np.concatenate(rounds)[:count].tolist()
    return rows
