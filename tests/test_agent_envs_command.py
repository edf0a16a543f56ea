"""The start of the console command beside other packages with our import names."""

from __future__ import annotations

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
    write(folder / "trainer/cli/__init__.py", "def main():\n    print('ours')\n")
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
    assert start(site) == "ours"
    (tmp_path / "link").symlink_to(site)
    assert start(tmp_path / "link") == "ours"
    clone(tmp_path / "src")
    write(tmp_path / "src" / "trainer" / "__init__.py", "# edited\n")
    assert start(tmp_path / "src") == "ours"
    assert start(tmp_path / "src", site) == "ours"
    install(site, "credit", {"credit/__init__.py": FOREIGN})
    write(site / "credit" / "__init__.py")  # ours, installed over another
    assert start(site) == "ours"


@pytest.mark.parametrize("package", agent_envs_command.PACKAGES)
def test_a_distribution_that_comes_first_is_to_be_uninstalled(site, tmp_path, package):
    install(tmp_path / "user", f"the-{package}", {f"{package}/__init__.py": FOREIGN})
    assert start(tmp_path / "user", site) == (
        f"agent-envs: `import {package}` finds {tmp_path}/user/{package}/__init__.py instead of "
        f"{site}/{package}/__init__.py: pip uninstall the-{package}"
    )


def test_another_copy_of_ours_that_comes_first_is_to_be_uninstalled(site, tmp_path):
    clone(tmp_path / "src")
    for folder, name, rest in (
        ("first", "trainer", tmp_path / "src"),
        ("user", "agent-envs", site),
    ):
        install(tmp_path / folder, name, {"trainer/__init__.py": FOREIGN})
        message = start(tmp_path / folder, rest)
        assert message.endswith(f"instead of {rest}/trainer/__init__.py: pip uninstall {name}")


def test_a_folder_of_a_users_own_is_to_be_renamed(site, tmp_path):
    write(tmp_path / "mine" / "credit" / "__init__.py", FOREIGN)
    assert start(tmp_path / "mine", site) == (
        f"agent-envs: `import credit` finds {tmp_path}/mine/credit/__init__.py instead of "
        f"{site}/credit/__init__.py: rename it, or take it off PYTHONPATH"
    )
    write(tmp_path / "mine" / "credit" / "__init__.py")
    (tmp_path / "mine" / "credit" / "__init__.py").unlink()  # a folder without it is no package
    assert start(tmp_path / "mine", site) == "ours"


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
