"""Where the console command starts: are `agent_envs`, `credit` and `trainer` this distribution's?

PyPI has other packages whose import names are `trainer` and `credit`. One that is installed beside
this distribution is imported in its place, or overwrites its files. This module is outside of the
three packages and imports none of them before it has looked, so that it can still say so.

What belongs together lies in one folder: `site-packages` of a wheel, `src` of a clone (installed
as editable, or on PYTHONPATH). A wheel's files must also be those that it installed.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("agent_envs", "credit", "trainer")
HOME = Path(__file__).parent
REINSTALL = (
    "pip install --force-reinstall --no-deps agent-envs (in a clone, '.' instead of the name)"
)


def main() -> None:
    """Run the command line if the three packages are ours; otherwise exit with 1 and the remedy."""
    for package in PACKAGES:
        if problem := problem_with(package):
            sys.exit(f"agent-envs: {problem}")
    from agent_envs.cli import main as run

    run()


def problem_with(package: str) -> str:
    """Why `import package` would not find ours, and what to do; "" if it would.

    Nothing is imported for the answer.
    """
    ours = HOME / package / "__init__.py"
    if not ours.is_file():
        return f"{ours} is missing: {REINSTALL}"
    spec = find_spec(package)
    found = Path(spec.origin) if spec and spec.origin else ours
    if found.parent.resolve() != ours.parent.resolve():
        owner = owner_of(found)
        remedy = f"pip uninstall {owner}" if owner else "rename it, or take it off PYTHONPATH"
        return f"`import {package}` finds {found} instead of {ours}: {remedy}"
    if is_overwritten(ours):
        owner = owner_of(ours)
        remedy = f"pip uninstall {owner}, then {REINSTALL}" if owner else REINSTALL
        return f"{ours} is not the file that agent-envs installed: {remedy}"
    return ""


def is_overwritten(file: Path) -> bool:
    """Whether a file differs from the one that the wheel installed; False in a clone."""
    name = file.relative_to(HOME).as_posix()
    for record in HOME.glob("agent_envs-*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8").splitlines():
            path, _, rest = line.partition(",")
            if path == name and rest.startswith("sha256="):
                digest = hashlib.sha256(file.read_bytes()).digest()
                now = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                return rest.partition(",")[0] != f"sha256={now}"
    return False


def owner_of(file: Path) -> str:
    """The other distribution whose list of files has this one; "" if there is none.

    It is another copy of agent-envs where that lies in another folder.
    """
    from importlib.metadata import distributions

    for distribution in distributions():
        files = [entry for entry in distribution.files or () if entry.name == file.name]
        name = distribution.metadata["Name"]
        if name == "agent-envs" and file.is_relative_to(HOME):
            continue
        if any(Path(str(entry.locate())).resolve() == file.resolve() for entry in files):
            return name
    return ""
