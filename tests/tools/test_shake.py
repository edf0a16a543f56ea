"""`make shake` names what failed at least once, with the seeds of its shuffles."""

import shutil
import sys

import pytest

from tools import shake

ROOT = shake.ROOT
ODD = """def test_steady(): pass
def test_red(): assert 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not shake.find_spec("pytest_randomly"), reason="no pytest-randomly")
def test_what_failed_is_listed_with_its_seeds(tmp_path, monkeypatch, capsys):
    (tmp_path / "tests").mkdir()
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests" / "test_odd.py").write_text(ODD)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shake, "ROOT", tmp_path)
    monkeypatch.setattr(shake, "WORKERS", (0, 1))
    monkeypatch.setattr(shake, "find_pythons", lambda: [sys.executable])
    monkeypatch.setattr(sys, "argv", ["shake", "--runs", "2", "--busy", "1", "--seed", "7"])
    with pytest.raises(SystemExit) as ended:
        shake.main()
    assert ended.value.code
    said = capsys.readouterr().out
    assert "failed with seed 7, 8: FAILED tests/test_odd.py::test_red - assert 0" in said
    assert "seed 8, 1 workers, 1 busy" in said
    assert said.endswith("failed at least once in 2 runs: 1\n")
