"""The tables and figures of papers: each cell is a run of a recipe, beside the published number.

The file of a paper (`trainer/recipes/papers`) has its settings and its tables; a file of one's own
may have tables of the same form. With `pocket` a table has the same cells for a small model of this
package on embedded data, so that it can be made on a CPU.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
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
    *("env.data", "env.options.retriever"),
)
"""Options that a pocket table does not take from a cell: of the model, of data and of scale."""
_SCALES = ("public", "pocket")
"""What is no table in the tables of a file: settings of those of the paper's scale, and small."""
_OF_WORLD = ("env.id", "env.split", "env.data", "env.options", "eval.split", "eval.data")
"""Options of the command that mean another thing in each environment."""
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
        needs: Options, or sections of them, that the command has to give for a run; in a pocket
            table its `pocket` may.
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
    needs: list[str] = Field(default_factory=list)
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
    """The runs of a cell, one for each seed: their folder's name, recipe and further options."""

    name: str
    recipe: recipes.Composition
    options: tuple[str, ...] = ()


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
    return {name: str(table["about"]) for name, table in tables.items() if name not in _SCALES}


def read_table(
    paper: str, name: str, options: Sequence[str] = (), *, pocket: bool = False
) -> Table:
    """A table of a shipped paper, or of a file of one's own, with its cells composed.

    Args:
        paper: Name of the paper, or a file.
        name: Name of the table.
        options: `key=value` for all runs, or `ENVIRONMENT.key=value` for those of one environment;
            what a row needs is for this row alone.
        pocket: Whether the runs are those of a small model.

    Raises:
        RecipeError: There is no such paper or table, a cell cannot be composed, or an option is
            for an environment that the table lacks, or for tasks of several at once.
    """
    settings, tables = _read_file(paper)
    known = [one for one in tables if one not in _SCALES]
    if name not in known:
        raise RecipeError(
            f"{paper} has no table {name!r}{nearest(name, known)}; it has {', '.join(known)}"
        )
    try:
        spec = Spec.model_validate(tables[name])
    except ValidationError as error:
        raise RecipeError(f"{paper}, {name}: {_explain_keys(error)}") from error
    told = Counter((row.group, row.label) for row in spec.rows)
    for (group, label), number in told.items():
        if number > 1:
            where = f" of group {group!r}" if group else ""
            raise RecipeError(
                f"{paper}, {name}: {number} rows{where} are called {label!r}; give each its own"
            )
    for row in spec.rows:
        if row.published and len(row.published) != len(spec.columns):
            raise RecipeError(
                f"{paper}, {name}: row {row.label!r} has {len(row.published)} published numbers "
                f"for {len(spec.columns)} columns"
            )
    kind = _SCALES[pocket]
    scale = recipes.make_part(f"{paper} {kind}", dict(tables.get(kind, {})))
    composer = _Composer(paper, spec, settings, scale, pocket)
    composer.read_options(options)
    empty = [""] * len(spec.columns)
    cells = [
        [
            composer.make_cell(row, column, published)
            for column, published in zip(spec.columns.values(), row.published or empty, strict=True)
        ]
        for row in spec.rows
    ]
    return Table(Path(paper).stem, name, pocket, spec, cells)


def _explain_keys(error: ValidationError) -> str:
    """What is wrong with a table; for unknown keys, those that there are."""
    said = explain_error(error)
    parts: dict[str, tuple[str, type[BaseModel]]] = {
        "rows": ("row", Row),
        "columns": ("column", Column),
    }
    unknown = [one["loc"] for one in error.errors() if one["type"] == "extra_forbidden"]
    for kind, part in dict.fromkeys(parts.get(str(loc[0]), ("table", Spec)) for loc in unknown):
        said += f"; a {kind} has {', '.join(part.model_fields)}"
    return said


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
    if not (tables := settings.pop("tables", {})):
        raise RecipeError(
            f"{paper} has no tables; one is [tables.NAME] with about, columns and rows, as in "
            "docs/papers.md"
        )
    return settings, tables


@dataclass
class _Composer:
    """Makes the cells of a table of a paper, whose settings are those of a shipped one or a file.

    scale: The settings of tables of this scale, that of the paper or of small models.
    given: Options of the command: the environment of each, "" for all; its key; the option.
    """

    paper: str
    spec: Spec
    settings: dict[str, Any]
    scale: recipes.Part
    small: bool
    given: list[tuple[str, str, str]] = field(default_factory=list)

    def read_options(self, options: Sequence[str]) -> None:
        """Read the options of the command, for all runs or for those of an environment."""
        if not options:
            return  # the pages of the site are written without torch
        from trainer.recipe import key_of

        pairs = product(self.spec.rows, self.spec.columns.values())
        there = list(dict.fromkeys(filter(None, (self._find_environment(*pair) for pair in pairs))))
        for one in options:
            word, _, rest = one.partition(".")
            if word not in recipes.names("environment"):
                word, rest = "", one
            elif word not in there:
                raise RecipeError(f"{one}: the runs of the table are in {', '.join(there)}")
            key = key_of(rest)
            if not word and len(there) > 1 and key.startswith(_OF_WORLD):
                raise RecipeError(
                    f"{one} would hold for {' and '.join(there)} alike; begin it with the one that "
                    f"it is for: {there[0]}.{one}"
                )
            self.given.append((word, key, rest))

    def make_cell(self, row: Row, column: Column, published: str) -> Cell:
        """A cell with its runs."""
        method, environment = row.method or column.method, self._find_environment(row, column)
        if published == _EMPTY:
            return Cell(row, column, "", None, "")
        options = {**self.spec.groups.get(row.group, {}), **column.set, **row.set}
        if row.player:
            why = f"prompted: {row.player} {row.form}".strip()
            made = None if self.small else self._prompt_player(row, column, options)
            return Cell(row, column, published, None, why, made)
        if not method:
            return Cell(row, column, published, None, row.why or "has no run")
        if self.small:
            kept = {key: one for key, one in options.items() if not key.startswith(_OF_SCALE)}
            options = {**kept, **row.pocket}
        own = self._choose_options(row, environment)
        there = [key for key, _ in own] + list(row.pocket if self.small else ())
        met = [any(_is_of(key, need) for key in there) for need in row.needs]
        why = "" if met and all(met) else row.why
        if self.small:
            fitting = recipes.part("model", "pocket").when.get((environment,), {})
            if ("policy", "model") not in fitting:
                why = f"there is no small model for {environment}"
            elif "openai:" in column.evaluate:
                why = f"needs {column.evaluate}: only at the scale of the paper"
        if why:
            return Cell(row, column, published, None, why)
        recipe = self._compose(row, column, options)
        name, told = _name_file([environment, method], options), tuple(one for _, one in own)
        return Cell(row, column, published, Run(name, recipe, told), "")

    def _compose(self, row: Row, column: Column, options: dict[str, Any]) -> recipes.Composition:
        """The recipe of a row in a column with these options."""
        method, environment = row.method or column.method, self._find_environment(row, column)
        layer = {key: one for key, one in self.settings.items() if key not in recipes.AXES}
        parts = {axis: self.settings[axis] for axis in recipes.AXES if axis in self.settings}
        parts["environment"] = environment
        above = [recipes.make_part(self.paper, layer), self.scale]
        if ":" in environment:  # one's own
            del parts["environment"]
            above.insert(0, recipes.make_part(environment, {"env": {"id": environment}}))
        if "paper" in parts and environment not in recipes.list_environments(parts["paper"]):
            del parts["paper"]  # a row in the setting of another project
        parts["method"] = "grpo" if method == "base" else method
        if self.small:
            parts["model"] = "pocket"
        tree: dict[str, Any] = {}
        untrained = {"run.steps": 0, "sft.steps": 0} if method == "base" else {}
        for key, value in {**options, **untrained}.items():
            recipes.set_option(tree, tuple(key.split(".")), value)
        above.append(recipes.make_part(f"{self.paper} {row.label}", tree))
        return recipes.layer_parts(parts, above)

    def _find_environment(self, row: Row, column: Column) -> str:
        return row.environment or column.environment or self.settings.get("environment", "")

    def _choose_options(self, row: Row, environment: str) -> list[tuple[str, str]]:
        """Keys and options of the command for a row, without those that only other rows need."""
        others = {need for one in self.spec.rows for need in one.needs} - set(row.needs)
        return [
            (key, one)
            for word, key, one in self.given
            if word in {"", environment} and not any(_is_of(key, need) for need in others)
        ]

    def _prompt_player(self, row: Row, column: Column, options: dict[str, Any]) -> Prompted:
        """The evaluation of a prompted model in a paper's setting; its partner is an endpoint."""
        environment = self._find_environment(row, column)
        words = [environment, "grpo"]
        if "paper" not in self.settings:
            words.append(self.paper)
        elif environment in recipes.list_environments(self.settings["paper"]):
            words.append(f"paper={self.paper}")
        own = self.scale.when.get((environment,), {})
        options = {recipes.join_key(key): one.value for key, one in own.items()} | options
        for key in ("env.split", "eval.every"):  # of training
            options.pop(key, None)
        played = {key: value for key, value in options.items() if key.startswith(PLAYED)}
        partner = column.evaluate.rpartition("openai:")[2]
        partner = row.player if column.evaluate == SELF else partner
        if column.evaluate == SELF or "openai:" in column.evaluate:
            played["env.options.partner"] = f"openai:{partner}@URL"
        elif column.evaluate:
            key, value = parse_assignment(column.evaluate)
            played[key] = value
        form = ["--form", row.form] if row.form else []
        told = [f"{key}={json.dumps(value)}" for key, value in played.items()]
        given = self._choose_options(row, environment)
        told += [f"{key}={one.partition('=')[2]}" for key, one in given if key.startswith(PLAYED)]
        recipe = ["--recipe", " ".join(words)]
        command = ["eval", row.player, *told, "--endpoint", "URL", *form, *recipe]
        player = _name_file([row.player, row.form] if row.form else [row.player], {})
        return Prompted(f"players/{player}/{_name_file([environment], played)}.json", command)


def _is_of(key: str, section: str) -> bool:
    """Whether an option is the named one, or in the section of this name."""
    return f"{key}.".startswith(f"{section}.")


def _name_file(words: Sequence[str], options: dict[str, Any]) -> str:
    """The name of a file or folder for words and options."""
    told = [f"{key.rpartition('.')[2]}={options[key]}" for key in sorted(options)]
    return re.sub(r"[^\w.=-]+", "_", "-".join([*words, *told]))
