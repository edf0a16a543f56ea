"""Commands where packages are not installed: help works, and a call names the extra in a line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agent_envs.cli import TRACEBACK
from tests.trainer.run_folders import run_folder

CLI = {"rich", "tomlkit", "typer"}
REPORT = {"jinja2", "matplotlib", "pyarrow", "scipy"}
LEARNING = {"peft", "safetensors", "tensorboard", "torch", "transformers"}
OTHERS = ("PIL", "bm25s", "faiss", "httpx2", "markupsafe", "selenium", "tokenizers")
SERVERS = {"mcp", "openenv", "starlette"}
CHILD = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

absent, commands = json.loads(sys.argv[1])
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in absent else find(name, *rest)
from agent_envs_command import main

for command in commands:
    sys.argv = ["agent-envs", *command]
    sys.stdin = io.StringIO("quit\\n")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                main()
                code = 0
            except SystemExit as stopped:
                code = stopped.code or 0
    said = code if isinstance(code, str) else err.getvalue()
    print(json.dumps([1 if isinstance(code, str) else code, out.getvalue(), said]))
print(json.dumps(sorted(sys.modules)))
"""


def without(absent, *commands):
    """Exit code, output and complaint of each command without some packages; what it loaded."""
    lines = [command.split() for command in commands]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([sorted(absent), lines])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    *answers, loaded = map(json.loads, child.stdout.splitlines())
    return answers, set(loaded)


WITH_CLI_ONLY = {*LEARNING, *REPORT, *OTHERS, *SERVERS}  # and pydantic, as typer may need it


def test_the_base_installation_says_what_to_install():
    commands = {"": "cli", "--help": "cli", "train alfworld mgr": "train", "play alfworld": "cli"}
    answers, loaded = without({*CLI, *WITH_CLI_ONLY, "pydantic"}, *commands)
    for extra, (code, out, said) in zip(commands.values(), answers, strict=True):
        assert (code, out) == (1, "")
        assert said.startswith("agent-envs: No module named 'typer'; the packages of this command")
        assert f"pip install 'agent-envs[{extra}]', or pip install '.[{extra}]' in a clone" in said
    assert not loaded & {"torch", "trainer"}


def test_help_needs_only_the_command_lines_packages_and_loads_no_method():
    pages = ["--help", "--version", "retrieval --help", "retrieval index --help"]
    pages += [
        f"{name} --help"
        for name in ("train", "eval", "paper", "report", "compare", "play", "assets")
    ]
    answers, loaded = without(WITH_CLI_ONLY, *pages)
    assert all(code == 0 and out and not said for code, out, said in answers)
    assert not loaded & {"agent_envs.alfworld", "agent_envs.webshop", "credit", "torch"}


def test_play_audit_and_assets_need_no_more():
    answers, _ = without(
        WITH_CLI_ONLY,
        "assets",
        "play alfworld --seed 1",
        "play sokoban max_turns=3",
        "audit EZPoints-v0 split=test --tasks 3 --episodes 12 --players 20",
    )
    assert [(code, said) for code, _, said in answers] == [(0, "")] * 4
    listed, household, puzzle, audited = (out for _, out, _ in answers)
    assert "search_qa/words.toml" in listed
    assert "Stopped at turn 0" in household
    assert "turn 0/3" in puzzle
    assert "contract of EZPoints-v0\nkept" in audited


def test_a_call_names_the_extra_it_needs_in_a_line(tmp_path):
    run = run_folder(tmp_path)
    extras = {
        "train alfworld mgr pocket": "train",
        "eval pocket": "train",
        "paper mgr table1": "train",
        f"report {run}": "report",
        "retrieval serve": "search",
        "serve alfworld": "openenv",
        "serve alfworld --mcp": "mcp",
    }
    answers, _ = without(WITH_CLI_ONLY, *extras)
    for extra, (code, _, said) in zip(extras.values(), answers, strict=True):
        line = said.partition(f"\n({TRACEBACK}=1 ")[0]
        assert code == 1
        assert f"pip install 'agent-envs[{extra}]'" in line
        assert "\n" not in line


@pytest.mark.long
def test_report_and_compare_need_no_torch(trained):
    commands = f"report {trained}", f"compare {trained} {trained}"
    [(code, out, _), compared], loaded = without(LEARNING, *commands)
    assert (code, out.strip()) == (0, str(trained / "report.html"))
    assert (compared[0], compared[2]) == (0, "")
    assert "matplotlib" in loaded
