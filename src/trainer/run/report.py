"""The report of a run: one self-contained HTML page, made from the run folder.

It also works on a run that is still going or was killed. Left out: scripts and anything loaded from
elsewhere, so that the page can be mailed and archived.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.cli.console import make_printable
from trainer.run import curves, evaluate, metrics, provenance
from trainer.run import rollouts_page as rollouts
from trainer.run import run_folder as records
from trainer.run.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LONG = 280  # longest observation in characters that is shown unfolded
_MOST = 2000  # most characters of a text in the table of a group
_RECENT = 10  # steps whose pace is taken for the rest


@dataclass(frozen=True)
class Pace:
    """Progress and speed of a run.

    Attributes:
        step: Last step that was logged.
        total: Steps of the recipe.
        spent: Time of all steps, in words.
        left: Time of the remaining steps at the recent pace, in words; "" if unknown or at the end.
        tokens: Tokens of all rollouts.
        speed: Tokens a second in recent sampling; None before the first step.
        episodes: All rollouts.
        failed: Rollouts whose environment failed.
        skipped: Steps without an update.
    """

    step: int
    total: int
    spent: str
    left: str
    tokens: int
    speed: float | None
    episodes: int
    failed: int
    skipped: int


def write(folder: Path) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises:
        FileNotFoundError: The folder holds no run.
        ValueError: config.toml or metrics.jsonl is damaged; other damaged files are left out.
    """
    page, damaged = _render_page(folder)
    path = folder / "report.html"
    write_text(path, page)
    for one in damaged:
        warnings.warn(f"left out of {path}: {one}", stacklevel=2)
    return path


def render(folder: Path) -> str:
    """HTML of the report of a run folder.

    Raises:
        ValueError: config.toml or metrics.jsonl is damaged; other damaged files are left out.
    """
    return _render_page(folder)[0]


def _render_page(folder: Path) -> tuple[str, list[str]]:
    """HTML of the report of a run folder, and what is wrong with the files that it leaves out."""
    import matplotlib as mpl
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    options, recipe = records.read_config(folder)
    lines = metrics.read_log(folder / "metrics.jsonl")
    evaluations, damaged = records.evaluations_of(folder)
    truth, wrong = records.read_truth(folder / "truth")
    damaged += wrong
    failures, wrong = records.read_failures(folder / "failures")
    damaged += wrong
    said, wrong = records.read_warnings(folder / metrics.WARNINGS)
    damaged += wrong
    found, wrong = records.readable([folder], provenance.read_provenance)
    damaged += wrong
    source = files("trainer.run")
    style = curves.write_palette(":root") + (source / "page.css").read_text(encoding="utf-8")
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_print_plain
    ).from_string((source / "page.html.j2").read_text(encoding="utf-8"))
    with mpl.rc_context(curves.STYLE):
        shown, wrong = _episodes(folder / "episodes")
        shown |= {
            "success": curves.success(lines, evaluations),
            "parts": curves.parts(lines),
            "types": curves.types(evaluations),
        }
    damaged += wrong
    start, end = (evaluations[0], evaluations[-1]) if len(evaluations) > 1 else (None, None)
    made = page.render(
        style=Markup(style),  # noqa: S704 - of this package
        recipe=recipe,
        options=options,
        damaged=damaged,
        warnings=said,
        failures=failures,
        provenance=found[0][1] if found else None,
        evaluations=evaluations,
        test=evaluate.compare_paired(start[1], end[1]) if start and end else None,
        pace=pace(lines, records.total_steps(recipe)),
        truth=truth,
        **shown,
        ending=rollouts.ending,
        long=_LONG,
        most=_MOST,
    )
    return made, damaged


def pace(lines: Sequence[dict[str, Any]], total: int) -> Pace | None:
    """Progress and speed from the lines of a log; None if it has none."""
    if not lines:
        return None
    step = int(lines[-1]["step"])
    times = [line["time"] for line in lines[-_RECENT - 1 :] if line.get("time") is not None]
    left = ""
    if step < total and len(times) > 1:  # the median, since a run may have been stopped between
        left = metrics.duration((total - step) * float(np.median(np.diff(times))))
    speeds = [line["tokens_per_second"] for line in lines if line.get("tokens_per_second")]
    return Pace(
        step=step,
        total=total,
        spent=metrics.duration(sum(line.get("seconds") or 0.0 for line in lines)),
        left=left,
        tokens=int(sum(line.get("tokens") or 0 for line in lines)),
        speed=float(np.mean(speeds[-_RECENT:])) if speeds else None,
        episodes=int(sum(line.get("episodes") or 0 for line in lines)),
        failed=sum(_count_failed(line) for line in lines),
        skipped=sum(bool(line.get("skipped")) for line in lines),
    )


def _count_failed(line: dict[str, Any]) -> int:
    """Failed rollouts of a step: `failed` is their share of all that were tried."""
    share, played = line.get("failed") or 0.0, line.get("episodes") or 0
    return round(played * share / (1 - share)) if share < 1 else 0


def _episodes(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What the page shows of the last and the first recorded step; what is damaged."""
    paths, damaged = records.list_steps(folder, ".parquet")
    shown: dict[str, Any] = {"groups": [], "samples": [], "turns": []}
    before: set[Path] = set()
    for order, wanted in ((paths[::-1], (True, False)), (paths, (False,))):
        path, played, credit, wrong = records.read_episodes(order)
        damaged += [one for one in wrong if one not in damaged]
        if path is None or path in before:
            break
        before.add(path)
        step = int(path.stem[5:])
        group = rollouts.group_view(step, played, credit)
        shown["groups"] += [group] if group else []
        shown["samples"] += rollouts.samples(step, played, credit, wanted)
        if credit is not None:
            shown["turns"].append((step, curves.credit_by_turn(played, credit)))
    return shown, damaged


def _print_plain(value: Any) -> Any:
    """What the page shows of a value; text that is markup stays."""
    return make_printable(value) if type(value) is str else value
