"""What `make full` says of its parts, and what it runs again."""

import subprocess
import sys

import pytest

from tools import full

PASSED = "...\n===== 5 passed, 2 deselected in 3.58s =====\n...\n9 passed, 1 skipped in 51.84s\n"
SKIPPED = "s\nSKIPPED [1] tests/test_x.py:3: no javac\n============ 1 skipped in 0.02s ========\n"
FAILED = "F.\nFAILED tests/test_x.py::test_a - assert 0\n1 failed, 1 passed, 2 errors in 0.1s\n"


@pytest.mark.parametrize(
    ("code", "log", "wanted"),
    [
        (0, PASSED, ("green", 14, 0, 1, "")),
        (0, "79 pages; no broken link\n", ("green", 0, 0, 0, "")),
        (0, SKIPPED, ("not run", 0, 0, 1, "no javac")),
        (0, "5 deselected in 0.02s\n", ("not run", 0, 0, 0, "no test was executed")),
        (1, FAILED, ("red", 1, 3, 0, "1 failed, 1 passed, 2 errors in 0.1s")),
        (77, "error: no route\n.venv-x cannot be installed here\n",
         ("not run", 0, 0, 0, ".venv-x cannot be installed here")),
        (-9, "", ("red", 0, 0, 0, "no output")),
    ],
)  # fmt: skip
def test_a_part_is_green_red_or_not_run(code, log, wanted):
    found = full.judge("x", code, log, 1.0)
    assert (found.verdict, found.passed, found.failed, found.skipped, found.why) == wanted


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with parts that are green, red, absent and slow; each counts its runs."""
    monkeypatch.setattr(full, "ROOT", tmp_path)
    monkeypatch.setattr(full, "ALONE", {})
    parts = ("good", "bad", "absent", "slow")
    monkeypatch.setattr(full, "BESIDE", parts)
    monkeypatch.setattr(full, "PARTS", parts)
    monkeypatch.setattr(full, "LIMIT", 1)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("build\nruns\n")
    (tmp_path / ".ci").mkdir()
    ends = {
        "good": "echo 3 passed in 0.1s",
        "bad": "echo 1 failed in 0.1s; exit 1",
        "absent": "echo nothing here >&2; exit 77",
        "slow": "sleep 60 & wait",
    }
    for name, end in ends.items():
        script = tmp_path / ".ci" / name
        script.write_text(f"#!/bin/sh\necho {name} >> runs\n{end}\n")
        script.chmod(0o755)
    return tmp_path


@pytest.mark.slow
def test_only_what_was_not_green_for_these_files_runs_again(project, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["full"])
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            full.main()
        assert ended.value.code == 1
    runs = (project / "runs").read_text().split()
    assert [runs.count(name) for name in ("good", "bad", "absent", "slow")] == [1, 2, 2, 2]
    table = capsys.readouterr().out.split("why\n")[-1].splitlines()
    assert [line.split()[:2] for line in table] == [
        ["good", "green"], ["bad", "red"], ["absent", "not"], ["slow", "red"]
    ]  # fmt: skip
    assert table[2].endswith("nothing here")
    assert table[3].endswith("not over after 0 minutes")

    (project / "new").touch()  # other files: what was green is not known to be
    monkeypatch.setattr(sys, "argv", ["full", "good"])
    with pytest.raises(SystemExit) as ended:
        full.main()
    assert ended.value.code == 0
    assert (project / "runs").read_text().split().count("good") == 2


def test_an_unknown_part_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["full", "tlr"])
    with pytest.raises(SystemExit, match="2"):
        full.main()
    assert "tlr: parts are speed, long, " in capsys.readouterr().err


def test_every_script_is_a_part():
    scripts = {path.name for path in (full.ROOT / ".ci").iterdir() if not path.suffix}
    assert scripts - {"run", "venv"} == set(full.BESIDE)
