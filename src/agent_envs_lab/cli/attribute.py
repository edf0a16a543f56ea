"""The command `agent-envs attribute`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_envs.cli.console import make_console
from trainer.cli import READ, Options, RecipeOfModel, RunOrModel, load_played, make_out_option


def attribute(
    run_or_model: RunOrModel,
    options: Options = None,
    recipe: RecipeOfModel = None,
    *,
    rollouts: Annotated[
        int, typer.Option(min=1, help="Rollouts of each task; with several, states are compared.")
    ] = 1,
    against: Annotated[
        Path | None,
        typer.Option(help="Another run of HAS with TurnRD, to compare its credit, too."),
    ] = None,
    out: Annotated[
        Path | None,
        make_out_option("Save the measures of the last checkpoint as JSON.", folder=False),
    ] = None,
) -> None:
    """Show how much decisions depend on goal, history and observation, and in which turns.

    Of a run, before and after reinforcement learning; of HAS with TurnRD also how its credit of
    held-out turns agrees with their progress.
    """
    from agent_envs_lab.attribution import attribute_model, save, split_truth, table
    from agent_envs_lab.decomposers import compare_decomposers, is_trained
    from trainer.run.checkpoint import Checkpoints, find_latest

    made, run = load_played(run_or_model, recipe, options or (), (*READ, "update.tokens"))
    if run is None:
        found = {run_or_model: attribute_model(made, rollouts=rollouts)}
    else:
        last = find_latest(run)
        steps = [] if out else Checkpoints(last.parent).steps()[:1]
        paths = dict.fromkeys((*(last.with_name(f"step_{step}") for step in steps), last))
        found = {
            path.name.replace("_", " "): attribute_model(made, path, rollouts=rollouts)
            for path in paths
        }
    page = make_console()
    page.print(table(found))
    measures = list(found.values())[-1].list_measures()
    if run is not None and (path := run / "truth" / "truth.parquet").is_file():
        true = split_truth(path)
        for name, values in true.items():
            page.print(f"{name:24} {values.mean():+.3f} of {len(values)} turns, measured truth")
        measures |= true
    if run is not None and (against or is_trained(run, made)):
        agreement = compare_decomposers(run, made, against)
        for name, values in agreement.items():
            page.print(f"{name:24} {values.mean():.3g}, TurnRD of the last checkpoint")
        measures |= agreement
    if out is not None:
        save(measures, out)
        page.print(f"saved in {out}", soft_wrap=True)
