"""The command `agent-envs doctor`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from trainer.cli.console import console
from trainer.cli.extras import require_extra

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor(
    recipe: Annotated[
        list[str],
        typer.Argument(
            metavar="ENVIRONMENT METHOD [MODEL] [KEY=VALUE]...",
            help="As for `agent-envs train`.",
        ),
    ],
) -> None:
    """Check a recipe before it costs hours: data, model, memory, engine, signal, time."""
    require_extra("train", "doctor")
    from trainer import recipes as shipped

    options = [word for word in recipe if "=" in word and not Path(word).exists()]
    words = [word for word in recipe if word not in options]
    own = next((Path(word) for word in words if (Path(word) / "config.toml").is_file()), None)
    parts = own or shipped.compose(words)
    from trainer import recipe as recipes
    from trainer.doctor import examine

    printed, failed = console(), False
    for state, what, said in examine(recipes.load(parts, options)):
        line = Table.grid(padding=(0, 1))
        line.add_column(width=7, style=_COLOURS[state])
        line.add_column(width=17)
        line.add_row(state, what, Text(said))
        printed.print(line)
        failed |= state == "error"
    raise typer.Exit(int(failed))
