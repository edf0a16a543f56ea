"""The command line: all commands, and the options of `agent-envs` itself."""

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from agent_envs_adapters.cli import serve
from agent_envs_lab.cli.compare import compare
from agent_envs_lab.cli.doctor import doctor
from agent_envs_lab.cli.truth import truth
from trainer.cli import retrieval
from trainer.cli.assets import assets
from trainer.cli.audit import audit
from trainer.cli.play import play
from trainer.cli.recipes import recipes
from trainer.cli.train import evaluate, report, study, train

app = typer.Typer(
    name="agent-envs",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command("eval")(evaluate)
app.command()(study)
app.command()(report)
app.command()(compare)
app.command()(truth)
app.command()(recipes)
app.command()(play)
app.command()(serve)
app.command()(audit)
app.command()(doctor)
app.command()(assets)
app.add_typer(retrieval.app, name="retrieval")


def _print_version(given: bool) -> None:
    if given:
        try:
            typer.echo(f"agent-envs {version('agent-envs')}")
        except PackageNotFoundError:
            typer.echo("agent-envs (not installed, run from a folder)")
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
