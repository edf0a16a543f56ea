"""The tables and figures of papers: each cell is a run of a recipe, beside the published number.

The file of a paper (`trainer/recipes/papers`) has its settings and its tables; a file of one's own
may have tables of the same form. With `pocket` a table has the same cells for a small model of this
package on embedded data, so that it can be made on a CPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from agent_envs.cli.options import parse_assignment
from agent_envs.machine import explain_error
from agent_envs.panels import nearest
from trainer import recipes
from trainer.errors import RecipeError

_OF_SCALE = (
    *("policy.", "partner.", "engine.", "run.steps", "sampling.tasks", "sampling.recorded"),
    "env.id",
    *("env.data", "env.options.retriever"),
)
"""Options that a pocket table does not take from a cell: of the model, of data and of scale."""
PLAYED = ("env.", "prompt.", "eval.")
"""Options of a cell that also hold for a prompted model."""
SELF = "partner.model=self"
"""An evaluation in which the policy talks with itself."""
_EMPTY = "-"  # a cell that the paper leaves empty


class Column(BaseModel, extra="forbid"):
    """A column: what is measured of the run of each row.

    Attributes:
        measure: A measure of `Evaluation.read_measure`; "log.NAME", the mean of a logged value over
            the last steps; or "lab.NAME", see `agent_envs_lab.papers.lab`.
        window: Number of these steps.
        scale: What the value is multiplied with, 100 for shares in %.
        environment: Environment of the runs.
        method: Method of the runs, where it is that of the column.
        set: Options of the runs, by their keys.
        evaluate: Option of a further evaluation of the last checkpoint; "" reads that of training.
    """

    measure: str
    window: int = Field(default=10, ge=1)
    scale: float = 1
    environment: str = ""
    method: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    evaluate: str = ""


class Row(BaseModel, extra="forbid"):
    """A row: a method with options, a prompted model, or a sentence why there is no run.

    Attributes:
        label: Name of the row in the paper.
        group: Name of its group of rows.
        method: Method of its runs; "base" evaluates the untrained model.
        environment: Environment of its runs, instead of that of the column.
        set: Options of its runs.
        pocket: Options of its runs in a pocket table alone.
        player: Name of a prompted model behind an endpoint.
        form: Form of its prompt, "" or "react", "reflexion".
        why: Why it has no run, or what the run needs.
        published: What the paper prints for each column, "-" where it leaves the cell empty.
    """

    label: str
    group: str = ""
    method: str = ""
    environment: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    pocket: dict[str, Any] = Field(default_factory=dict)
    player: str = ""
    form: str = ""
    why: str = ""
    published: list[str] = Field(default_factory=list)


class Spec(BaseModel, extra="forbid"):
    """A table or figure as its file has it.

    Attributes:
        about: What it shows, and its place in the paper.
        seeds: Seeds of each cell.
        columns: The columns by label.
        groups: Options of the runs of groups of rows.
        rows: The rows.
        curves: Logged values that are drawn over training; "eval.NAME" those of evaluations.
        over: What they are drawn over.
        window: Steps whose values are averaged in a point of a curve.
    """

    about: str
    seeds: int = Field(default=1, ge=1)
    columns: dict[str, Column]
    groups: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rows: list[Row]
    curves: list[str] = Field(default_factory=list)
    over: str = "step"
    window: int = Field(default=10, ge=1)


class Run(NamedTuple):
    """The runs of a cell, one for each seed: the name of their folder and their recipe."""

    name: str
    recipe: recipes.Composition


class Prompted(NamedTuple):
    """The evaluation of a prompted model: its file in the folder of the runs, and its command."""

    file: str
    command: list[str]


class Cell(NamedTuple):
    """A cell: its row and column, what the paper prints, and its runs or why it has none."""

    row: Row
    column: Column
    published: str
    run: Run | None
    why: str
    prompted: Prompted | None = None


class Table(NamedTuple):
    """A table whose cells are composed; `cells` has a list for each row of `spec`."""

    paper: str
    name: str
    pocket: bool
    spec: Spec
    cells: list[list[Cell]]

    @property
    def runs(self) -> list[Run]:
        """The different runs of the table, in order."""
        return list({c.run.name: c.run for row in self.cells for c in row if c.run}.values())

    @property
    def is_published(self) -> bool:
        """Whether a paper prints numbers for it."""
        return any(cell.published for row in self.cells for cell in row)

    def keep_rows(self, labels: Sequence[str]) -> Table:
        """The table with these rows alone.

        Raises:
            RecipeError: There is no row of such a label.
        """
        known = [row.label for row in self.spec.rows]
        for label in labels:
            if label not in known:
                raise RecipeError(
                    f"{self.name} has no row {label!r}{nearest(label, known)}; its rows are "
                    f"{', '.join(dict.fromkeys(known))}"
                )
        kept = [n for n, label in enumerate(known) if label in labels]
        spec = self.spec.model_copy(update={"rows": [self.spec.rows[n] for n in kept]})
        return self._replace(spec=spec, cells=[self.cells[n] for n in kept])


def list_tables(paper: str) -> dict[str, str]:
    """What each table of a paper shows, by name."""
    tables = _read_file(paper)[1]
    return {name: str(table["about"]) for name, table in tables.items() if name != "pocket"}


def read_table(paper: str, name: str, *, pocket: bool = False) -> Table:
    """A table of a shipped paper, or of a file of one's own, with its cells composed.

    Raises:
        RecipeError: There is no such paper or table, or a cell cannot be composed.
    """
    settings, tables = _read_file(paper)
    known = [one for one in tables if one != "pocket"]
    if name not in known:
        raise RecipeError(
            f"{paper} has no table {name!r}{nearest(name, known)}; it has {', '.join(known)}"
        )
    try:
        spec = Spec.model_validate(tables[name])
    except ValidationError as error:
        raise RecipeError(f"{paper}, {name}: {explain_error(error)}") from error
    for row in spec.rows:
        if row.published and len(row.published) != len(spec.columns):
            raise RecipeError(
                f"{paper}, {name}: row {row.label!r} has {len(row.published)} published numbers "
                f"for {len(spec.columns)} columns"
            )
    small = recipes.make_part(f"{paper} pocket", dict(tables.get("pocket", {})))
    cells = [
        [
            _make_cell(paper, spec, row, column, published, settings, small if pocket else None)
            for column, published in zip(
                spec.columns.values(), row.published or [""] * len(spec.columns), strict=True
            )
        ]
        for row in spec.rows
    ]
    return Table(Path(paper).stem, name, pocket, spec, cells)


def _read_file(paper: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the tables of a paper, or of a file of one's own."""
    known = recipes.names("paper")
    if paper in known:
        path = Path(recipes.__file__).parent / "papers" / f"{paper}.toml"
        return {"paper": paper}, recipes.read_file(path).get("tables", {})
    if not Path(paper).is_file():
        raise RecipeError(
            f"no paper or TOML file {paper!r}{nearest(paper, known)}; there are {', '.join(known)}"
        )
    settings = recipes.read_file(Path(paper))
    return settings, settings.pop("tables", {})


def _make_cell(  # noqa: PLR0917
    paper: str,
    spec: Spec,
    row: Row,
    column: Column,
    published: str,
    settings: dict[str, Any],
    small: recipes.Part | None,
) -> Cell:
    method = row.method or column.method
    if published == _EMPTY:
        return Cell(row, column, "", None, "")
    given = {**spec.groups.get(row.group, {}), **column.set, **row.set}
    if row.player:
        why = f"prompted: {row.player} {row.form}".strip()
        made = None if small else _prompt_player(paper, row, column, given, settings)
        return Cell(row, column, published, None, why, made)
    if not method:
        return Cell(row, column, published, None, row.why or "has no run")
    if small is not None:
        kept = {key: value for key, value in given.items() if not key.startswith(_OF_SCALE)}
        given = {**kept, **row.pocket}
    own = {key: value for key, value in settings.items() if key not in recipes.AXES}
    parts = {axis: settings[axis] for axis in recipes.AXES if axis in settings}
    parts["environment"] = row.environment or column.environment or parts.get("environment", "")
    if "paper" in parts and parts["environment"] not in recipes.list_environments(parts["paper"]):
        del parts["paper"]  # a row in the setting of another project
    parts["method"] = "grpo" if method == "base" else method
    above = [recipes.make_part(paper, own)]
    if small is not None:
        parts["model"] = "pocket"
        above.append(small)
    tree: dict[str, Any] = {}
    untrained = {"run.steps": 0, "sft.steps": 0} if method == "base" else {}
    for key, value in {**given, **untrained}.items():
        recipes.set_option(tree, tuple(key.split(".")), value)
    above.append(recipes.make_part(f"{paper} {row.label}", tree))
    run = Run(_name_file([parts["environment"], method], given), recipes.layer_parts(parts, above))
    why = row.why
    fitting = recipes.part("model", "pocket").when.get((parts["environment"],), {})
    if small is not None and ("policy", "model") not in fitting:
        why = f"there is no small model for {parts['environment']}"
    if small is not None and "openai:" in column.evaluate:
        why = f"needs {column.evaluate}: only at the scale of the paper"
    return Cell(row, column, published, None if why else run, why)


def _prompt_player(
    paper: str, row: Row, column: Column, given: dict[str, Any], settings: dict[str, Any]
) -> Prompted:
    """The evaluation of a prompted model in a paper's setting; its partner is an endpoint."""
    environment = row.environment or column.environment or settings.get("environment", "")
    words = [environment, "grpo"]
    if "paper" not in settings:
        words.append(paper)
    elif environment in recipes.list_environments(settings["paper"]):
        words.append(f"paper={paper}")
    played = {key: value for key, value in given.items() if key.startswith(PLAYED)}
    partner = row.player if column.evaluate == SELF else column.evaluate.rpartition("openai:")[2]
    if column.evaluate == SELF or "openai:" in column.evaluate:
        played["env.options.partner"] = f"openai:{partner}@URL"
    elif column.evaluate:
        key, value = parse_assignment(column.evaluate)
        played[key] = value
    form = ["--form", row.form] if row.form else []
    options = [f"{key}={json.dumps(value)}" for key, value in played.items()]
    recipe = ["--recipe", " ".join(words)]
    command = ["eval", row.player, *options, "--endpoint", "URL", *form, *recipe]
    player = _name_file([row.player, row.form] if row.form else [row.player], {})
    return Prompted(f"players/{player}/{_name_file([environment], played)}.json", command)


def _name_file(words: Sequence[str], options: dict[str, Any]) -> str:
    """The name of a file or folder for words and options."""
    told = [f"{key.rpartition('.')[2]}={options[key]}" for key in sorted(options)]
    return re.sub(r"[^\w.=-]+", "_", "-".join([*words, *told]))
