"""The command `agent-envs paper`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_envs.cli.console import DataTable, make_console
from trainer.cli import Options, make_out_option


def paper(
    name: Annotated[
        str, typer.Argument(help="mgr, istar, has, mt_grpo, stapo, or a TOML file of your own.")
    ],
    table: Annotated[
        str | None, typer.Argument(help="E.g. table1 or figure3; without it all are listed.")
    ] = None,
    options: Options = None,
    *,
    pocket: Annotated[
        bool, typer.Option("--pocket", help="The same table for a small model, on a CPU.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="List the runs, with memory and hours.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Train what is missing; started again it goes on.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A row of the table, may be repeated.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=0, help="Seeds of each cell, 0 for those of the paper.")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    launch: Annotated[
        str, typer.Option(help="Put before each command, e.g. 'torchrun --nproc-per-node 8'.")
    ] = "",
    out: Annotated[
        Path | None,
        make_out_option("Folder of the runs, runs/papers/NAME by default.", folder=True),
    ] = None,
) -> None:
    """Show a table of a paper, or of methods of your own, with results of runs here; make these."""
    from agent_envs_lab import papers
    from agent_envs_lab.papers import plans, results, runs

    page = make_console()
    if table is None:
        listed = DataTable(box=None)
        for column in ("table", "shows"):
            listed.add_column(column)
        for one, about in papers.list_tables(name).items():
            listed.add_row(one, about)
        page.print(listed)
        return
    made = papers.read_table(name, table, options or (), pocket=pocket)
    made = made.keep_rows(only) if only else made
    seeds = seeds or made.spec.seeds
    out = out or Path("runs/papers") / (made.paper + ("-pocket" if pocket else ""))
    if plan:
        page.print(plans.show_plan(made, out, seeds))
        return
    failed = []
    if run:
        failed = runs.train_missing(made, out, seeds, jobs=jobs, launch=launch, tell=page.print)
    found = results.collect(made, out, seeds)
    page.print(results.show_table(made, found, seeds))
    if only:
        page.print("a part of the table, so its page and JSON stay as they are")
    elif any(one.values for row in found for one in row):
        figure = ""
        if made.spec.curves:
            from agent_envs_lab.papers.figures import draw_curves

            figure = draw_curves(made, out, seeds)
        page.print(f"page    {results.save(made, found, out, seeds, figure)}", soft_wrap=True)
    if failed:
        page.print(f"{len(failed)} runs failed; see {', '.join(failed)}")
        raise typer.Exit(1)
