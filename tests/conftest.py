"""Fixtures shared by all tests: the public data, where it is there."""

from __future__ import annotations

import os
import signal
import tarfile
from pathlib import Path

import pytest
from hypothesis import settings

# On CI the same examples each time: a new one is for people to find, not to hold up other work.
settings.register_profile("shared machine", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("shared machine")

# What a shell starts in the background, with what that starts, has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(os.environ.get("AGENT_ENVS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


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
