"""The command `agent-envs new`: an environment of your own that can be played and trained."""

from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from agent_envs.cli.console import make_console

TEMPLATE = Path(__file__).parent / "template"
"""A small environment with its Explorer, recipe and test."""


def new(
    name: Annotated[
        str, typer.Argument(help="Name of the environment and its files, e.g. help_desk.")
    ],
) -> None:
    """Write a small environment with Explorer, recipe and test into this folder, to be changed."""
    usable = name.isidentifier() and not iskeyword(name) and name.strip("_")
    if not usable or name != name.lower():
        raise typer.BadParameter(
            f"{name!r} cannot name a module; use small letters, digits and _, such as help_desk"
        )
    title = "".join(word.title() for word in name.split("_"))
    texts = {
        Path(file.name.replace("my_world", name)): file.read_text(encoding="utf-8")
        for file in sorted(TEMPLATE.glob("*my_world.*"))
    }
    if taken := [str(path) for path in texts if path.exists()] or find_spec(name):
        what = f"{', '.join(taken)} exists" if isinstance(taken, list) else f"{name!r} is a module"
        raise typer.BadParameter(f"{what} already; choose another name, or work in another folder")
    for path, text in texts.items():
        path.write_text(text.replace("MyWorld", title).replace("my_world", name), encoding="utf-8")
    world = f"{name}:{title}"
    make_console().print(
        f"wrote {', '.join(map(str, texts))}; next:\n"
        f"  agent-envs play {world}\n"
        f"  python -m pytest test_{name}.py\n"
        f"  agent-envs audit {world}\n"
        f"  agent-envs train {name}.toml"
    )
