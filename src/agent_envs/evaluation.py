"""Evaluation on a fixed panel: success with Wilson intervals, and a paired exact test of two runs.

Both count the tasks of one origin (`Panel.origins`) as dependent.

A panel is a fixed draw of a split's task ids with a hash. Only evaluations of the same panel are
compared. Needs the extra [report]. Left out: tests over seeds, which need many runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from agent_envs.machine import read_json, write_text
from agent_envs.panels import Panel, Share, measure_share, nearest, vary_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Group


Turns = Annotated[int, Field(ge=0, lt=2**31)]
Part = Annotated[float, Field(ge=0, le=1)]


class PlayedTurn(Protocol):
    """A turn of an episode: was it valid, the action, and its reward without the outcome."""

    valid: bool
    action: str
    reward: float


class PlayedEpisode(Protocol):
    """An episode: was it solved, its outcome, named strata and measures, and turns."""

    success: bool
    outcome: float

    @property
    def strata(self) -> Mapping[str, str]:
        """Kinds that the task is of, by name."""

    @property
    def measures(self) -> Mapping[str, float]:
        """What the environment measured, by name."""

    @property
    def steps(self) -> Sequence[PlayedTurn]:
        """The turns in order."""


class PanelError(ValueError):
    """Two evaluations have different panels and cannot be compared."""


@dataclasses.dataclass(frozen=True)
class Paired:
    """Number of tasks that only one of two evaluations solved, and an exact two-sided p.

    `origins` of the `tasks` are independent. The p is McNemar's if that is all of them.
    """

    only_first: int
    only_second: int
    p: float
    tasks: int
    origins: int

    def __str__(self) -> str:
        kind = "McNemar p" if self.origins == self.tasks else f"p of {self.origins} origins"
        return f"exact {kind} = {self.p:.2g}"


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Evaluation:
    """Results on one panel, in the order of its tasks.

    Attributes:
        split: Split of the panel.
        source: Origin of its tasks, `Panel.source`.
        panel_hash: Hash of the panel's task ids.
        decoding: How replies were drawn, e.g. "greedy".
        task_ids: [n] tasks.
        success: [n] whether it was solved.
        returns: [n] sum of rewards and outcome.
        turns: [n] turns taken.
        valid: Share of valid turns over all episodes.
        repeated: Share of turns that repeat an earlier action of the episode.
        failed: Tasks whose environment failed; they count as not solved.
        strata: [n] value of each task by the name of the stratum, such as its difficulty.
        measures: [n] what the environment measured, by name; None where it measured nothing.
        origins: [n] number of the first task that each one has its origin in common with; [] if
            every task has its own.

    Raises:
        ValueError: There is not one value for every task, or `failed` has other tasks.
    """

    split: str
    source: str
    panel_hash: str
    decoding: str
    task_ids: list[str]
    success: list[bool]
    returns: list[float]
    turns: list[Turns]
    valid: Part
    repeated: Part
    failed: list[str] = dataclasses.field(default_factory=list)
    strata: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    measures: dict[str, list[float | None]] = dataclasses.field(default_factory=dict)
    origins: list[Turns] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        named = *self.strata.values(), *self.measures.values()
        columns: list[Any] = [self.success, self.returns, self.turns, self.groups, *named]
        if not self.task_ids or any(len(one) != len(self.task_ids) for one in columns):
            raise ValueError(f"it needs one value for each of {len(self.task_ids)} tasks")
        if not set(self.task_ids).issuperset(self.failed):
            raise ValueError(f"failed must be tasks of the panel, got {self.failed!r:.60}")

    @property
    def groups(self) -> Sequence[int]:
        """[n] what each task is made from, as a number: tasks with the same one are dependent."""
        return self.origins or range(len(self.task_ids))

    @property
    def overall(self) -> Share:
        """Success over the whole panel."""
        return measure_share(self.success, self.groups)

    @property
    def by_stratum(self) -> dict[str, Share]:
        """Success of the tasks of each stratum, in alphabetical order under each name."""
        made: dict[str, Share] = {}
        for values in self.strata.values():
            for value in sorted(set(values)):
                own = [row for row, other in enumerate(values) if other == value]
                solved = [self.success[row] for row in own]
                made[value] = measure_share(solved, [self.groups[row] for row in own])
        return made

    def read_measure(self, name: str) -> NDArray[np.float64]:
        """The values [m] of a measure, without tasks that have none.

        `name` is "success", "return", "turns", one of `measures`, or "origins", which has for each
        origin whether all its tasks are solved (AppWorld's scenario goal completion);
        "NAME/STRATUM" leaves out all tasks but those of a stratum, and "NAME/mean" has the mean of
        each stratum under the first name of `strata` that has several.

        Raises:
            KeyError: There is no such measure or stratum; the message has those that there are.
        """
        key, _, stratum = name.partition("/")
        lost = {own for own, solved in zip(self.groups, self.success, strict=True) if not solved}
        named: dict[str, Sequence[float | None]] = {
            "success": self.success,
            "return": self.returns,
            "turns": self.turns,
            "origins": [own not in lost if own == n else None for n, own in enumerate(self.groups)],
            **self.measures,
        }
        if key not in named:
            raise KeyError(f"no measure {key!r}{nearest(key, named)}; there are {', '.join(named)}")
        if stratum == "mean":
            several = [set(one) for one in self.strata.values() if len(set(one)) > 1]
            parts = sorted(several[0]) if several else [""]
            return np.array([self.read_measure(f"{key}/{one}").mean() for one in parts])
        strata = list(zip(*self.strata.values(), strict=True)) or [()] * len(self.success)
        kept = [
            value
            for value, own in zip(named[key], strata, strict=True)
            if value is not None and (not stratum or stratum in own)
        ]
        if not kept:
            known = ", ".join(dict.fromkeys(value for own in strata for value in own))
            raise KeyError(
                f"no task of stratum {stratum!r} has {key!r}; strata are {known or 'none'}"
            )
        return np.array(kept, float)

    def describe_measure(self, name: str) -> str:
        """Mean of a measure with its 95% interval, "–" if no task has it."""
        if name not in self.measures:
            return "–"
        rows = [row for row, value in enumerate(self.measures[name]) if value is not None]
        return describe_mean(self.read_measure(name), [self.groups[row] for row in rows])

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        write_text(path, _EVALUATION.dump_json(self, indent=1, exclude_defaults=True).decode())


_EVALUATION = TypeAdapter(Evaluation)


def load(path: Path) -> Evaluation:
    """Read an evaluation that `save` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file holds no evaluation.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"no evaluation at {path}; make one with `agent-envs eval RUN --out`"
        )
    return read_json(path, Evaluation)


def describe_share(share: Share) -> str:
    """Successes, their share and its 95% interval."""
    percent = f"{share.share:.0%} [{100 * share.low:.0f}–{100 * share.high:.0f}%]"
    return f"{share.count}/{share.total}  {percent}"


def describe_mean(values: NDArray[np.float64], groups: Sequence[int] | None = None) -> str:
    """Mean of values [m] with its 95% interval by Student's t, which one group has not.

    A share, the mean of zeros and ones, has no interval below 0 or above 1.
    """
    from scipy.stats import t

    mean = float(values.mean())
    variance, worth = vary_mean(values, groups or range(len(values)))
    if np.isinf(variance) or np.ptp(values) == 0:
        return f"{mean:.3g}"
    half = t.ppf(0.975, max(worth - 1, 1.0)) * sqrt(variance)
    least, most = (0.0, 1.0) if np.isin(values, (0, 1)).all() else (-np.inf, np.inf)
    return f"{mean:.3g} [{max(mean - half, least):.3g}–{min(mean + half, most):.3g}]"


def share_origins(first: Evaluation, second: Evaluation) -> tuple[Evaluation, Evaluation]:
    """Both evaluations of a panel with its origins, which an earlier version did not save."""
    origins = first.origins or second.origins
    return dataclasses.replace(first, origins=origins), dataclasses.replace(second, origins=origins)


def compare_paired(first: Evaluation, second: Evaluation) -> Paired:
    """Exact test of two evaluations of the same panel, by exchange of what they solved.

    If they are alike, both results of all tasks of an origin may be exchanged: p is the share of
    the 2^m exchanges of m origins whose difference of success is at least as far from 0. With one
    task an origin it is McNemar's exact test.

    Raises:
        PanelError: Their panels differ.
    """
    if first.panel_hash != second.panel_hash or first.task_ids != second.task_ids:
        raise PanelError(
            f"panels differ: {first.split} {first.panel_hash} of {len(first.task_ids)} tasks and "
            f"{second.split} {second.panel_hash} of {len(second.task_ids)}; evaluate both with the "
            "same split, data and number of tasks"
        )
    one, other = np.array(first.success, bool), np.array(second.success, bool)
    lost, won = int((one & ~other).sum()), int((other & ~one).sum())
    groups = np.unique(first.origins or second.groups, return_inverse=True)[1]
    sums = np.bincount(groups, weights=other.astype(float) - one).astype(int)
    chance = np.ones(1)  # of each difference, from -n to n in steps of 2
    for size in np.abs(sums):
        chance = np.pad(chance, (0, size)) / 2 + np.pad(chance, (size, 0)) / 2
    far = np.abs(np.arange(len(chance)) * 2 - (len(chance) - 1)) >= abs(won - lost)
    p = min(float(chance[far].sum()), 1.0)
    return Paired(lost, won, p, tasks=len(one), origins=len(sums))


def make_table(result: Evaluation, *, before: Evaluation | None = None) -> Group:
    """Table of success by kind of task and overall, beside an earlier evaluation of the panel.

    Raises:
        PanelError: The panels differ.
    """
    from rich.console import Group as Together

    from agent_envs.cli.console import DataTable, show_data

    note = "Intervals are Wilson's, 95%."
    test = compare_paired(before, result) if before else None
    if before:
        before, result = share_origins(before, result)
    if (kept := len(set(result.groups))) < len(result.task_ids):
        note = f"Intervals are Wilson's, 95%, of tasks made from {kept} origins."
    if test:
        note = (
            f"{test.only_second} tasks newly solved, {test.only_first} newly failed: {test}. {note}"
        )
    title = f"{result.split} ({result.source}), {len(result.task_ids)} tasks, {result.decoding}"
    if result.failed:
        title += f", {len(result.failed)} not solved because their environment failed"
    made = DataTable(title=show_data(title), title_justify="left", box=None, pad_edge=False)
    shown = {"before": before, "now": result} if before else {"success": result}
    for name in ("", *shown):
        made.add_column(name, no_wrap=True)
    for value in result.by_stratum:
        shares = [one.by_stratum.get(value) for one in shown.values()]
        made.add_row(value, *("" if one is None else describe_share(one) for one in shares))
    made.add_row("overall", *(describe_share(one.overall) for one in shown.values()))
    made.add_row("valid turns", *(f"{one.valid:.1%}" for one in shown.values()))
    for name in result.measures:
        made.add_row(name, *(one.describe_measure(name) for one in shown.values()))
    return Together(made, show_data(note))


def draw_panel(panel: Panel, tasks: int, option: str = "") -> Panel:
    """Draw `tasks` tasks of the panel, the same ones on every machine; 0 takes all.

    Of a smaller panel all are taken, or none if `option` names `tasks`.

    Raises:
        ValueError: The panel has fewer tasks than the named option wants.
    """
    ids = panel.task_ids
    if option and tasks > len(ids):
        raise ValueError(
            f"{option}={tasks}, but split {panel.split!r} has only {len(ids)}; lower {option}, or "
            "set it to 0 for all"
        )
    return panel.choose_part(tasks) if 0 < tasks < len(ids) else panel


def summarize(
    panel: Panel, episodes: Sequence[PlayedEpisode], *, decoding: str, failed: Sequence[str] = ()
) -> Evaluation:
    """Results of one episode for each task of the panel but those that `failed`, in its order."""
    strata, measures = (
        list(dict.fromkeys(name for one in episodes for name in getattr(one, kind)))
        for kind in ("strata", "measures")
    )
    left = iter(episodes)
    played = [None if task_id in set(failed) else next(left) for task_id in panel.task_ids]
    turns = [
        (step.valid, step.action in [other.action for other in one.steps[:turn]])
        for one in episodes
        for turn, step in enumerate(one.steps)
    ]
    valid, repeated = np.mean(turns, axis=0) if turns else (0.0, 0.0)
    seen: dict[str, int] = {}
    origins = [
        seen.setdefault(panel.origins.get(task_id, task_id), row)
        for row, task_id in enumerate(panel.task_ids)
    ]
    return Evaluation(
        split=panel.split,
        source=panel.source,
        panel_hash=panel.hash,
        decoding=decoding,
        task_ids=list(panel.task_ids),
        success=[bool(one and one.success) for one in played],
        returns=[e.outcome + sum(step.reward for step in e.steps) if e else 0.0 for e in played],
        turns=[len(one.steps) if one else 0 for one in played],
        valid=float(valid),
        repeated=float(repeated),
        failed=list(failed),
        strata={
            name: [one.strata.get(name, "") if one else "unknown" for one in played]
            for name in strata
        },
        measures={
            name: [one.measures.get(name) if one else None for one in played] for name in measures
        },
        origins=origins if len(seen) < len(origins) else [],
    )
