"""The command `agent-envs attribute`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agent_envs.cli.console import make_console
from agent_envs.machine import read_json
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
    from agent_envs.evaluation import describe_mean
    from agent_envs_lab.attribution import attribute_model, save, split_truth, table
    from agent_envs_lab.decomposers import compare_decomposers, is_trained, rank_decomposer
    from trainer.run.checkpoint import Checkpoints, find_latest

    made, run = load_played(run_or_model, recipe, options or (), (*READ, "update.tokens"))
    paths: dict[str, Path | None] = {run_or_model: None}
    if run is not None:
        last = find_latest(run)
        steps = [] if out else Checkpoints(last.parent).steps()[:1]
        every = (*(last.with_name(f"step_{step}") for step in steps), last)
        paths = {path.name.replace("_", " "): path for path in every}
    page = make_console()
    found = {}
    for name, path in paths.items():
        with page.status(f"{name}: playing, then scoring each reply after five prompts"):
            found[name] = attribute_model(made, path, rollouts=rollouts)
    page.print(table(found))
    measures = list(found.values())[-1].list_measures()
    truth = None if run is None else _find_truth(run, last, page)
    if truth:
        true = split_truth(truth)
        tasks = {name[5:]: true.pop(name) for name in list(true) if name.startswith("task_")}
        for name, values in true.items():
            told = describe_mean(values, tasks[name.rpartition("_")[2]].tolist())
            page.print(f"{name:24} {told} of {len(values)} turns, measured truth")
        measures |= true
    if run is not None and (against or is_trained(run, made)):
        agreement = compare_decomposers(run, made, against)
        for name, values in agreement.items():
            page.print(f"{name:24} {values.mean():.3g}, TurnRD of the last checkpoint")
        measures |= agreement
        if truth:
            page.print(rank_decomposer(run, made), soft_wrap=True)
    if out is not None:
        save(measures, out)
        page.print(f"saved in {out}", soft_wrap=True)


def _find_truth(run: Path, policy: Path, page: Console) -> Path | None:
    """The measured truth of a run, if there is one of this checkpoint."""
    found = run / "truth" / "truth.parquet"
    if not found.is_file():
        return None
    of = Path(str(read_json(found.with_name("plan.json"), dict[str, Any]).get("policy"))).name
    if of != policy.name:
        page.print(f"{found} is of {of}, not of {policy.name}: left out", soft_wrap=True)
        return None
    return found
