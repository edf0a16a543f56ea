"""Fixtures shared by all tests: the public data, where it is there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# On CI the same examples each time: a new one is for people to find, not to hold up other work.
settings.register_profile("shared machine", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("quick", settings.get_profile("shared machine"), max_examples=20)
settings.load_profile("shared machine")

# What a shell starts in the background, with what that starts, has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What `make quick` does without: packages that take seconds to import, and processes.
ABSENT = ("torch", "transformers", "selenium", "sentence_transformers", "faiss")
NEEDS = re.compile(r"^(?:from|import) (?:torch|transformers|trainer|tools)\b", re.MULTILINE)

SHARED = Path(os.environ.get("AGENT_ENVS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick`: only what runs without torch, without another process, and within a second."""
    parser.addoption(
        "--quick", action="store_true", help="leave out tests that need torch, a process or time"
    )


def pytest_configure(config: pytest.Config) -> None:
    """With `--quick` make torch and other processes impossible where tests run."""
    if not config.getoption("quick"):
        return
    config.option.markexpr = "not slow and not long"
    settings.load_profile("quick")
    sys.modules.update(dict.fromkeys(ABSENT))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick` leave out files and folders that import torch or what needs it."""
    if not config.getoption("quick"):
        return None
    path = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    needs = path.is_file() and NEEDS.search(path.read_text(encoding="utf-8"))
    return True if needs else None


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
def shared_data() -> Path:
    """The folder of public data, or a skip that says where it was looked for."""
    if not SHARED.is_dir():
        pytest.skip(f"no public data at {SHARED}; set AGENT_ENVS_TEST_DATA to its folder")
    return SHARED


@pytest.fixture(scope="session")
def alfworld_data(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `$ALFWORLD_DATA` would name, holding the public games."""
    folder = tmp_path_factory.mktemp("alfworld")
    with tarfile.open(shared_data / "alfworld" / "json_2.1.1.tar.xz") as archive:
        # before Python 3.11.4 there are no filters
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)  # noqa: S202 - it is ours
    return folder
