"""The commands `agent-envs train`, `eval`, `study` and `report`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from agent_envs.cli.console import make_console
from trainer.cli.extras import require_extra

if TYPE_CHECKING:
    from trainer.recipe import Recipe
    from trainer.recipes import Composition

RecipeWords = Annotated[
    list[str],
    typer.Argument(
        metavar="ENVIRONMENT METHOD [MODEL] [KEY=VALUE]...",
        help="Names listed by `agent-envs recipes`, a TOML file or a run folder; then options to "
        "change, e.g. run.seed=1 policy.model=Qwen/Qwen2.5-1.5B-Instruct.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="Options to change, e.g. run.seed=1 data=/path/to/games."
    ),
]


Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="[wandb|trackio]",
        help="Copy the log there as well, may be repeated; TensorBoard is always written.",
        show_default=False,
    ),
]

DEFAULT = "alfworld mgr pocket"
READ = (
    *("env", "prompt", "partner", "engine", "eval", "run.seed", "run.threads"),
    *("policy.lora", "policy.dtype", "policy.device"),
    *("sampling.rows", "sampling.actors", "sampling.decode"),
    *("sampling.max_tokens", "sampling.max_reply_tokens", "sampling.failures"),
)
"""Sections and options that an evaluation reads."""
UNREAD = ("env.split", "env.games", "engine.correction", "eval.every")
"""Options of these sections that it does not read."""


class RecipeChoice(NamedTuple):
    """The folder of a run or a composed recipe, and options to change.

    Attributes:
        run: The run folder among the words; None for a recipe of parts.
        parts: What `trainer.recipe.load` reads.
        options: The words `key=value`.
    """

    run: Path | None
    parts: "Path | Composition"
    options: list[str]

    def load(self) -> "Recipe":
        """The recipe with its options; imports torch.

        Raises:
            RecipeError: An option is unknown, or a value is invalid.
        """
        from trainer import recipe as recipes

        return recipes.load(self.parts, self.options)


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return os.path.isfile(Path(folder) / "config.toml")


def choose_recipe(words: Sequence[str]) -> RecipeChoice:
    """The recipe or run that words name; torch is not imported, so a mistake is refused at once.

    Raises:
        RecipeError: A word is unknown, the words are no whole recipe, or there are others beside a
            run folder.
    """
    from trainer.errors import RecipeError
    from trainer.recipes import compose

    options = [word for word in words if "=" in word and not os.path.exists(word)]
    names = [word for word in words if word not in options]
    run = next((Path(name) for name in names if is_run(name)), None)
    if run and len(names) > 1:
        others = ", ".join(repr(name) for name in names if Path(name) != run)
        raise RecipeError(
            f"{run} is a run folder and has its whole recipe, so {others or 'a second one'} cannot "
            "be given beside it; give the folder and options KEY=VALUE, or the parts of a recipe"
        )
    return RecipeChoice(run, run or compose(names), options)


def parse_path(given: str) -> Path:
    """The path of an option, which must not be empty."""
    if not given:
        raise typer.BadParameter("an empty path; leave --out away, or name a folder or file")
    return Path(given)


def train(
    recipe: RecipeWords,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run folder, runs/RECIPE by default.",
            show_default=False,
            parser=parse_path,
            metavar="PATH",
        ),
    ] = None,
    *,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder, if there is one.")
    ] = False,
    track: Track = None,
) -> None:
    """Train with a recipe: warm start, reinforcement learning, evaluation, report."""
    require_extra("train", "train")
    trackers = list_trackers(track)
    given = choose_recipe(recipe)  # before torch is imported, so that mistakes are refused at once
    from trainer.run.checkpoint import check_out
    from trainer.train import train as run

    made = given.load()
    folder = out or given.run or Path("runs") / made.name
    check_out(folder, folder=True)
    page = make_console()
    try:
        run(made, folder, resume=resume, console=page, track=trackers)
    except KeyboardInterrupt as error:
        if os.environ.get("RANK", "0") == "0":
            page.print(
                f"{error or 'stopped'}; continue with: agent-envs train {folder} --resume",
                highlight=False,
                soft_wrap=True,
            )
        raise typer.Exit(getattr(error, "code", 130)) from None
    if os.environ.get("RANK", "0") == "0":
        _print_summary(folder, page)


def list_trackers(names: Sequence[str] | None) -> list[str]:
    """The libraries to copy the log to, each once, if they are known and installed."""
    from agent_envs.panels import one_of
    from trainer.run.metrics import TRACKERS

    for name in names or ():
        one_of("--track", name, TRACKERS)
        require_extra(name, f"--track {name}")
    return list(dict.fromkeys(names or ()))


def evaluate(
    run_or_model: Annotated[str, typer.Argument(help="A run folder, or a model by name or path.")],
    options: Options = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help=f"Recipe to evaluate a model with, {DEFAULT!r} by default; a run has its own.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this saved evaluation, task by task.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the evaluation as JSON.", parser=parse_path, metavar="PATH"),
    ] = None,
) -> None:
    """Play a fixed panel: success with 95% intervals, overall and by task type."""
    require_extra("train", "eval")
    from trainer.build import evaluate_model
    from trainer.run import evaluate as evaluation
    from trainer.run.checkpoint import check_out

    given = check_options(Path(run_or_model), recipe, options or (), READ)
    if out is not None:
        check_out(out, folder=False)
    other = None if against is None else evaluation.load(against)
    result = evaluate_model(*choose_recipe_of(run_or_model, recipe or DEFAULT, given))
    page = make_console()
    if out is not None:  # first, so that nothing is lost where the panels differ
        result.save(out)
        page.print(f"saved in {out}")
    page.print(evaluation.make_table(result, before=other))


def choose_recipe_of(
    run_or_model: str, recipe: str, options: Sequence[str]
) -> tuple["Recipe", Path | None]:
    """The recipe of a run and its folder, or that of a model."""
    from trainer import recipe as recipes

    if is_run(run_or_model):
        run = Path(run_or_model)
        return recipes.load(run, options), run
    made = recipes.load(recipe, options)
    return replace(made, policy=replace(made.policy, model=run_or_model)), None


def check_options(
    folder: Path, recipe: str | None, options: Sequence[str], read: Sequence[str]
) -> Sequence[str]:
    """The options, if they are among those that are `read`, and the recipe is.

    Raises:
        RecipeError: They are not.
    """
    from trainer import recipe as recipes
    from trainer.errors import RecipeError

    run = is_run(folder)
    if run and recipe is not None:
        raise RecipeError(
            f"--recipe is for a model, and {folder} is a run, which has its own; leave it out"
        )
    for key in map(recipes.key_of, options):
        if key in UNREAD or not any(f"{key}.".startswith(f"{one}.") for one in read):
            raise RecipeError(
                f"an evaluation does not read {key}; leave it out. It reads {', '.join(read)}, "
                f"without {', '.join(UNREAD)}"
            )
        if run and key.startswith("policy.lora"):
            raise RecipeError(f"{folder} has its own adapters; leave {key} out")
    return options


def report(run: Annotated[Path, typer.Argument(help="A run folder.")]) -> None:
    """Write report.html into a run folder, also while the run is still going."""
    require_extra("report", "report")
    from trainer.run.report import write

    typer.echo(write(run))


def _print_summary(folder: Path, page: Console) -> None:
    """Print start and end of a run, and the paths of its files."""
    from trainer.run.evaluate import make_table
    from trainer.run.run_folder import evaluations_of

    found, _ = evaluations_of(folder)
    if found:
        (first, start), (last, end) = found[0], found[-1]
        page.print(f"\nevaluation, step {first} against step {last}" if last > first else "")
        page.print(make_table(end, before=start if last > first else None))
    page.print(f"run     {folder}\nreport  {folder / 'report.html'}", highlight=False)
