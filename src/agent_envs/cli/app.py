"""The app of `agent-envs`. Its commands are entry points of the installed packages."""

import os
from importlib.metadata import entry_points
from typing import Annotated

import typer

from agent_envs import __version__

COMMANDS = "agent_envs.commands"
"""The group of entry points whose objects are commands: functions, or Typer apps of several."""

app = typer.Typer(
    name="agent-envs",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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
