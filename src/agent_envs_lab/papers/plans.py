"""What the runs of a table need: data, and memory and hours by arithmetic, without the models.

`agent-envs doctor` measures the same for one recipe on the machine that has its model.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import credit
from agent_envs import evaluation
from agent_envs_lab.papers.results import Blocks
from agent_envs_lab.papers.runs import list_missing, load_recipe, write_command
from trainer.build import check_apart, make_held_out, make_rollouts
from trainer.run.needs import Shape, estimate_needs, find_memory

if TYPE_CHECKING:
    from agent_envs_lab.papers import Table
    from trainer.recipe import Recipe


def list_shapes() -> dict[str, Shape]:
    """The models of the papers, by name."""
    table = tomllib.loads((Path(__file__).parent / "models.toml").read_text(encoding="utf-8"))
    return {name: Shape(**numbers) for name, numbers in table.items()}


def show_plan(table: Table, out: Path, seeds: int) -> Any:
    """The runs of a table for a terminal: state, size, memory, hours."""
    from rich.console import Group

    from agent_envs.cli.console import show_data

    missing = [(run.name, state) for run, _, state in list_missing(table, out, seeds)]
    rows = [["run", "to do", "steps", "episodes", "model", "GiB", "A100 hours", ""]]
    shapes, there, total = list_shapes(), find_memory(), 0.0
    tried: dict[str, str] = {}
    stuck: dict[str, list[str]] = {}
    for run in table.runs:
        recipe = load_recipe(run, 0)
        left = [state for name, state in missing if name == run.name]
        needs = repr((recipe.env, recipe.eval, recipe.prompt, recipe.credit))
        if left and needs not in tried:
            tried[needs] = _find_obstacle(recipe)
        if left and tried[needs]:
            stuck.setdefault(tried[needs], []).append(run.name)
        shape = shapes.get(recipe.policy.model)
        memory = hours = note = ""
        if shape:
            need = estimate_needs(recipe, shape)
            total += need.hours * len(left)
            memory, hours = f"{need.memory:,.0f}", f"{need.hours * len(left):,.0f}"
            if need.memory > there:
                note = f"{need.memory - there:,.0f} GiB more than here"
        steps = f"{recipe.sft.steps} + {recipe.run.steps}" if recipe.sft.steps else recipe.run.steps
        size = f"{recipe.sampling.tasks} × {recipe.sampling.rollouts}"
        todo = f"{len(left)} of {seeds}"
        rows.append([run.name, todo, str(steps), size, recipe.policy.model, memory, hours, note])
    cells = [cell for row in table.cells for cell in row]
    told = [cell.why for cell in cells if cell.run is None and cell.why and not cell.prompted]
    asked = [write_command(cell, out) for cell in cells if cell.prompted]
    notes = [
        f"{len(missing)} runs to do; about {total:,.0f} hours of an A100; {there:,.0f} GiB here.",
        (
            "Estimates, of models of known size: half the turns and a quarter of the reply limit, "
            "64 episodes sampled at once (sampling.rows); without evaluations."
        ),
        *(f"cannot start: {', '.join(names)}: {why}" for why, names in stuck.items()),
        *(f"no run: {why}" for why in dict.fromkeys(told)),
        *(f"prompted: {command}" for command in dict.fromkeys(asked)),
    ]
    if any("data" in why for why in stuck):
        notes.append("Data are given by environment, as in webshop.data=FOLDER.")
    return Group(
        show_data(f"{table.name}: {table.spec.about}"), "", Blocks(rows), *map(show_data, notes)
    )


def _find_obstacle(recipe: Recipe) -> str:
    """Why a run cannot start: a wrong option of its method, or missing data; "" if it can."""
    try:
        if (name := recipe.credit.name) in credit.names():
            credit.make(name, **recipe.credit.options)
        panel = make_rollouts(recipe, recipe.env.split).panel
        training = evaluation.draw_panel(panel, recipe.env.games, "env.games")
        held_out = make_held_out(recipe).panel
        check_apart(training, evaluation.draw_panel(held_out, recipe.eval.tasks))
    except (OSError, ValueError) as error:
        return str(error)
    return ""
