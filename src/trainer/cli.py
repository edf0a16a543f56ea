"""The commands `agent-envs train`, `eval`, `report` and `recipes`."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from agent_envs.assets import require
from agent_envs.cli.console import DataTable, make_console

if TYPE_CHECKING:
    from trainer.recipe import Recipe

RecipeWords = Annotated[
    list[str],
    typer.Argument(
        metavar="ENVIRONMENT METHOD [MODEL] [paper=NAME] [KEY=VALUE]...",
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


def _parse_tracker(name: str) -> str:
    if name not in {"wandb", "trackio"}:
        raise typer.BadParameter(f"it is wandb or trackio, got {name!r}")
    require(name, name)
    return name


Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="[wandb|trackio]",
        parser=_parse_tracker,
        help="Copy the log there as well, may be repeated; TensorBoard is always written.",
        show_default=False,
    ),
]
RunOrModel = Annotated[
    str, typer.Argument(help="A run folder, or a model by name or path.", metavar="RUN_OR_MODEL")
]

DEFAULT = "alfworld mgr pocket"
READ = (
    *("env", "prompt", "partner", "engine", "eval", "run.seed", "run.threads"),
    *("policy.lora", "policy.dtype", "policy.device", "policy.template"),
    *("sampling.rows", "sampling.actors", "sampling.decode"),
    *("sampling.max_tokens", "sampling.max_reply_tokens", "sampling.failures"),
)
"""Sections and options that an evaluation reads."""
UNREAD = ("env.split", "env.games", "engine.correction", "eval.every")
"""Options of these sections that it does not read."""


RecipeOfModel = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help=f"Recipe to play a model with, {DEFAULT!r} by default; a run has its own.",
        show_default=False,
    ),
]


def make_out_option(help_text: str, *, folder: bool) -> Any:
    """The option `--out` of a command, a folder or file that can be written; nothing is yet."""

    def parse_path(given: str) -> Path:
        path, kind = Path(given), "folder" if folder else "file"
        place = path if folder else path.parent
        if not given or (path.exists() and path.is_dir() != folder):
            raise typer.BadParameter(f"{given!r} is no {kind}; name a {kind}, or leave --out away")
        try:
            while not place.exists():
                place = place.parent
            TemporaryFile(dir=place).close()
        except OSError as error:
            raise typer.BadParameter(
                f"nothing can be written in {place} ({error.strerror}); give another path"
            ) from error
        return path

    return typer.Option(
        "--out", help=help_text, show_default=False, parser=parse_path, metavar="PATH"
    )


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return os.path.isfile(Path(folder) / "config.toml")


def load_recipe(
    words: Sequence[str], say: Callable[[str], object] | None = None
) -> tuple["Recipe", Path | None]:
    """The recipe that words name, and the run folder if one is among them.

    The words are looked up before torch is imported, so that a mistake is refused at once.

    Args:
        words: As in `RecipeWords`.
        say: With it a shipped recipe is fitted to this machine for a model folder of the user's
            own, and each change is said.

    Raises:
        RecipeError: A word or option is unknown, the words are no whole recipe, or there are others
            beside a run folder.
    """
    from trainer.errors import RecipeError
    from trainer.recipes import PAPER, compose
    from trainer.recipes import names as known

    options = [
        word
        for word in words
        if "=" in word and not word.startswith(PAPER) and not os.path.exists(word)
    ]
    names = [word for word in words if word not in options]
    run = next((Path(name) for name in names if is_run(name)), None)
    if run and len(names) > 1:
        raise RecipeError(
            f"{run} is a run folder and has its whole recipe, got {' '.join(names)}; give the "
            "folder and options KEY=VALUE, or the parts of a recipe"
        )
    parts = run or compose(names, options)
    from trainer import recipe as recipes

    made = recipes.load(parts, options)
    own = os.path.isdir(made.policy.model) and "policy.model" in map(recipes.key_of, options)
    if (
        say is None
        or run
        or not own
        or {*names} & {*known("model")}
        or any(map(os.path.isfile, names))
    ):
        return made, run
    from trainer.run.needs import fit_recipe

    made, changed = fit_recipe(partial(recipes.load, parts), options)
    for line in changed:
        say(f"fitted to this machine: {line}")
    return made, None


def train(
    recipe: RecipeWords,
    out: Annotated[
        Path | None, make_out_option("Run folder, runs/RECIPE by default.", folder=True)
    ] = None,
    *,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder, if there is one.")
    ] = False,
    track: Track = None,
) -> None:
    """Train with a recipe: warm start, reinforcement learning, evaluation, report."""
    page, is_first = make_console(), os.environ.get("RANK", "0") == "0"
    page.quiet = not is_first
    made, given = load_recipe(recipe, partial(page.print, soft_wrap=True))
    from trainer.train import train as run

    folder = out or given or Path("runs") / made.name
    try:
        run(made, folder, resume=resume, console=page, track=track or ())
    except KeyboardInterrupt as error:
        if is_first:
            more = f"; continue with: agent-envs train {folder} --resume" if is_run(folder) else ""
            page.print(f"{str(error) or 'stopped'}{more}", soft_wrap=True)
        raise typer.Exit(getattr(error, "code", 130)) from None
    if is_first:
        _print_summary(folder, page)


def evaluate(
    run_or_model: RunOrModel,
    options: Options = None,
    recipe: RecipeOfModel = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this saved evaluation, task by task.")
    ] = None,
    out: Annotated[
        Path | None, make_out_option("Save the evaluation as JSON.", folder=False)
    ] = None,
    *,
    endpoint: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Play with a chat model behind an OpenAI-compatible server, e.g. "
            "https://api.openai.com/v1; the key is in $OPENAI_API_KEY.",
        ),
    ] = "",
    form: Annotated[
        str, typer.Option(help="Prompt of that model: react or reflexion; else the recipe's own.")
    ] = "",
) -> None:
    """Play a fixed panel: success with 95% intervals, overall and by task type."""
    from agent_envs import evaluation

    other = None if against is None else evaluation.load(against)
    if endpoint:
        from trainer.play.prompted import evaluate_player, load_player

        player = load_player(run_or_model, endpoint, form, recipe or DEFAULT, options or ())
        result = evaluate_player(player, out)
    elif form:
        raise typer.BadParameter(f"--form {form} is for a model behind --endpoint URL")
    else:
        from trainer.build import evaluate_model

        result = evaluate_model(*load_played(run_or_model, recipe, options or (), READ))
    page = make_console()
    if out is not None:  # first, so that nothing is lost where the panels differ
        result.save(out)
        page.print(f"saved in {out}", soft_wrap=True)
    page.print(evaluation.make_table(result, before=other))


def load_played(
    run_or_model: str, recipe: str | None, options: Sequence[str], read: Sequence[str]
) -> tuple["Recipe", Path | None]:
    """The recipe of a run and its folder, or that of a model.

    Raises:
        RecipeError: An option is not among those that are `read`, or is that of a run.
    """
    from trainer import recipe as recipes
    from trainer.errors import RecipeError

    run = Path(run_or_model) if is_run(run_or_model) else None
    if run and recipe is not None:
        raise RecipeError(
            f"--recipe is for a model, and {run} is a run, which has its own; leave it out"
        )
    for key in map(recipes.key_of, options):
        if key in UNREAD or not any(f"{key}.".startswith(f"{one}.") for one in read):
            raise RecipeError(
                f"an evaluation does not read {key}; leave it out. It reads {', '.join(read)}, "
                f"without {', '.join(UNREAD)}"
            )
        if run and key.startswith("policy.lora"):
            raise RecipeError(f"{run} has its own adapters; leave {key} out")
    made = recipes.load(run or recipe or DEFAULT, options)
    if run is None:
        made = replace(made, policy=replace(made.policy, model=run_or_model))
    return made, run


def report(run: Annotated[Path, typer.Argument(help="A run folder.")]) -> None:
    """Write report.html into a run folder, also while the run is still going."""
    from trainer.run.report import write

    make_console().print(write(run), soft_wrap=True)


def recipes(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENVIRONMENT METHOD [MODEL] [paper=NAME]]",
            help="Show the settings of this recipe instead.",
        ),
    ] = None,
) -> None:
    """List environments, papers, methods and models, or the settings of a recipe."""
    from trainer import recipes as shipped

    page = make_console()
    if recipe:
        composed = shipped.compose(recipe)
        if any(os.path.isfile(word) for word in recipe):
            with suppress(ModuleNotFoundError):  # without torch the settings are shown unchecked
                from trainer.recipe import parse

                parse(composed.tree())
        table = DataTable(box=None)
        for column in ("option", "value", "set by", "source"):
            table.add_column(column, no_wrap=column != "source")
        for key, setting in sorted(composed.settings.items()):
            table.add_row(shipped.join_key(key), str(setting.value), setting.file, setting.source)
        page.print(table)
        return
    for axis in shipped.AXES:
        table = DataTable(axis, "", box=None)
        for name in shipped.names(axis):
            table.add_row(name, shipped.part(axis, name).about)
        page.print(table, "")


def _print_summary(folder: Path, page: Console) -> None:
    """Print start and end of a run, and the paths of its files."""
    from agent_envs.evaluation import make_table
    from trainer.run.run_folder import RunFolder

    found = RunFolder(folder).read_evaluations()
    if found:
        (first, start), (last, end) = found[0], found[-1]
        page.print(f"\nevaluation, step {first} against step {last}" if last > first else "")
        page.print(make_table(end, before=start if last > first else None))
    page.print(f"run     {folder}\nreport  {folder / 'report.html'}", soft_wrap=True)
