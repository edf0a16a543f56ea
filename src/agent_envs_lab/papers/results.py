"""What the runs of a table give, beside the published numbers: shown, as JSON, as a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_envs import evaluation
from agent_envs.machine import write_text
from agent_envs.panels import nearest
from agent_envs_lab.papers.lab import FILE, read_lab
from agent_envs_lab.papers.runs import describe_state, find_folder, load_recipe, name_evaluation
from trainer.run.metrics import read_log
from trainer.run.run_folder import RunFolder

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

    from agent_envs.evaluation import Evaluation
    from agent_envs_lab.papers import Cell, Table
    from trainer.recipe import Recipe

_DRAWS = 2_000  # of the bootstrap
_DIGITS = 9  # equal means differ in their last bits


@dataclass(frozen=True)
class Result:
    """What the runs of a cell give.

    Attributes:
        row, group, column: Labels of the cell.
        published: What the paper prints, "" for nothing.
        values: The value of each finished seed, multiplied with the scale of the column.
        low, high: 95% bootstrap interval over seeds and tasks; NaN of a single logged value.
        tasks: Tasks behind each value, 0 for logged values.
        why: Why there is no value, or not one of each seed; "" if there is.
        each: Values of seeds and tasks, [S, T], of a measure of tasks; not written to files.
        panel: Hash of the tasks, "" of a logged value.
        seeds: The finished seeds; none of a prompted model.
    """

    row: str
    group: str
    column: str
    published: str
    values: list[float]
    low: float
    high: float
    tasks: int
    why: str
    each: NDArray[np.float64] | None = None
    panel: str = ""
    seeds: tuple[int, ...] = ()

    @property
    def shown(self) -> str:
        """Mean and deviation over seeds, and the interval; a dash for none."""
        if not self.values:
            return "–"
        mean = f"{np.mean(self.values):.3g}"
        if len(self.values) > 1:
            mean += f" ± {np.std(self.values, ddof=1):.2g}"
        return mean if np.isnan(self.low) else f"{mean} [{self.low:.3g}–{self.high:.3g}]"


def collect(table: Table, out: Path, seeds: int) -> list[list[Result]]:
    """The results of all cells, a list for each row.

    Raises:
        RunError: A folder holds a run of other settings.
    """
    return [
        [
            _read_cell(cell, label, out, seeds)
            for label, cell in zip(table.spec.columns, row, strict=True)
        ]
        for row in table.cells
    ]


def _read_cell(cell: Cell, label: str, out: Path, seeds: int) -> Result:
    whys, found, panels = [], [], set()
    for lacked, read in _list_sources(cell, out, seeds):
        why = lacked
        try:
            if not why:
                values, panel = read()
                found.append(cell.column.scale * values)
                panels.add(panel)
        except (KeyError, OSError, ValueError) as error:
            why = str(error.args[0] if isinstance(error, KeyError) else error)
        whys.append(why)
    if len(panels) > 1:
        whys, found = ["its seeds were evaluated on different tasks; train them anew"], []
    low, high = _draw_interval(found)
    done = [seed for seed, why in enumerate(whys) if not why] if cell.run and found else []
    return Result(
        cell.row.label,
        cell.row.group,
        label,
        cell.published,
        [float(values.mean()) for values in found],
        low,
        high,
        len(found[0]) if found and not cell.column.measure.startswith("log.") else 0,
        next(filter(None, whys), "" if found else cell.why),
        np.array(found) if len({len(one) for one in found}) == 1 and len(found[0]) > 1 else None,
        panels.pop() if found else "",
        tuple(done),
    )


def _list_sources(
    cell: Cell, out: Path, seeds: int
) -> Iterator[tuple[str, Callable[[], tuple[NDArray[np.float64], str]]]]:
    """Why a seed or a prompted model of a cell has no values, "" if it has; and what reads them."""
    if cell.run:
        for seed in range(seeds):
            recipe = load_recipe(cell.run, seed)
            folder = find_folder(out, cell.run, seed)
            yield describe_state(folder, recipe), partial(read_value, cell, folder, recipe)
    elif cell.prompted:
        file = out / cell.prompted.file
        why = "" if file.is_file() else cell.why
        yield why, lambda: _read_tasks(evaluation.load(file), cell)


def read_value(cell: Cell, folder: Path, recipe: Recipe) -> tuple[NDArray[np.float64], str]:
    """The values of a finished run for a cell, and the hash of their panel.

    There is a value for each task, or one of the log, which has no panel.

    Raises:
        KeyError: There is no such measure, stratum or logged value.
        OSError, ValueError: A file is missing or damaged.
    """
    kind, _, name = cell.column.measure.partition(".")
    if kind == "log":
        log = read_log(folder / "metrics.jsonl")
        lines = [line for line in log if name in line and line["step"] <= recipe.last_step]
        values = [line[name] for line in lines if line[name] is not None]
        if not values:
            known = sorted({key for line in log for key in line})
            raise KeyError(f"the run logged no {name!r}{nearest(name, known)}")
        return np.array([np.mean(values[-cell.column.window :])]), ""
    if kind == "lab":
        if not (folder / FILE).is_file():
            raise KeyError("not analysed yet, --run does it")
        return read_lab(folder, name), ""
    if cell.column.evaluate:
        return _read_tasks(evaluation.load(name_evaluation(cell, folder)), cell)
    return _read_tasks(select_evaluation(folder, recipe), cell)


def _read_tasks(read: Evaluation, cell: Cell) -> tuple[NDArray[np.float64], str]:
    return read.read_measure(cell.column.measure), read.panel_hash


def select_evaluation(folder: Path, recipe: Recipe) -> Evaluation:
    """The evaluation that counts by `eval.select`: the last one, or the first of the best.

    Those after the last step of the recipe, as of a run that went on, do not count; nor does what
    reinforcement learning starts from, which is no result of it.
    """
    read = RunFolder(folder).read_evaluations()
    found = [(step, one) for step, one in read if step <= recipe.last_step]
    if recipe.eval.select == "last":
        return found[-1][1]
    start = recipe.sft.steps if recipe.run.steps else 0
    made = [one for step, one in found if step > start] or [one for _, one in found]
    return max(made, key=lambda one: (sum(one.success), sum(one.returns)))


def _draw_interval(values: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """95% bootstrap interval of the mean over seeds, and over the tasks that they share."""
    if not values or (len(values) == 1 and len(values[0]) == 1):
        return np.nan, np.nan
    rng = np.random.default_rng(0)
    same = len({len(one) for one in values}) == 1
    means = []
    for _ in range(_DRAWS):
        seeds = rng.integers(len(values), size=len(values))
        tasks = rng.integers(len(values[0]), size=len(values[0]))
        drawn = [values[n] for n in seeds]
        means.append(
            np.mean(
                [one[tasks].mean() if same else rng.choice(one, len(one)).mean() for one in drawn]
            )
        )
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def compare_rows(results: Sequence[Sequence[Result]]) -> list[str]:
    """Differences of the last row of each group to its other rows, paired by seed and task.

    In brackets: which seeds, if not both rows have all; in how many the last row is higher; tasks
    on which it is higher and lower, by means over seeds; p of a two-sided sign-flip test of tasks.
    Groups of which the same is said share a line, as models do that are one at pocket scale.
    """
    found = []
    for column in zip(*results, strict=True):
        groups: dict[str, list[Result]] = {}
        for one in column:
            if one.each is not None:
                groups.setdefault(one.group, []).append(one)
        lines: dict[str, list[str]] = {}
        for *others, last in groups.values():
            if others:
                told = ", ".join(_compare(last, one) for one in others)
                lines.setdefault(f"{last.row} against {told}", []).append(last.group)
        for line, of in lines.items():
            where = "" if len(of) == len(groups) > 1 else " and ".join(of)
            found.append(f"{column[0].column}, {where}".rstrip(", ") + f": {line}")
    return found


def _compare(last: Result, one: Result) -> str:
    """The difference of a row to another in one column, with p."""
    assert last.each is not None  # noqa: S101  the caller looked
    assert one.each is not None  # noqa: S101
    if (one.panel, one.tasks) != (last.panel, last.tasks):
        return f"{one.row} (not tested: other tasks)"
    ours, theirs, seeds = last.each, one.each, ""
    if last.seeds and one.seeds:
        shared = sorted({*last.seeds} & {*one.seeds})
        if not shared:
            return f"{one.row} (not tested: no seed in common)"
        ours = ours[[last.seeds.index(seed) for seed in shared]]
        theirs = theirs[[one.seeds.index(seed) for seed in shared]]
        if {*last.seeds} != {*one.seeds}:
            seeds = f"on seed {', '.join(map(str, shared))}: "
        if len(shared) > 1:
            higher = (_round(ours.mean(1) - theirs.mean(1)) > 0).sum()
            seeds += f"higher in {higher} of {len(shared)} seeds; "
    change = _round(ours.mean(0) - theirs.mean(0))
    counts = f"tasks: {(change > 0).sum()} higher, {(change < 0).sum()} lower"
    gain = float(_round(ours.mean() - theirs.mean()))
    return f"{one.row} {gain:+.3g} ({seeds}{counts}, p = {compare_pairs(ours, theirs):.2g})"


def compare_pairs(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """P of a two-sided sign-flip test of two tables [S, T], paired by task over means of seeds.

    Exact where at most 16 tasks differ. Sums of flips that differ in their last bits are equal.
    """
    from scipy.stats import permutation_test

    change = _round(one.mean(0) - other.mean(0))
    if np.count_nonzero(change) <= 1:
        return 1.0
    test = permutation_test(
        (change[change != 0],),
        lambda x, axis: _round(x.mean(axis)),
        permutation_type="samples",
        n_resamples=2**16,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def _round(change: NDArray[np.float64] | np.floating[Any]) -> NDArray[np.float64]:
    """Differences of means, 0 where these are equal but for their last bits."""
    rounded: NDArray[np.float64] = np.round(change, _DIGITS) + 0.0  # not -0
    return rounded


def show_table(table: Table, results: Sequence[Sequence[Result]], seeds: int) -> Any:
    """The table for a terminal: the published number above ours in each row."""
    from rich.console import Group

    from agent_envs.cli.console import show_data

    rows = [["", "", *table.spec.columns]]
    group = ""
    for row in results:
        if row[0].group != group:
            group = row[0].group
            rows.append([group, "", *("" for _ in row)])
        label = row[0].row
        if table.is_published:
            rows.append([label, "paper", *(one.published or "–" for one in row)])
            label = ""
        rows.append([label, "ours", *(one.shown for one in row)])
    notes = map(show_data, list_notes(table, results, seeds))
    return Group(show_data(f"{table.name}: {table.spec.about}"), "", Blocks(rows), *notes)


@dataclass
class Blocks:
    """Rows of a table, the first its titles, in blocks of as many columns as the console takes."""

    rows: list[list[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from agent_envs.cli.console import DataTable

        widths = [2 + max(map(len, column)) for column in zip(*self.rows, strict=True)]
        first = 2
        while first < len(widths):
            end = first + 1
            while end < len(widths) and sum(widths[:2] + widths[first : end + 1]) <= (
                options.max_width
            ):
                end += 1
            made = DataTable(box=None, pad_edge=False)
            titles, *rows = ([*row[:2], *row[first:end]] for row in self.rows)
            for at, title in enumerate(titles):
                made.add_column(title, justify="right" if at and title else "left")
            for row in rows:
                made.add_row(*row)
            yield made
            yield ""
            first = end


def list_notes(table: Table, results: Sequence[Sequence[Result]], seeds: int) -> list[str]:
    """What is said below a table: differences of rows, missing seeds, what the numbers are."""
    lacking: dict[str, dict[str, None]] = {}  # rows or cells by what they lack
    for row in results:
        whole = not any(one.values for one in row)
        for one in row:
            if one.why:
                said = f"{len(one.values)} of {seeds} seeds; {one.why}" if one.values else one.why
                name = one.row if one.values or whole else f"{one.row} ({one.column})"
                lacking.setdefault(said, {})[name] = None
    gaps = [f"{'; '.join(rows)}: {said}" for said, rows in lacking.items()]
    spread = (
        f"{seeds} seed(s); ± is the deviation of seeds, [ ] a 95% interval over seeds and tasks."
    )
    compared = compare_rows(results)
    if number := sum(line.count("p = ") for line in compared):
        spread += f" p is over tasks, for these seeds, not corrected for {number} comparison(s)."
    about = list_differences(table) if table.is_published else []
    return [*compared, *gaps, spread, *about]


def list_differences(table: Table) -> list[str]:
    """What differs from the paper, as its runs' recipes say and its file notes."""
    found = [
        "Ours: a small model of this package on embedded data (pocket), which does not tell how "
        "the paper's model would do."
        if table.pocket
        else "Ours: this project's trainer in the paper's setting."
    ]
    runs = [run for run in table.runs if run.name.startswith("alfworld-") and not table.pocket]
    games = [load_recipe(run, 0).env for run in runs]
    if any(one.data in {"auto", "embedded"} and not one.games for one in games):
        found.append("AlfWorld: embedded games, unless alfworld.data=FOLDER names the public ones.")
    if any(one.evaluate and "openai:" in one.evaluate for one in table.spec.columns.values()):
        found.append("Partner and judge are the user's own endpoints.")
    return found


def save(
    table: Table, results: Sequence[Sequence[Result]], out: Path, seeds: int, figure: str
) -> Path:
    """Write the table as JSON and as a page with its figure; the path of the page."""
    stem = out / table.name
    cells = [
        {**asdict(replace(one, each=None)), "shown": one.shown} for row in results for one in row
    ]
    about = {"paper": table.paper, "table": table.name, "pocket": table.pocket, "seeds": seeds}
    text = json.dumps({**about, "cells": cells}, indent=1).replace("NaN", "null")
    write_text(stem.with_suffix(".json"), text + "\n")
    write_text(stem.with_suffix(".html"), _write_page(table, results, seeds, figure))
    if figure:
        write_text(stem.with_suffix(".svg"), figure)
    return stem.with_suffix(".html")


_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
th,td{{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #8884;vertical-align:top}}
td{{white-space:nowrap}}th:first-child,td:first-child{{text-align:left;white-space:normal}}small{{opacity:.7;display:block}}
.group td{{font-weight:600;padding-top:1rem}}div{{overflow-x:auto}}</style>
<h1>{title}</h1><p>{about}</p>
<div><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>
<ul>{notes}</ul>{figure}</html>
"""


def _write_page(table: Table, results: Sequence[Sequence[Result]], seeds: int, figure: str) -> str:
    rows, group = [], ""
    for row in results:
        if row[0].group != group:
            group = row[0].group
            rows.append(f'<tr class="group"><td colspan="{1 + len(row)}">{escape(group)}</td></tr>')
        cells = "".join(
            f"<td>{escape(one.shown).replace(' [', '<br>[')}"
            + (f"<small>{escape(one.published) or '–'}</small>" if table.is_published else "")
            for one in row
        )
        rows.append(f"<tr><td>{escape(row[0].row)}</td>{cells}</tr>")
    notes = list_notes(table, results, seeds)
    if table.is_published:
        notes = ["Above ours, below what the paper prints.", *notes]
    return _PAGE.format(
        title=escape(f"{table.paper} {table.name}{', pocket' if table.pocket else ''}"),
        about=escape(table.spec.about),
        head="".join(f"<th>{escape(label)}</th>" for label in table.spec.columns),
        rows="".join(rows),
        notes="".join(f"<li>{escape(one)}" for one in notes),
        figure=figure,
    )
