"""Plant faults in a copy of a package, one at a time, and report which ones the tests catch.

python -m tools.mutations [agent_envs/sokoban ...] [--only WORD] [--workers 1] [--limit 300]

`tests/<package>/faults.txt` lists the faults of `src/<package>`. A fault is a line
"module: description (test files)", the removed text after "-" and the inserted text after "+". The
removed text must be in the module exactly once.

The test files, less their `test_the_contract*`, run until the first failure, in a process forked
from one that has loaded the libraries. The tests that caught faults must pass without them. Tests
that do not end within the limit have caught the fault, too, and the line says so. The exit status
is 1 if a fault was not caught.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
LISTS = {str(file.parent.relative_to(TESTS)): file for file in sorted(TESTS.rglob("faults.txt"))}
LIBRARIES = ("gymnasium", "hypothesis.strategies", "torch")
NOT_ALONE = 6  # exit status of the tests, as in tests/conftest.py
FAST = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--assert=plain")


class Fault(NamedTuple):
    """A fault: source file below `src`, what is wrong, test files, text before and after."""

    source: str
    what: str
    tests: tuple[str, ...]
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.source}: {self.what}"

    def planted(self) -> str:
        """The source with the fault.

        Raises:
            ValueError: The removed text is not in the source exactly once.
        """
        text = (ROOT / "src" / self.source).read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise ValueError(
                f"{self.what!r}: {self.source} must contain the text {self.before!r} once, and "
                f"has it {text.count(self.before)} times; change the fault"
            )
        return text.replace(self.before, self.after)


def faults_of(package: str) -> list[Fault]:
    """The faults in the list of a package.

    Raises:
        ValueError: A line is no part of a fault.
    """
    text = LISTS[package].read_text(encoding="utf-8")
    entry = re.compile(r"([\w/]+): (.+) \(([\w/ ]+)\)\n((?:-.*\n)+(?:\+.*\n)*)")
    faults, at = [], 0
    while at < len(text):
        if (found := entry.match(text, at)) is None:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"{LISTS[package]}, line {line}: expected 'module: what (tests)'")
        module, what, tests, body = found.groups()
        faults.append(
            Fault(
                f"{package}/{module}.py",
                what,
                tuple(f"tests/{package}/{file_of(name)}" for name in tests.split()),
                marked(body, "-"),
                marked(body, "+"),
            )
        )
        at = found.end()
    return faults


def file_of(name: str) -> str:
    """`client` -> `test_client.py`, `retrieval/client` -> `retrieval/test_client.py`."""
    folder, slash, module = name.rpartition("/")
    return f"{folder}{slash}test_{module}.py"


def marked(body: str, sign: str) -> str:
    """The lines that begin with a sign, without it."""
    return "\n".join(line[1:] for line in body.splitlines() if line[0] == sign)


class First:
    """A pytest plugin that keeps the first test that fails, and ends the tests when time is up."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the checks of whole contracts, which take long; the fastest tests are first."""
        items[:] = [item for item in items if not item.name.startswith("test_the_contract")]
        items.sort(key=slowness)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure."""
        if report.failed:
            self.failed = self.failed or report.nodeid

    def stop(self, *_: object) -> NoReturn:
        """End the tests."""
        self.failed = f"no end within {self.limit} s"
        raise KeyboardInterrupt


def slowness(item: pytest.Item) -> tuple[bool, ...]:
    """Whether a test reads public data, is long, is slow."""
    data = "shared_data" in getattr(item, "fixturenames", ())
    return data, *(item.get_closest_marker(mark) is not None for mark in ("long", "slow"))


def caught(fault: Fault, *, limit: int) -> str:
    """The first of its tests that fails on a copy of the package with the fault; "" for none."""
    package, first, output = fault.source.partition("/")[0], First(limit), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # some tests run as another user
        shutil.copytree(ROOT / "src" / package, Path(folder) / package)
        (Path(folder) / fault.source).write_text(fault.planted(), encoding="utf-8")
        sys.path[:0] = paths = [folder, str(ROOT / "src"), str(ROOT)]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for processes that tests start
        os.environ |= {"HYPOTHESIS_STORAGE_DIRECTORY": folder, "TMPDIR": folder}
        tempfile.tempdir = None
        os.chdir(ROOT)
        signal.signal(signal.SIGALRM, first.stop)
        signal.alarm(limit)
        with contextlib.redirect_stdout(output):
            status = pytest.main([*FAST, *fault.tests], plugins=[first])
        signal.alarm(0)
        used = str(sys.modules[package].__file__).startswith(folder)
    if status == NOT_ALONE:
        first.failed = first.failed or "something is left of the tests"
    if not used or (status != pytest.ExitCode.OK and not first.failed):
        raise RuntimeError(f"{fault.what!r}: no test ran\n{output.getvalue()}")
    return first.failed


def run(package: str, only: str, workers: int, limit: int) -> bool:
    """Plant the faults of a package and print one line for each: whether all were caught.

    Then the tests that caught them run without a fault.
    """
    faults = [one for one in faults_of(package) if only in str(one)]
    sound: dict[str, Fault] = {}
    missed = 0
    # a worker of an executor, unlike one of a pool, may start processes, as some tests do
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LIBRARIES, "pytest"])
    with ProcessPoolExecutor(workers, context, max_tasks_per_child=1) as pool:
        tried = partial(caught, limit=limit)
        for fault, failed in zip(faults, pool.map(tried, faults), strict=True):
            test = failed.partition("[")[0]  # with all its parameters
            if "::" in test:
                sound[test] = fault._replace(after=fault.before, tests=(test,))
            missed += not failed
            tell(f"caught  {fault}  [{failed}]" if failed else f"MISSED  {fault}")
        failing = [failed for failed in pool.map(tried, sound.values()) if failed]
    for failed in failing:
        tell(f"FAILS   without a fault, too: {failed}")
    tell(f"{package}: {len(faults) - missed} of {len(faults)} faults caught")
    return not missed and not failing


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Plant the faults of the packages named, by default of all."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("packages", nargs="*", metavar="package", help=", ".join(LISTS))
    options.add_argument("--only", default="", help="faults with this in the module or description")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--limit", type=int, default=300, help="seconds for the tests of a fault")
    given = options.parse_args()
    for name in given.packages:
        if name not in LISTS:
            options.error(f"no list of faults for {name!r}; there are {', '.join(LISTS)}")
    packages = given.packages or LISTS
    all_caught = [run(one, given.only, given.workers, given.limit) for one in packages]
    sys.exit(not all(all_caught))


if __name__ == "__main__":
    main()
