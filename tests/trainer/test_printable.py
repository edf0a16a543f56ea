"""Recorded text cannot move a terminal's cursor or turn a line around."""

from __future__ import annotations

import pytest

from agent_envs.cli.console import make_printable
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
