"""Evaluation on a fixed panel: success with Wilson intervals, and a paired exact test of two runs.

A panel is a fixed draw of a split's task ids with a hash. Only evaluations of the same panel are
compared. Left out: tests over seeds, which need many runs.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from trainer.options import STRICT, Count, NonNegative, Share, explain_error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Group

    from agent_envs.panels import Panel
    from trainer.play.records import Episode


Turns = Annotated[int, Field(ge=0, lt=2**31)]


class PanelError(ValueError):
    """Two evaluations have different panels and cannot be compared."""


@dataclass(frozen=True, config=STRICT)
class Eval:
    """Evaluation on a fixed panel.

    Attributes:
        split: Split the panel is drawn from.
        tasks: Tasks of the panel, 0 for the whole split.
        every: Steps between evaluations, 0 for none; start and end are always evaluated.
        temperature: 0 is greedy.
    """

    split: str = "valid_unseen"
    tasks: Count = 100
    every: Count = 0
    temperature: NonNegative = 0.0


@dataclasses.dataclass(frozen=True)
class Interval:
    """A success rate: `successes` of `count`, with its Wilson 95% interval in [0, 1]."""

    successes: int
    count: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """Share of successes."""
        return self.successes / self.count

    def __str__(self) -> str:
        percent = f"{self.rate:.0%} [{100 * self.low:.0f}–{100 * self.high:.0f}%]"
        return f"{self.successes}/{self.count}  {percent}"


@dataclasses.dataclass(frozen=True)
class Paired:
    """Number of tasks that only one of two evaluations solved; exact two-sided McNemar p."""

    only_first: int
    only_second: int
    p: float


@dataclass(frozen=True, config=STRICT)
class Evaluation:
    """Results on one panel, in the order of its tasks.

    Attributes:
        split: Split of the panel.
        source: Origin of its tasks, `Panel.source`.
        panel_hash: Hash of the panel's task ids.
        decoding: How replies were drawn, e.g. "greedy".
        task_ids: [n] tasks.
        task_types: [n] kind of each task.
        success: [n] whether it was solved.
        returns: [n] sum of rewards and outcome.
        turns: [n] turns taken.
        valid: Share of valid turns over all episodes.
        repeated: Share of turns that repeat an earlier action of the episode.
        failed: Tasks whose environment failed; they count as not solved.

    Raises:
        ValueError: There is not one value for every task, or `failed` has other tasks.
    """

    split: str
    source: str
    panel_hash: str
    decoding: str
    task_ids: list[str]
    task_types: list[str]
    success: list[bool]
    returns: list[float]
    turns: list[Turns]
    valid: Share
    repeated: Share
    failed: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        columns = self.task_types, self.success, self.returns, self.turns
        if not self.task_ids or any(len(one) != len(self.task_ids) for one in columns):
            raise ValueError(f"it needs one value for each of {len(self.task_ids)} tasks")
        if not set(self.task_ids).issuperset(self.failed):
            raise ValueError(f"failed must be tasks of the panel, got {self.failed!r:.60}")

    @property
    def overall(self) -> Interval:
        """Success over the whole panel."""
        return compute_wilson(sum(self.success), len(self.success))

    @property
    def by_type(self) -> dict[str, Interval]:
        """Success of each kind of task, in alphabetical order."""
        count = Counter(self.task_types)
        solved = Counter(t for t, ok in zip(self.task_types, self.success, strict=True) if ok)
        return {kind: compute_wilson(solved[kind], count[kind]) for kind in sorted(count)}

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        from trainer.run.checkpoint import write_text

        kept = {name: value for name, value in asdict(self).items() if value or name != "failed"}
        write_text(path, json.dumps(kept, indent=1))


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
    try:
        return TypeAdapter(Evaluation).validate_json(path.read_bytes())
    except ValueError as error:
        said = explain_error(error) if isinstance(error, ValidationError) else error
        raise ValueError(
            f"{path} holds no evaluation ({said}); name one of `agent-envs eval RUN --out FILE`"
        ) from error


def compute_wilson(successes: int, count: int) -> Interval:
    """Success rate with its Wilson 95% interval.

    Raises:
        ValueError: No trials, or more successes than trials.
    """
    from scipy.stats import binomtest

    if not 0 <= successes <= count or not count:
        raise ValueError(f"an interval needs 0 <= successes <= count > 0, got {successes}, {count}")
    low, high = binomtest(successes, count).proportion_ci(method="wilson")
    return Interval(successes, count, float(low), float(high))


def compare_paired(first: Evaluation, second: Evaluation) -> Paired:
    """Exact McNemar test of two evaluations of the same panel: binomial on the disagreements.

    Raises:
        PanelError: Their panels differ.
    """
    from scipy.stats import binomtest

    if first.panel_hash != second.panel_hash or first.task_ids != second.task_ids:
        raise PanelError(
            f"panels differ: {first.split} {first.panel_hash} of {len(first.task_ids)} tasks and "
            f"{second.split} {second.panel_hash} of {len(second.task_ids)}; evaluate both with the "
            "same split, data and number of tasks"
        )
    one, other = np.array(first.success, bool), np.array(second.success, bool)
    lost, won = int((one & ~other).sum()), int((other & ~one).sum())
    p = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
    return Paired(only_first=lost, only_second=won, p=p)


def make_table(result: Evaluation, *, before: Evaluation | None = None) -> Group:
    """Table of success by kind of task and overall, beside an earlier evaluation of the panel.

    Raises:
        PanelError: The panels differ.
    """
    from rich.console import Group as Together
    from rich.table import Table

    test = None if before is None else compare_paired(before, result)
    title = f"{result.split} ({result.source}), {len(result.task_ids)} tasks, {result.decoding}"
    if result.failed:
        title += f", {len(result.failed)} not solved because their environment failed"
    made = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("", "before", "now") if before else ("", "success"):
        made.add_column(name, no_wrap=True)
    earlier = before.by_type if before else {}
    typed = any(result.by_type)
    for kind, interval in result.by_type.items() if typed else ():
        made.add_row(kind or "all", *[str(x) for x in [earlier.get(kind)] if x], str(interval))
    made.add_row("overall", *[str(x.overall) for x in [before] if x], str(result.overall))
    made.add_row("valid turns", *[f"{x.valid:.1%}" for x in [before] if x], f"{result.valid:.1%}")
    note = "Intervals are Wilson's, 95%."
    if test:
        note = (
            f"{test.only_second} tasks newly solved, {test.only_first} newly failed: exact McNemar "
            f"p = {test.p:.2g}. {note}"
        )
    return Together(made, note)


def draw_panel(panel: Panel, tasks: int, option: str = "eval.tasks") -> Panel:
    """Draw `tasks` tasks of the panel, the same ones on every machine; 0 takes all.

    `option` is the name of `tasks` in the error.

    Raises:
        ValueError: The panel has fewer tasks.
    """
    from agent_envs.panels import Panel as Made

    ids = panel.task_ids
    if tasks > len(ids):
        raise ValueError(
            f"{option}={tasks}, but split {panel.split!r} has {len(ids)} tasks; lower {option}, or "
            "set it to 0 for all"
        )
    if not tasks:
        return panel
    rows = np.sort(np.random.default_rng(0).permutation(len(ids))[:tasks])
    return Made(panel.split, tuple(ids[row] for row in rows), panel.source)


def summarize(
    panel: Panel, episodes: Sequence[Episode], *, decoding: str, failed: Sequence[str] = ()
) -> Evaluation:
    """Results of one episode for each task of the panel but those that `failed`, in its order.

    Raises:
        ValueError: The episodes do not match the tasks of the panel.
    """
    lost = set(failed)
    if [one.task_id for one in episodes] != [one for one in panel.task_ids if one not in lost]:
        raise ValueError(
            f"{len(episodes)} episodes do not match the {len(panel.task_ids)} tasks of the panel; "
            "play each task once, in the order of the panel"
        )
    unknown = "unknown" if any(episode.task_type for episode in episodes) else ""
    left = iter(episodes)
    played = [None if task_id in lost else next(left) for task_id in panel.task_ids]
    steps = [step for episode in episodes for step in episode.steps]
    return Evaluation(
        split=panel.split,
        source=panel.source,
        panel_hash=panel.hash,
        decoding=decoding,
        task_ids=list(panel.task_ids),
        task_types=[one.task_type if one else unknown for one in played],
        success=[bool(one and one.success) for one in played],
        returns=[e.outcome + sum(step.reward for step in e.steps) if e else 0.0 for e in played],
        turns=[len(one.steps) if one else 0 for one in played],
        valid=float(np.mean([step.valid for step in steps])) if steps else 0.0,
        repeated=float(np.mean([again for one in episodes for again in _find_repeats(one)]))
        if steps
        else 0.0,
        failed=list(failed),
    )


def _find_repeats(episode: Episode) -> list[bool]:
    """For each turn, whether its action repeats an earlier one."""
    actions = [step.action for step in episode.steps]
    return [action in actions[:turn] for turn, action in enumerate(actions)]
