"""The command `agent-envs recipes`."""

import os
from contextlib import suppress
from typing import Annotated

import typer
from rich.table import Table

from agent_envs.cli.console import make_console


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

    page = make_console()
    if recipe:
        composed = shipped.compose(recipe)
        if any(os.path.isfile(word) for word in recipe):
            with suppress(ModuleNotFoundError):  # without torch the settings are shown unchecked
                from trainer.recipe import parse

                parse(composed.tree())
        table = Table(box=None)
        for column in ("option", "value", "set by", "source"):
            table.add_column(column, no_wrap=column != "source")
        for key, setting in sorted(composed.settings.items()):
            table.add_row(shipped.join_key(key), str(setting.value), setting.file, setting.source)
        page.print(table)
        return
    for axis in (*shipped.AXES, shipped.STUDY):
        table = Table(axis, "", box=None)
        for name in shipped.names(axis):
            table.add_row(name, shipped.part(axis, name).about)
        page.print(table, "")
