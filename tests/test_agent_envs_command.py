"""The start of the console command beside other packages with our import names."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys

import pytest

import agent_envs_command

pytestmark = pytest.mark.slow

START = "from agent_envs_command import main; main()"
OURS = ("agent_envs/__init__.py", "credit/__init__.py", "trainer/__init__.py")
FOREIGN = "raise RuntimeError('a foreign package was imported')\n"
REINSTALL = "pip install --force-reinstall --no-deps agent-envs"


def write(file, text=""):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def install(site, name, files):
    """What an installer leaves of a distribution: its files, and the list of them."""
    lines = []
    for path, text in files.items():
        write(site / path, text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        lines.append(f"{path},sha256={digest.rstrip(b'=').decode()},{len(text)}")
    folder = f"{name.replace('-', '_')}-1.0.dist-info"
    write(site / folder / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    write(site / folder / "RECORD", "\n".join([*lines, f"{folder}/RECORD,,"]))


def clone(folder):
    """Stand-ins for the three packages, beside the real start of the command."""
    for path in OURS:
        write(folder / path)
    write(folder / "agent_envs/cli/__init__.py", "def main():\n    print('ours')\n")
    shutil.copy(agent_envs_command.__file__, folder)


@pytest.fixture
def site(tmp_path):
    """A site-packages with this distribution, as from a wheel."""
    folder = tmp_path / "site-packages"
    clone(folder)
    install(folder, "agent-envs", {path: (folder / path).read_text() for path in OURS})
    return folder


def start(*path):
    """What the command prints, or its complaint, with these folders first on the path."""
    child = subprocess.run(
        [sys.executable, "-P", "-c", START],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == (1 if child.stderr else 0)
    assert child.stderr.count("\n") == bool(child.stderr)
    return child.stdout.strip() or child.stderr.strip()


def test_a_wheel_a_clone_and_a_link_start(site, tmp_path):
    assert not any(map(agent_envs_command.problem_with, agent_envs_command.PACKAGES))
    (tmp_path / "link").symlink_to(site)
    clone(tmp_path / "src")
    write(tmp_path / "src" / "trainer" / "__init__.py", "# edited\n")
    (tmp_path / "mine" / "credit").mkdir(parents=True)  # a folder without __init__ is no package
    for path in (
        [site], [tmp_path / "link"], [tmp_path / "src"], [tmp_path / "src", site],
        [tmp_path / "mine", site],
    ):  # fmt: skip
        assert start(*path) == "ours"
    install(site, "credit", {"credit/__init__.py": FOREIGN})
    write(site / "credit" / "__init__.py")  # ours, installed over another
    assert start(site) == "ours"


@pytest.mark.parametrize(
    ("name", "package", "remedy"),
    [
        *((f"the-{one}", one, f"pip uninstall the-{one}") for one in agent_envs_command.PACKAGES),
        ("agent-envs", "trainer", "pip uninstall agent-envs"),  # another copy of ours
        (None, "credit", "rename it, or take it off PYTHONPATH"),  # a folder of a user's own
    ],
)
def test_what_comes_first_is_to_be_uninstalled_or_renamed(site, tmp_path, name, package, remedy):
    file = f"{package}/__init__.py"
    if name:
        install(tmp_path / "user", name, {file: FOREIGN})
    else:
        write(tmp_path / "user" / file, FOREIGN)
    said = f"`import {package}` finds {tmp_path}/user/{file} instead of {site}/{file}: {remedy}"
    assert start(tmp_path / "user", site) == f"agent-envs: {said}"
    (tmp_path / "user" / package).rename(tmp_path / "user" / "mine")  # or uninstalled
    assert start(tmp_path / "user", site) == "ours"


def test_a_distribution_that_overwrote_ours_and_then_left(site):
    install(site, "trainer", {"trainer/__init__.py": FOREIGN, "trainer/cli.py": FOREIGN})
    assert start(site).startswith(
        f"agent-envs: {site}/trainer/__init__.py is not the file that agent-envs installed: "
        f"pip uninstall trainer, then {REINSTALL}"
    )
    shutil.rmtree(site / "trainer-1.0.dist-info")
    assert f"installed: {REINSTALL}" in start(site)
    (site / "trainer/__init__.py").unlink()
    assert start(site).startswith(f"agent-envs: {site}/trainer/__init__.py is missing: {REINSTALL}")
    for path in OURS:  # what a new installation writes
        write(site / path)
    assert start(site) == "ours"
