"""The command `agent-envs truth`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_envs.cli.console import make_console
from trainer.cli import RecipeWords, is_run, load_recipe, make_out_option

Measured = Annotated[
    Path | None,
    typer.Option(
        help="A run folder, whose newest checkpoint is measured, or a checkpoint. By default the "
        "recipe's model as it is, or the run itself where the recipe is a run folder.",
        show_default=False,
    ),
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="Value every state by rollouts alone, with fresh noise: for a world that draws at "
        "random. Takes several times the rollouts.",
    ),
]
Gradients = Annotated[
    bool,
    typer.Option(
        "--gradients",
        help="Also compare the noise of the methods' policy gradients. Takes a backward pass for "
        "each turn; can be added to a finished measurement.",
    ),
]
Folder = Annotated[
    Path | None,
    make_out_option(
        "Folder, RUN/truth or runs/truth/RECIPE by default; a measurement goes on.", folder=True
    ),
]


def truth(
    recipe: RecipeWords,
    policy: Measured = None,
    *,
    groups: Annotated[int, typer.Option(min=2, help="Tasks, each with sampling.rollouts.")] = 24,
    reliability: Annotated[
        float, typer.Option(help="Add rollouts until the advantages are so reliable.")
    ] = 0.8,
    most: Annotated[
        float, typer.Option(help="Turns of such rollouts at most, for each turn measured.")
    ] = 60.0,
    fresh: Annotated[
        int, typer.Option(min=0, help="Fresh rollouts of each task, which check V at the start.")
    ] = 8,
    plain: Plain = False,
    gradients: Gradients = False,
    jobs: Annotated[
        int, typer.Option(min=0, help="Processes; 0 for one on each core. Results are the same.")
    ] = 0,
    out: Folder = None,
) -> None:
    """Measure the true advantage of every turn, and rank the credit methods by it."""
    from agent_envs_lab.truth.run import Plan, measure, source_of

    plan = Plan(groups, reliability, most, fresh, plain, gradients)
    made, given = load_recipe(recipe)
    weights = policy or given
    source = None if weights is None else source_of(weights)
    run = _run(policy, given)
    folder = out or (run / "truth" if run else Path("runs/truth") / made.name)
    page = make_console()
    try:
        result = measure(made, folder, plan, source=source, jobs=jobs, console=page)
    except KeyboardInterrupt:
        page.print(f"stopped; the same command with --out {folder} goes on", soft_wrap=True)
        raise typer.Exit(130) from None
    from agent_envs_lab.truth.figures import publish

    page.print(publish(result, folder))
    if run is not None and out is None:
        from trainer.run.report import write

        page.print(f"report  {write(run)}", soft_wrap=True)


def _run(policy: Path | None, own: Path | None) -> Path | None:
    """The run whose policy is measured; a checkpoint alone has none."""
    return policy if policy is not None and is_run(policy) else own
