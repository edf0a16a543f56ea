"""The command `agent-envs play`."""

from typing import Annotated

import typer

from trainer.assignment import assignment, check_not_own


def play(
    env: Annotated[
        str, typer.Argument(help="An environment by id, name, or package.module:Class.")
    ] = "alfworld",
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Arguments of the environment, e.g. split=valid_unseen."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the episode.")] = None,
    task: Annotated[str | None, typer.Option(help="Number or id of the task.")] = None,
    port: Annotated[int, typer.Option(help="Port for --browser, 0 for a free one.")] = 0,
    *,
    browser: Annotated[
        bool, typer.Option("--browser", help="Play WebShop as a site in your browser instead.")
    ] = False,
) -> None:
    """Play an environment yourself and watch validity, progress, anchor and goal."""
    from trainer.cli import game

    check_not_own(given := dict(map(assignment, options or ())), "seed", "task", "port", "browser")
    number = int(task) if task and task.isdecimal() else task
    env_kwargs = given
    if browser:
        game.browse(env, seed=seed, task=number, env_kwargs=env_kwargs, port=port)
    else:
        game.play(env, seed=seed, task=number, env_kwargs=env_kwargs)
