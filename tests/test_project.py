"""The files around the code: one version everywhere, workflows and forms that can be read."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import agent_envs

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HIDDEN = pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="not in the distribution")


def parsed(path):
    yaml = pytest.importorskip("yaml", reason="files of YAML are read with PyYAML")
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)$", changes, re.MULTILINE)[1] == agent_envs.__version__
    assert re.search(r"^version: (\S+)$", cited, re.MULTILINE)[1] == agent_envs.__version__
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/agent_envs/__init__.py"


def test_the_first_code_of_the_readme_is_on_its_first_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines.index("```python") < 25


def test_the_source_distribution_has_the_pages_and_forms_of_the_project():
    included = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert {path.name for path in ROOT.glob("*.md")} <= included
    assert {"CITATION.cff", "LICENSE", "Makefile", ".ci", "tests", "docs"} <= included


@pytest.mark.slow
def test_every_target_makes_its_environment_first(tmp_path):
    """In a fresh clone there is none yet."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)", text, re.MULTILINE)[1].split()
    assert {"train", "test", "check", "docs", "wheel"} <= set(targets)
    fresh = ["PYTHON=python3", f"VENV={tmp_path / 'fresh'}"]
    own = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    for target in set(targets) - {"clean"}:
        told = subprocess.run(
            ["make", "-n", target, *fresh], cwd=ROOT, env=own, capture_output=True, text=True,
            check=True,
        ).stdout  # fmt: skip
        assert told.startswith("python3 -m venv "), target


@HIDDEN
def test_workflows_call_targets_and_scripts_that_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = parsed(path)["jobs"]
        commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        for command in commands:
            if command.startswith("make "):
                assert command.split()[1] in targets, path.name
            for script in re.findall(r"\.ci/\w+", command):
                assert (ROOT / script).is_file(), path.name


@HIDDEN
def test_the_tests_run_on_every_python_that_is_declared():
    jobs = parsed(".github/workflows/tests.yml")["jobs"]
    assert jobs.keys() == {"check", "quick", "full", "docs"}
    declared = [c.split(" :: ")[-1] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]
    assert jobs["full"]["strategy"]["matrix"]["python"] == declared
    assert PROJECT["project"]["requires-python"] == f">={declared[0]}"


@HIDDEN
def test_a_release_needs_no_password():
    publish = parsed(".github/workflows/release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    (action,) = [step for step in publish["steps"] if "pypi-publish" in step["uses"]]
    assert "with" not in action
