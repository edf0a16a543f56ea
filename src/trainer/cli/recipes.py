"""The command `agent-envs recipes`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def recipes(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENVIRONMENT METHOD [MODEL]]", help="Show the settings of this recipe instead."
        ),
    ] = None,
) -> None:
    """List environments, methods, models and studies, or the settings of a recipe."""
    from trainer import recipes as shipped

    console = Console()
    if recipe:
        table = Table(box=None)
        for column in ("option", "value", "set by"):
            table.add_column(column, no_wrap=True)
        table.add_column("source")
        for key, setting in sorted(shipped.compose(recipe).settings.items()):
            table.add_row(".".join(key), str(setting.value), setting.file, setting.source)
        console.print(table)
        return
    for axis in (*shipped.AXES, shipped.STUDY):
        table = Table(axis, "", box=None)
        for name in shipped.names(axis):
            table.add_row(name, shipped.part(axis, name).about)
        console.print(table, "")
