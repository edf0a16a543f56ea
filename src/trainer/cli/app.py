"""The command line: all commands, `agent-envs recipes`, and the options of `agent-envs` itself."""

import os
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Annotated

import typer
from rich.table import Table

from agent_envs import __version__
from agent_envs.cli.console import make_console
from trainer.cli.train import evaluate, report, train

app = typer.Typer(
    name="agent-envs",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command("eval")(evaluate)
app.command()(report)


@app.command()
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


COMMANDS = "agent_envs.commands"
"""The group of entry points whose objects are commands: functions, or Typer apps of several."""


for _point in entry_points(group=COMMANDS):
    _command = _point.load()
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_point.name)
    else:
        app.command(_point.name)(_command)


def _print_version(given: bool) -> None:
    if given:
        typer.echo(f"agent-envs {__version__}")
        raise typer.Exit


@app.callback()
def command_line(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Environments, credit and a reference trainer for language-model agents."""
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    if several and context.invoked_subcommand not in {None, "train"}:
        raise ValueError(
            f"`{context.invoked_subcommand}` runs in one process, but $WORLD_SIZE is "
            f"{os.environ['WORLD_SIZE']}: only `train` runs under torchrun"
        )
