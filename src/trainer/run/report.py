"""The report of a run: one self-contained HTML page, made from the run folder.

It also works on a run that is still going or was killed. Left out: scripts and anything loaded from
elsewhere, so that the page can be mailed and archived.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs import evaluation
from agent_envs.cli import figures
from agent_envs.cli.console import format_seconds
from agent_envs.machine import read_json, write_text
from trainer.errors import RecipeError
from trainer.run import curves, diagnosis, live, metrics, rollouts, run_folder

if TYPE_CHECKING:
    from jinja2 import Template

_RECENT = 10  # steps whose pace is taken for the rest


@dataclass(frozen=True)
class Pace:
    """Progress and speed of a run.

    Attributes:
        step: Last step that was logged.
        total: Steps of the recipe.
        spent: Time of all steps, in words.
        left: Time of the remaining steps at the recent pace, in words; "" if unknown or at the end.
        speed: Tokens a second in recent sampling; None before the first step.
        episodes: All rollouts.
        skipped: Steps without an update.
    """

    step: int
    total: int
    spent: str
    left: str
    speed: float | None
    episodes: int
    skipped: int


def write(folder: Path) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises:
        FileNotFoundError: The folder holds no run.
        ValueError: config.toml or metrics.jsonl is damaged; other damaged files are left out.
    """
    page, damaged = render(folder)
    path = folder / "report.html"
    write_text(path, page)
    for one in damaged:
        warnings.warn(f"left out of {path}: {one}", stacklevel=2)
    return path


def render(folder: Path) -> tuple[str, list[str]]:
    """HTML of the report of a run folder, and what is wrong with the files that it leaves out.

    Raises:
        ValueError: config.toml or metrics.jsonl is damaged; other damaged files are left out.
    """
    import matplotlib as mpl
    from markupsafe import Markup

    run = run_folder.RunFolder(folder)
    options, recipe = run_folder.read_config(folder)
    lines = metrics.read_log(folder / "metrics.jsonl")
    evaluations = run.read_evaluations()
    start, end = (evaluations[0], evaluations[-1]) if len(evaluations) > 1 else (None, None)
    recorded = {
        "failures": run.read("failures/*.json", partial(read_json, kind=run_folder.FailureRecord)),
        "warnings": run.read(
            metrics.WARNINGS, partial(metrics.read_log, kind=run_folder.WarningRecord)
        ),
        "provenance": run.read(
            run_folder.PROVENANCE, partial(read_json, kind=run_folder.Provenance)
        ),
        "truth": run.read("truth/ranking.txt", run_folder.read_truth),
    }
    env_id, split = recipe["env"]["id"], evaluations[-1][1].split if evaluations else ""
    ladders = run.read("ladder.json", partial(run_folder.read_ladder, env=env_id, split=split))
    levels = ladders[0].levels if ladders else {}
    with mpl.rc_context(figures.STYLE):
        groups, drawn = read_groups(run, recipe["credit"]["name"])
        values, folded = curves.draw_values(lines)
        html = _compile_page().render(
            palette=Markup(figures.write_palette(":root")),  # noqa: S704 - of this package
            recipe=recipe,
            options=options,
            evaluations=evaluations,
            test=evaluation.compare_paired(start[1], end[1]) if start and end else None,
            pace=estimate_pace(lines, run_folder.total_steps(recipe)),
            success=curves.draw_success(lines, evaluations, levels),
            ladders=ladders,
            values=values,
            folded=folded,
            groups=groups,
            live=Markup(drawn),  # noqa: S704 - of a template of this package
            evidence=read_evidence(run, folder, lines),
            damaged=run.damaged,
            most=rollouts.ROWS,
            **recorded,
        )
    return html, run.damaged


@cache
def _compile_page() -> Template:
    """The template of the page, which takes longer to compile than to fill."""
    site = live.open_templates()
    site.filters.update(embed=figures.embed, diagnose=diagnosis.diagnose)
    site.filters["share"] = evaluation.describe_share
    return site.get_template("page.html.j2")


def read_evidence(
    run: run_folder.RunFolder, folder: Path, lines: Sequence[dict[str, Any]]
) -> diagnosis.Evidence | None:
    """The rollouts of the last recorded step and the log up to it; None if there are none."""
    last = run.list_files("episodes/step_[0-9]*.parquet")[-1:]
    try:
        from trainer import recipe as recipes

        made = recipes.load(folder)
    except (ImportError, RecipeError):  # without torch; of another version
        return None
    for path in last:
        for played in run.read(path, run_folder.read_step):
            start, learned = diagnosis.split_log(lines, run_folder.step_of(path))
            return diagnosis.Evidence(made, played, learned, start)
    return None


def read_groups(run: run_folder.RunFolder, method: str) -> tuple[list[rollouts.Group], str]:
    """What the page shows of the last and the first recorded step; a live figure of the last."""
    paths = run.list_files("episodes/step_[0-9]*.parquet")
    groups, drawn = list[rollouts.Group](), ""
    for path in dict.fromkeys((*paths[-1:], *paths[:1])):
        for played in run.read(path, run_folder.read_step):
            turns = sum(len(episode.steps) for episode in played)
            saved = path.with_suffix(".npy")
            credit = (
                run.read(saved, partial(run_folder.read_credit, turns=turns))
                if saved.exists()
                else []
            )
            step = run_folder.step_of(path)
            own = credit[0] if credit else None
            groups.append(rollouts.choose_group(step, played, own))
            drawn = drawn or live.draw_rollouts(played, groups[0].places, own, method)
    return groups, drawn


def estimate_pace(lines: Sequence[dict[str, Any]], total: int) -> Pace | None:
    """Progress and speed from the lines of a log; None if it has none."""
    if not lines:
        return None
    step = int(lines[-1]["step"])
    times = [line["time"] for line in lines[-_RECENT - 1 :] if line.get("time") is not None]
    left = ""
    if step < total and len(times) > 1:  # the median, since a run may have been stopped between
        left = format_seconds((total - step) * float(np.median(np.diff(times))))
    speeds = [line["tokens_per_second"] for line in lines if line.get("tokens_per_second")]
    return Pace(
        step=step,
        total=total,
        spent=format_seconds(sum(line.get("seconds") or 0.0 for line in lines)),
        left=left,
        speed=float(np.mean(speeds[-_RECENT:])) if speeds else None,
        episodes=int(sum(line.get("episodes") or 0 for line in lines)),
        skipped=sum(bool(line.get("skipped")) for line in lines),
    )
