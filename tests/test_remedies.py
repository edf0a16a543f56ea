"""What errors and warnings advise exists: options, commands, flags, extras, pages, variables."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer.main

from agent_envs.cli.app import app
from trainer.recipe import Recipe, _options, load
from trainer.run.checks import _is_fork, _is_free

ROOT = Path(__file__).parents[1]
SECTIONS = {key.partition(".")[0] for key in _options(Recipe) if "." in key}
KEY = rf"(?<![\w./])((?:{'|'.join(sorted(SECTIONS))})(?:\.[a-z_]+)+)"
OPTION = re.compile(rf"{KEY}(?![\w(:]|\.\w)")
VALUE = re.compile(rf"{KEY}=([^\s,;:()`{{}}]+)")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
COMMANDS = typer.main.get_command(app).commands


def flags_of(command):
    """The flags of a command and of those below it."""
    below = getattr(command, "commands", {}).values()
    return {name for one in command.params for name in one.opts}.union(*map(flags_of, below))


FLAGS = set.union(*map(flags_of, COMMANDS.values())) | {"--help", "--version"}


@cache
def messages():
    """The texts that are raised, warned or said, with their files; fields are "{}"."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        inner = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
        for node in ast.walk(tree):
            if id(node) in docs | inner:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(v, "value", "") for v in node.values]
                found.append((path, "".join(p if isinstance(p, str) else "{}" for p in parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((path, node.value))
    return [(str(path.relative_to(ROOT)), text) for path, text in found if " " in text]


def options(text):
    return [
        key for key in OPTION.findall(text) if not key.startswith(("env.unwrapped", "env.spec"))
    ]


def lacking_option(text):
    known = [f"{key}." for key in _options(Recipe)]
    own = "env.options.", "env.wrappers.", "credit.options.", "credit.models.", "engine.options."
    return [
        key
        for key in options(text)
        if not f"{key}.".startswith(own) and not any(f"{key}." in f".{one}" for one in known)
    ]


def refused_value(text):
    """What `key=value` of a message the recipe refuses."""
    given = (f"{key}={value.rstrip('.')}" for key, value in VALUE.findall(text))
    return [one for one in given if not loads(one)]


@cache
def loads(given):
    try:
        return bool(load("alfworld mgr pocket", [given]))
    except ValueError:
        return False


def lacking_command(text):
    named = re.findall(r"(?:`|with: |with )agent-envs ([a-z]\w*)", text)
    return [name for name in named if name not in COMMANDS]


def lacking_flag(text):
    if re.search(r"`ray |VLLM_|servers with|pip install --|nproc-per-node", text):
        return []  # of other programs
    return [flag for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text) if flag not in FLAGS]


def lacking_extra(text):
    named = re.findall(r"(?:agent-envs|'\.)\[([\w,-]+)\]", text)
    return [extra for names in named for extra in names.split(",") if extra not in EXTRAS]


def lacking_page(text):
    return [page for page in re.findall(r"docs/[\w/]+\.md", text) if not (ROOT / page).is_file()]


def refused_on_resume(text):
    """Options that a message advises together with --resume, and that resume refuses."""
    if "--resume" not in text or re.search(r"anew|new run|same\s+recipe", text):
        return []
    return [key for key in options(text) if not (_is_free(key) or _is_fork(key))]


PLANTED = (
    "run `agent-envs tran --rseume`, install agent-envs[nosuch], see docs/no.md, or --resume "
    "with a higher update.clip_low=2 or update.nosuch"
)
KINDS = [
    lacking_option, refused_value, lacking_command, lacking_flag, lacking_extra, lacking_page,
    refused_on_resume,
]  # fmt: skip


@pytest.mark.parametrize("find", KINDS)
def test_what_a_message_advises_exists(find):
    assert not [(file, found, text) for file, text in messages() if (found := find(text))]
    assert find(PLANTED)


def test_messages_are_found():
    assert sum(bool(options(text)) for _, text in messages()) > 50
