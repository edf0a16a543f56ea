"""The command `agent-envs new`: files that work at once, and names that cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_envs.cli.app import app
from agent_envs.cli.new import TEMPLATE
from tests.trainer.conftest import write_parts
from trainer import recipe


@pytest.fixture
def new(tmp_path, monkeypatch):
    """Runs the command in an empty folder: exit status and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def start(name):
        done = CliRunner().invoke(app, ["new", name])
        return done.exit_code, " ".join(done.output.replace("\u2502", " ").split())

    return start


@pytest.mark.slow
def test_what_it_writes_keeps_the_contract_and_is_a_recipe(new, tmp_path):
    code, said = new("help_desk")
    assert (code, "agent-envs train help_desk.toml" in said) == (0, True)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["help_desk.py", "help_desk.toml", "test_help_desk.py"]
    assert not any("my_world" in path.read_text().lower() for path in tmp_path.iterdir())
    made = recipe.load(tmp_path / "help_desk.toml")
    assert (made.env.id, made.sampling.decode) == ("help_desk:HelpDesk", "auto")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_help_desk.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_is_written_over_and_no_module_is_hidden(new, tmp_path):
    (tmp_path / "mine.toml").write_text("kept")
    for name, words in (
        ("mine", "mine.toml exists already; choose another name, or work in another folder"),
        ("json", "'json' is a module already"),
        ("Help-desk", "use small letters, digits and _, such as help_desk"),
        ("class", "'class' cannot name a module"),
    ):
        code, said = new(name)
        assert (code, words in said) == (2, True), said
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


def test_the_page_shows_what_the_command_writes(tmp_path):
    write_parts(tmp_path)
    written = (TEMPLATE / "my_world.py").read_text()
    shown = (tmp_path / "drawers.py").read_text()
    assert shown == written.replace("MyWorld", "Drawers").replace("my_world", "drawers")
    assert Path(TEMPLATE / "my_world.toml").is_file()
