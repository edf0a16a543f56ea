"""A study: several methods with several seeds and equal budgets; tables and one figure.

Every run is an ordinary run folder, `OUT/METHOD/seed_N`, of the recipe `OUT/METHOD/recipe.toml`.
Success is that of the last evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from agent_envs.machine import write_text
from agent_envs_lab.study.figures import figure

if TYPE_CHECKING:
    from rich.console import Group

    from agent_envs_lab.study.results import Result

Cells: TypeAlias = "list[list[str]]"
_OUTCOME = ("method", "start", "success", "p, gain", "to GRPO", "p")
_BEHAVIOUR = ("method", "valid", "turns", "repeated", "rollouts to {level}", "seconds")


def save(results: Sequence[Result], out: Path, *, level: float, seeds: int, curve: str) -> None:
    """Write `study.json`, `study.md` and `study.svg`.

    Raises:
        StudyError: The runs did not log `curve`.
    """
    write_text(out / "study.json", json.dumps([asdict(result) for result in results], indent=1))
    write_text(out / "study.md", markdown(results, level=level))
    write_text(out / "study.svg", figure(results, out, seeds, curve))


def table(results: Sequence[Result], *, level: float) -> Group:
    """The results for a terminal, the best success first."""
    from rich.console import Group as Together

    from agent_envs.cli.console import DataTable

    made: list[DataTable | str] = []
    for head, *rows in _tables(results, level):
        one = DataTable(box=None, pad_edge=False)
        for number, name in enumerate(head):
            one.add_column(name, no_wrap=True, justify="right" if number else "left")
        for row in rows:
            one.add_row(*row)
        made += [one, ""]
    return Together(*made[:-1])


def markdown(results: Sequence[Result], *, level: float) -> str:
    """The results as two Markdown tables, the best success first."""
    return "\n".join(
        "".join(
            f"| {' | '.join(row)} |\n"
            for row in (head, ["---", *["---:"] * (len(head) - 1)], *rows)
        )
        for head, *rows in _tables(results, level)
    )


def _tables(results: Sequence[Result], level: float) -> tuple[Cells, Cells]:
    """The two tables, each with its head."""
    ranked = sorted(results, key=lambda r: -r.success)
    behaviour = [name.format(level=f"{level:.0%}") for name in _BEHAVIOUR]
    return (
        [[*_OUTCOME], *map(_outcome, ranked)],
        [behaviour, *map(_behaviour, ranked)],
    )


def _outcome(result: Result) -> list[str]:
    return [
        result.method,
        f"{result.start:.0%}",
        f"{result.success:.1%} [{100 * result.low:.0f}–{100 * result.high:.0f}%]",
        f"{result.gain_p:.2g}",
        "" if result.versus_p is None else f"{100 * result.versus:+.1f}",
        "" if result.versus_p is None else f"{result.versus_p:.2g}",
    ]


def _behaviour(result: Result) -> list[str]:
    return [
        result.method,
        f"{result.valid:.1%}",
        "–" if result.turns is None else f"{result.turns:.1f}",
        f"{result.repeated:.1%}",
        "–" if result.episodes is None else f"{result.episodes:,.0f}",
        f"{result.seconds:.0f}",
    ]
