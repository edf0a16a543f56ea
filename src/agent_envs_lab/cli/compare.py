"""The command `agent-envs compare`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_envs.cli.console import make_console


def compare(
    first: Annotated[Path, typer.Argument(help="A run folder.")],
    second: Annotated[Path, typer.Argument(help="Another, evaluated on the same tasks.")],
    *,
    step: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Compare evaluations of this step, the last ones by default.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Compare two runs task by task: difference of success, its 95% interval, an exact test."""
    from agent_envs_lab.compare import side, table

    make_console().print(table(side(first, step), side(second, step)))
