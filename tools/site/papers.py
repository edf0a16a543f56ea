"""The page of published results: every table of the papers, with results of small models beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs_lab import papers
from trainer import recipes

if TYPE_CHECKING:
    from collections.abc import Iterator

STORED = Path(__file__).parents[2] / "benchmarks" / "papers"
"""Results of `agent-envs paper NAME TABLE --pocket`, a JSON file for each table."""
HEAD = """# Published results

All tables of the five papers and the curves of which they print numbers, as `agent-envs paper NAME
TABLE` shows them. **Nothing was repeated at the scale of the papers**: that needs days on GPUs.
Where a cell has a second line, it is the result of a small model of this package on embedded data
(`--pocket`): mean ± deviation of seeds and a 95% interval, of one seed where there is no ±. It is a
figure of its own and a test of the machinery; the numbers are not comparable with the paper's.
Those of MT-GRPO are of the world before `-v1`. [Papers](papers.md) has the command, and a page for
each paper with what such runs can tell.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for paper in recipes.names("paper"):
        lines += [f"## {paper}", "", recipes.part("paper", paper).about, ""]
        for name in papers.list_tables(paper):
            lines += write_table(papers.read_table(paper, name))
    return "\n".join(lines)


def write_table(table: papers.Table) -> list[str]:
    """The table as Markdown; "" for a figure that has no number."""
    stored = read_stored(table.paper, table.name)
    if not stored and not any(cell.published for row in table.cells for cell in row):
        return []
    lines = [f"### {table.paper} {table.name}", "", table.spec.about, ""]
    lines += [
        f"| | {' | '.join(table.spec.columns)} |",
        f"|---|{'---:|' * len(table.spec.columns)}",
    ]
    group = ""
    for row in table.cells:
        if row[0].row.group != group:
            group = row[0].row.group
            lines.append(f"| **{group}** |{' |' * len(row)}")
        label = row[0].row.label
        shown = [
            "<br>".join(filter(None, [cell.published, stored.get((group, label, column), "")]))
            or "–"
            for cell, column in zip(row, table.spec.columns, strict=True)
        ]
        lines.append(f"| {label} | {' | '.join(shown)} |")
    return [*lines, ""]


def read_stored(paper: str, name: str) -> dict[tuple[str, ...], str]:
    """What small models reached, by group, row and column; {} if the table was not made."""
    path = STORED / paper / f"{name}.json"
    if not path.is_file():
        return {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names = ("group", "row", "column")
    return {tuple(one[n] for n in names): one["shown"] for one in cells if one["values"]}


def list_rows(environment: str) -> Iterator[str]:
    """Lines of a list with what the papers report on an environment of the recipes."""
    for paper in recipes.names("paper"):
        for name in papers.list_tables(paper):
            table = papers.read_table(paper, name)
            places = [
                n
                for n, column in enumerate(table.spec.columns.values())
                if column.environment == environment
            ]
            found = [
                f"{' '.join(filter(None, [row[0].row.group, row[0].row.label]))} "
                + " / ".join(row[n].published for n in places)
                for row in table.cells
                if any(row[n].published for n in places)
            ]
            if found:
                heads = " / ".join(list(table.spec.columns)[n] for n in places)
                yield f"* **{table.spec.about}** {heads}: {', '.join(found)}."
