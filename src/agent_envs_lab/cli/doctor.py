"""The command `agent-envs doctor`."""

import typer
from rich.table import Table
from rich.text import Text

from agent_envs.cli.console import make_console
from trainer.cli import RecipeWords, load_recipe

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor(recipe: RecipeWords) -> None:
    """Check a recipe before it costs hours: data, model, memory, engine, signal, time."""
    made, _ = load_recipe(recipe)
    from agent_envs_lab.doctor import examine

    printed, failed = make_console(), False
    for state, what, said in examine(made):
        line = Table.grid(padding=(0, 1))
        line.add_column(width=7, style=_COLOURS[state])
        line.add_column(width=17)
        line.add_row(state, what, Text(said))
        printed.print(line)
        failed |= state == "error"
    raise typer.Exit(int(failed))
