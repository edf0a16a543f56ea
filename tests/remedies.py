"""Advice in messages of the product: how it is found, and how a test follows it.

A table has by advice, a part of a message with `{}` for its fields, an operation, what makes it
fail, and what the advice changes, once for each of its alternatives. What is given are arguments
of the operation; `$NAME` is an environment variable, `/NAME` the text of a file in the folder of
the test, None for none, and `{at}` in a text that folder. A change may also be a function of the
match and the folder: for advice that is read from the message or acts on the folder. A text stands
for `words`, those of a recipe or a command; as a change it is added to them.
"""

from __future__ import annotations

import ast
import io
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from agent_envs import cli

ROOT = Path(__file__).parents[1]
VERBS = (
    "accept add ask call change check choose clone close connect continue delete derive draw "
    "drop evaluate fork free get give install keep leave let list log look lower make measure "
    "mend merge move name number open pass play point put raise read record remove rename repeat "
    "replace reset restart restore resume run save see send serve set shorten show start stop "
    "take train try uninstall unset use wait write"
)
SAID = "|".join(f"[{verb[0]}{verb[0].upper()}]{verb[1:]}" for verb in VERBS.split())
ADVICE = re.compile(
    rf"^(?!\w+ {{\w*}}(?:$| to | from | in/))(?:.*(?:[;.:?] |, |\bor |\band |\bso |\())?"
    rf"(?:{SAID})\b(?![=.(:]| of\b)|did you mean|pip (?:un)?install|--resume|`agent-envs"
)
HELP = ("Option", "Argument", "make_out_option", "Typer", "ArgumentParser", "add_argument")
# What an agent reads, not a user: observations, prompts, actions and notices of environments.
AGENT = re.compile(
    r"/prompt\.py|(?:experts|webshop/oracle)\.py|cli/template|appworld/(?:api|apps|guest|session|interpreter|world)|"
    r"alfworld/(?:world|distance)|search_qa/(?:search_r1|answers|mt_grpo|verl_agent|replies)|"
    r"sotopia/(?!env|published)|webshop/(?:pages|reward)|"
    r"audits/(?:alfworld|appworld|search_qa|sotopia|textworld|webshop|witnesses)"
)


@cache
def messages():
    """The texts that are raised, warned or said, with their files; fields are "{}"."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        left = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
        left |= {id(v) for n in nodes if isinstance(n, ast.JoinedStr) for v in n.values}
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        options = [n for n in calls if ast.unparse(n.func).rpartition(".")[2] in HELP]
        left |= {id(inner) for n in options for inner in ast.walk(n)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(v, "value", "") for v in node.values]
                text = "".join(p if isinstance(p, str) else "{}" for p in parts)
            else:
                text = node.value if isinstance(node, ast.Constant) else ""
            if id(node) not in left and isinstance(text, str) and " " in text:
                found.append((str(path.relative_to(ROOT / "src")), " ".join(text.split())))
    return found


def advising():
    """The messages with advice, with their files."""
    return [(f, text) for f, text in messages() if not AGENT.search(f) and ADVICE.search(text)]


def follow(advice, case, folder, patch, prepare=None, **names):
    """Fail as the case says, find the advice in the message, do it, and succeed.

    Each alternative has a folder of its own, which may be prepared; `names` are further fields.
    """
    operate, given, *changes = case
    given = {"words": given} if isinstance(given, str) else given
    pattern = re.escape(" ".join(advice.split())).replace(r"\{\}", "(.+?)")
    pattern = re.compile(re.sub(r"\(\.\+\?\)$", "(.+)", pattern))
    assert changes
    for number, change in enumerate(changes):
        at = folder / str(number)
        at.mkdir()
        if prepare:
            prepare(at)
        with patch.context() as world:
            first = {key: value for key, value in given.items() if key != "but"}
            said = attempt(operate, first, world, at=at, **names)
            found = pattern.search(said)
            assert found, said or "it did not fail"
            then = (change(found, at) if callable(change) else change) or {}
            again = given | (
                {"words": f"{given['words']} {then}"} if isinstance(then, str) else then
            )
            wanted = again.pop("but", "")  # another failure, of what is not there in a test
            said = attempt(operate, again, world, at=at, **names)
            assert not pattern.search(said), said
            assert re.search(wanted, said) if wanted else not said, said


def attempt(operate, given, world, **names):
    """What an operation complains of, as one line: an error or warnings; "" if nothing."""
    arguments = {}
    for key, value in given.items():
        filled = fill(value, names)
        if key.startswith("$"):
            world.delenv(key[1:], raising=False)
            if filled is not None:
                world.setenv(key[1:], str(filled))
        elif key.startswith("/"):
            path = names["at"] / key[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if filled is not None:
                path.write_text(filled(names["at"]) if callable(filled) else filled)
        else:
            arguments[key] = filled
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("always", UserWarning)
        try:
            operate(**arguments)
        except Exception as error:  # noqa: BLE001 - what a user sees, of any class
            return " ".join(f"{error.args[0] if isinstance(error, KeyError) else error}".split())
    return " ".join(str(one.message) for one in warned)


def fill(value, names):
    """A value with the fields of its texts filled in."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", str(text))
    return value


def start_python(code):
    """Run code in a process of its own, which reads the environment at its start."""
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if child.returncode:
        raise RuntimeError(child.stderr.strip().rpartition("\n")[2])


def command(words):
    """What the command line prints, called in this process; raise what it complains of."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.setattr(sys, "argv", ["agent-envs", *shlex.split(words)])
        patch.setattr(sys, "stdin", io.StringIO())
        try:
            cli.main()
        except SystemExit as end:
            if end.code:
                told = said.getvalue() if isinstance(end.code, int) else end.code
                raise RuntimeError(re.sub(r"[│╭╮╰╯─\s]+", " ", told)) from end
    return said.getvalue()
