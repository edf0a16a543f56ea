"""Run `make test` shuffled, on few and many workers, idle and beside busy processes.

python -m tools.shake [--runs 5] [--busy 8] [--seed 0]

Every second run has the busy processes beside it. Runs take turns on 1, 2 and 4 workers, and on
this Python and the oldest and newest others that are declared and installed, each with an
environment of its own. The end lists every test that failed at least once, with the seed of its
shuffle; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKERS = (2, 4, 1)
_FAILED = re.compile(r"^(?:FAILED|ERROR|left over|written outside)\b.*$", re.MULTILINE)


def find_pythons() -> list[str]:
    """This Python, and those of the oldest and the newest declared minor version if installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [one.split(" :: ")[-1] for one in project["classifiers"] if ":: 3." in one]
    own = ".".join(map(str, sys.version_info[:2]))
    found = [sys.executable]
    for version in {declared[0], declared[-1]} - {own}:
        built = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
        other = next(filter(is_started, (f"python{version}", *map(str, built))), None)
        if other is None:
            print(f"no Python {version} is installed here: not run")
            continue
        venv = f".venv-shake-{version}"
        words = [".ci/venv", venv, "-c", "constraints/dev.txt", "-e", ".[dev]"]
        env = {"PYTHON": other, "PIP": sys.executable}
        command = ["env", *(f"{name}={value}" for name, value in env.items()), *words]
        made = subprocess.run(command, cwd=ROOT, check=False)
        if made.returncode:
            print(f"Python {version} cannot be set up here: not run")
        else:
            found.append(str(ROOT / venv / "bin" / "python"))
    return found


def is_started(python: str) -> bool:
    """Whether a Python starts: what pyenv puts on the PATH may start none."""
    if (found := shutil.which(python)) is None:
        return False
    return not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode


def run_shuffled(python: str, workers: int, busy: int, seed: int) -> tuple[list[str], str]:
    """Run the gate's tests once: the lines that name what failed, and the closing line."""
    command = [
        python, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal",
        "-m", "not long and not extras", "-p", "randomly", f"--randomly-seed={seed}",
        "-o", "cache_dir=build/shake",
    ]  # fmt: skip
    with ExitStack() as stack:
        for _ in range(busy):  # as long as this process lives
            burn = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
            waste = stack.enter_context(subprocess.Popen([sys.executable, "-c", burn]))
            stack.callback(waste.kill)
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    failed = _FAILED.findall(said)
    if ended.returncode and not failed:
        failed = [f"exit status {ended.returncode}: {said[-2000:]}"]
    return failed, ended.stdout.strip().rpartition("\n")[2]


def main() -> None:
    """Run the tests again and again, and list what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--busy", type=int, default=8, help="processes beside every second run")
    parser.add_argument("--seed", type=int, default=0, help="of the first run's shuffle")
    given = parser.parse_args()
    if find_spec("pytest_randomly") is None:
        parser.error("pytest-randomly is not installed: `make shake` installs it, with .[dev]")
    pythons, found = itertools.cycle(find_pythons()), defaultdict[str, list[int]](list)
    for number in range(given.runs):
        python, workers = next(pythons), WORKERS[number % len(WORKERS)]
        busy, seed = number % 2 * given.busy, given.seed + number
        failed, closing = run_shuffled(python, workers, busy, seed)
        for line in failed:
            found[line].append(seed)
        print(f"seed {seed}, {workers} workers, {busy} busy, {python}: {closing}", flush=True)
        print(*failed, sep="\n", end="\n" * bool(failed), flush=True)
    for line, seeds in found.items():
        print(f"failed with seed {', '.join(map(str, seeds))}: {line}")
    print(f"failed at least once in {given.runs} runs: {len(found)}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
