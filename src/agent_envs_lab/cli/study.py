"""The commands `agent-envs study` and `agent-envs attribute`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_envs.cli.console import make_console
from trainer.cli import (
    READ,
    Options,
    RecipeOfModel,
    RunOrModel,
    Track,
    load_played,
    make_out_option,
)


def study(
    name: Annotated[str, typer.Argument(help="E.g. household; an unknown name lists all.")],
    options: Options = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="A method of the study, may be repeated; all by default."),
    ] = None,
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each method.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    level: Annotated[
        float, typer.Option(help="Count rollouts up to this success in training.")
    ] = 0.6,
    curve: Annotated[str, typer.Option(help="A logged value to draw over training.")] = "valid",
    out: Annotated[
        Path | None,
        make_out_option(
            "Folder, runs/study/NAME by default; a study in it is continued.", folder=True
        ),
    ] = None,
    track: Track = None,
) -> None:
    """Compare methods over several seeds with equal budgets: tables and one figure."""
    from agent_envs_lab.study import results, runs, save, table

    if not 0 <= level <= 1:  # typer's limits let NaN pass
        raise typer.BadParameter(f"--level is a success in [0, 1], got {level}")
    labels = methods or list(runs.read_study(name))
    out = out or Path("runs/study") / name
    runs.run(name, labels, seeds, out, options or (), jobs=jobs, curve=curve, track=track or ())
    found = results.collect(labels, seeds, out, level=level)
    save(found, out, level=level, seeds=seeds, curve=curve)
    page = make_console()
    page.print(table(found, level=level))
    page.print(f"figure  {out / 'study.svg'}")


def attribute(
    run_or_model: RunOrModel, options: Options = None, recipe: RecipeOfModel = None
) -> None:
    """Show how much decisions depend on goal, history and observation.

    Of a run, before and after reinforcement learning.
    """
    from agent_envs_lab.attribution import attribute_model, table
    from trainer.run.checkpoint import CheckpointError, Checkpoints

    made, run = load_played(run_or_model, recipe, options or (), (*READ, "update.tokens"))
    if run is None:
        found = {run_or_model: attribute_model(made)}
    elif steps := Checkpoints(run / "checkpoints").steps():
        found = {
            f"step {step}": attribute_model(made, run / "checkpoints" / f"step_{step}")
            for step in dict.fromkeys((steps[0], steps[-1]))
        }
    else:
        raise CheckpointError(f"{run} has no checkpoint yet; train on with --resume")
    make_console().print(table(found))
