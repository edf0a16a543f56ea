"""Two runs compared on the tasks of one panel: difference of success, its interval, an exact test.

Both evaluations are read from the run folders; nothing is played. Left out: differences between
seeds, for which `agent-envs paper` trains several.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs import evaluation
from agent_envs.cli.console import DataTable, show_data
from trainer.options import flatten
from trainer.run.run_folder import RunFolder, read_config, total_steps

if TYPE_CHECKING:
    from rich.console import Group

    from agent_envs.evaluation import Evaluation, Paired
    from agent_envs.panels import Share

_TASKS = 5  # most tasks that are named
_NAMES = ("name", "about")
_ROUNDING = 1e-12


class CompareError(ValueError):
    """Two runs cannot be compared; the message says what to do."""


@dataclass(frozen=True)
class Side:
    """One of the runs: its folder, the evaluation of a step, options, versions that trained it."""

    folder: Path
    step: int
    evaluation: Evaluation
    options: dict[str, Any]
    versions: list[str] | None


@dataclass(frozen=True)
class Difference:
    """Success of the second minus that of the first, with its 95% interval and an exact test."""

    change: float
    low: float
    high: float
    test: Paired


def side(folder: Path, step: int | None = None) -> Side:
    """A run at the step of its end, or at another that it has evaluated.

    Raises:
        FileNotFoundError: The folder holds no run.
        CompareError: It has no such evaluation, or was cut short.
        ValueError: Its configuration is damaged.
    """
    _, tree = read_config(folder)
    run = RunFolder(folder)
    known, total = dict(run.read_evaluations()), total_steps(tree)
    if run.damaged and (total if step is None else step) not in known:
        again = (
            f"write it again with `agent-envs eval {folder} --out {folder}/eval/step_{total}.json`"
        )
        remedy = again if step in {None, total} else "compare another step, with --step"
        raise CompareError(f"{run.damaged[0]}; {remedy}")
    if not known:
        raise CompareError(
            f"{folder} has no evaluation yet; a run writes one when reinforcement learning starts "
            f"and one at its end: continue it with `agent-envs train {folder} --resume`"
        )
    wanted = max(known) if step is None else step
    if step is None and wanted < total:
        raise CompareError(
            f"{folder} was cut short: its last evaluation is of step {wanted}, and it ends at "
            f"{total}; continue it with `agent-envs train {folder} --resume`, or compare an "
            f"evaluation that it has, with --step {' or '.join(map(str, known))}"
        )
    if wanted not in known:
        raise CompareError(
            f"{folder} has no evaluation of step {wanted}; it has {', '.join(map(str, known))}"
        )
    noted = len(run.damaged)
    made = run.read_provenance()
    for one in run.damaged[noted:]:
        warnings.warn(one, stacklevel=2)
    options = {key: value for key, value in flatten(tree) if value != {}}
    return Side(folder, wanted, known[wanted], options, made.versions if made else None)


def difference(first: Evaluation, second: Evaluation) -> Difference:
    """Difference of two evaluations of one panel, paired by task.

    The interval combines the Wilson intervals l..u of both rates p, with the correlation φ of the
    outcomes of a task (Newcombe 1998, Statistics in Medicine 17, 2635-2650, method 10), or of an
    origin's sums where tasks have one in common:

        low = Δ - sqrt(a² - 2φ a b + b²),  a = p₂ - l₂,  b = u₁ - p₁

    and high likewise with u₂ and l₁.

    Raises:
        PanelError: Their panels differ.
    """
    test = evaluation.compare_paired(first, second)
    first, second = evaluation.share_origins(first, second)
    one, two = first.overall, second.overall
    change = two.share - one.share
    related = _correlation(first, second)

    def reach(a: float, b: float) -> float:
        return sqrt(max(0.0, a * a - 2 * related * a * b + b * b))

    low = change - reach(two.share - two.low, one.high - one.share)
    high = change + reach(two.high - two.share, one.share - one.low)
    return Difference(change, max(-1.0, low), min(1.0, high), test)


def _correlation(first: Evaluation, second: Evaluation) -> float:
    """φ of the sums of origins, corrected for continuity if it is positive."""
    groups = np.unique(first.groups, return_inverse=True)[1]
    solved = [np.array(each.success, float) for each in (first, second)]
    sums = [np.bincount(groups, weights=one - one.mean()) for one in solved]
    spread = sqrt((sums[0] @ sums[0]) * (sums[1] @ sums[1]))
    if spread < _ROUNDING:
        return 0.0
    related = float(sums[0] @ sums[1]) / spread
    correction = 1 / (2 * len(sums[0]) * solved[0].std() * solved[1].std())
    return max(related - correction, 0.0) if related > 0 else related


def settings(first: Side, second: Side) -> list[tuple[str, str, str]]:
    """Options in which the runs differ, with both values; "–" where a run has no such option."""
    keys = sorted({*first.options, *second.options} - {*_NAMES})
    pairs = [(str(first.options.get(k, "–")), str(second.options.get(k, "–"))) for k in keys]
    return [(key, *pair) for key, pair in zip(keys, pairs, strict=True) if pair[0] != pair[1]]


def notes(first: Side, second: Side) -> list[str]:
    """What a reader has to know: other versions, other decoding, tasks whose environment failed."""
    found = []
    if first.versions != second.versions:
        said = [", then ".join(x.versions) if x.versions else "unknown" for x in (first, second)]
        found.append(f"The runs are of different versions: {said[0]} and {said[1]}.")
    one, other = first.evaluation, second.evaluation
    if one.decoding != other.decoding:
        found.append(f"Replies were drawn differently: {one.decoding} and {other.decoding}.")
    for name, result in (("first", one), ("second", other)):
        if result.failed:
            count = len(result.failed)
            found.append(f"{count} tasks of the {name} count as not solved: they failed.")
    return found


def table(first: Side, second: Side) -> Group:
    """The comparison for a terminal.

    Raises:
        PanelError: The evaluations have different panels.
    """
    from rich.console import Group as Together

    one, other = first.evaluation, second.evaluation
    found = difference(one, other)
    made = DataTable(box=None, pad_edge=False)
    for name in ("", "first", "second"):
        made.add_column(name, no_wrap=True)
    for kind in [*one.by_stratum, None]:
        rates = [x.overall if kind is None else x.by_stratum.get(kind) for x in (one, other)]
        made.add_row("success" if kind is None else kind, *(_short(rate) for rate in rates))
    made.add_row("mean return", *(f"{np.mean(x.returns):.3g}" for x in (one, other)))
    for name in one.measures:
        made.add_row(name, *(x.describe_measure(name) for x in (one, other)))
    made.add_row("valid turns", *(f"{x.valid:.1%}" for x in (one, other)))
    made.add_row("turns a task", *(f"{np.mean(x.turns):.1f}" for x in (one, other)))
    runs = zip(("first ", "second"), (first, second), strict=True)
    head = [f"{name}  {x.folder}, step {x.step}" for name, x in runs]
    about = f"{len(one.task_ids)} of {one.split} ({one.source}), {one.decoding}"
    head += [f"tasks   {about}, panel {one.panel_hash[:12]}", ""]
    change = f"{100 * found.change:+.1f}"
    span = f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    said = [
        "",
        f"second - first: {change} points {span}, {found.test}",
        f"solved by the second alone: {_count_solved(one, other, won=True)}",
        f"solved by the first alone: {_count_solved(one, other, won=False)}",
        *notes(first, second),
    ]
    return Together(
        show_data("\n".join(head)), made, show_data("\n".join(said)), *_settings(first, second)
    )


def _short(share: Share | None) -> str:
    return "–" if share is None else evaluation.describe_share(share)


def _count_solved(one: Evaluation, other: Evaluation, *, won: bool) -> str:
    """How many tasks only one of two evaluations solved, and the first of them."""
    rows = zip(one.task_ids, one.success, other.success, strict=True)
    tasks = [task for task, before, after in rows if before != after and after == won]
    more = ", ..." if len(tasks) > _TASKS else ""
    return f"{len(tasks)}" + (f" ({', '.join(tasks[:_TASKS])}{more})" if tasks else "")


def _settings(first: Side, second: Side) -> list[Any]:
    """A table of the options in which the runs differ."""
    found = settings(first, second)
    if not found:
        return ["", "The options of the runs are the same."]
    made = DataTable(box=None, pad_edge=False)
    for name in ("option", "first", "second"):
        made.add_column(name, overflow="fold")
    for row in found:
        made.add_row(*row)
    return ["", made]
