"""The app of `agent-envs`. Its commands are entry points of the installed packages."""

import os
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from agent_envs import __version__

COMMANDS = "agent_envs.commands"
"""The group of entry points whose objects are commands: functions, or Typer apps of several."""
_PANELS = {
    "Start": ("play", "new", "recipes", "assets"),
    "Train": ("doctor", "train", "report", "eval", "compare", "paper"),
    "Measure": ("audit", "truth", "attribute"),
    "Serve": ("serve", "retrieval"),
}
_ORDER = [(name, panel) for panel, names in _PANELS.items() for name in names]
"""The commands as `agent-envs --help` lists them; those of other packages follow."""


class Command(TyperCommand):
    """A command that explains options of a recipe that are written with dashes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer, which would say of `--steps 5` only that there is no such option."""
        known = {"--help", *(o for p in self.params for o in p.opts if o.startswith("-"))}
        takes = any("KEY=VALUE" in str(getattr(one, "metavar", "")) for one in self.params)
        for name in (word.partition("=")[0] for word in args if takes):
            if name.startswith("--") and name not in known:
                raise typer.BadParameter(
                    f"no option {name}; this command has {', '.join(sorted(known))}, and those of "
                    f"a recipe or environment have no dashes: {name[2:].replace('-', '_')}=VALUE"
                )
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="agent-envs", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
_points = {one.name: one for one in entry_points(group=COMMANDS)}
for _name, _panel in [*_ORDER, *((one, "Commands") for one in _points if one not in dict(_ORDER))]:
    if _name in _points:  # of a package that is installed
        _command = _points[_name].load()
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, cls=Command, rich_help_panel=_panel)(_command)


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
