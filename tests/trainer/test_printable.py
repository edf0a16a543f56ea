"""Recorded text cannot move a terminal's cursor or turn a line around."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from agent_envs.cli.console import DataConsole, DataTable, make_printable, show_data
from agent_envs.evaluation import make_table
from agent_envs_lab.compare import side, table

from .conftest import quiet
from .run_folders import evaluation, run_folder

WILD = "live\u202eevil\x1b[2Jbell\x07end"
MANY = "\U0001f469\u200d\U0001f680 \u05d0\u05d1 \ue000"
TAME = "live\ufffdevil\ufffd[2Jbell\ufffdend"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (WILD, TAME),
        ("a\tb\nc", "a\tb\nc"),
        ("a\x00b\x7fc\x85d", "a\ufffdb\ufffdc\ufffdd"),
        ("\ud800", "\ufffd"),
        ("\u2066x\u2069", "\ufffdx\ufffd"),
        # no-break and wide spaces, joined emoji, right-to-left letters, a private character
        ("a\u00a0b\u3000c", "a\u00a0b\u3000c"),
        (MANY, MANY),
    ],
)  # fmt: skip
def test_what_acts_is_replaced(text, shown):
    assert make_printable(text) == shown


def test_a_comparison_has_none(tmp_path):
    folders = [run_folder(tmp_path / name) for name in "ab"]
    for number, folder in enumerate(folders):
        one = evaluation(4)
        one.task_ids[:] = [f"{WILD}{n}" for n in range(len(one.task_ids))]
        one.success[:] = [bool(number)] * len(one.success)
        one.save(folder / "eval" / "step_45.json")
    console = quiet()
    console.print(table(*(side(folder, 45) for folder in folders)), markup=False)
    assert TAME in console.file.getvalue()
    assert not {"\x1b", "\x07", "\u202e"} & set(console.file.getvalue())


MARKUP = "[/pick] [link=http://a.example]b[/link] :smile: \x1b]8;;http://a.example\x1b\\c"
SHOWN = "[/pick] [link=http://a.example]b[/link] :smile: \ufffd]8;;http://a.example\ufffd\\c"


@pytest.mark.parametrize("kind", [Console, DataConsole])
def test_tables_and_texts_are_data_on_every_console(kind):
    console, found = kind(file=io.StringIO(), width=200), evaluation(4)
    found.strata["kind"][:] = [MARKUP] * len(found.success)
    rows = DataTable(MARKUP)
    rows.add_row(MARKUP)
    console.print(make_table(found), rows, show_data(MARKUP), *[MARKUP] * (kind is DataConsole))
    said = console.file.getvalue()
    assert said.count(SHOWN) == 4 + (kind is DataConsole)
    assert "\x1b" not in said


SPEAK = """
import logging, sys, warnings
from unittest import mock
from agent_envs import cli
def app():
    warnings.warn("\\x1b[2Jone")
    logging.getLogger("any").warning("\\x1b[2Jtwo")
    raise ValueError("\\x1b[2Jthree")
with mock.patch("agent_envs.cli.app.app", app):
    cli.main()
"""


@pytest.mark.slow
def test_warnings_log_lines_and_errors_are_data():
    ran = subprocess.run([sys.executable, "-c", SPEAK], capture_output=True, text=True, check=False)
    for word in ("one", "two", "three"):
        assert f"\ufffd[2J{word}" in ran.stderr
    assert "\x1b" not in ran.stderr
