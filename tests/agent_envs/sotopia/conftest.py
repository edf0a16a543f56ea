"""The public profiles, and a server of a model."""

import pytest

from tests.agent_envs.chat_server import ChatServer, says


@pytest.fixture(scope="session")
def public_folder(shared_data):
    """The public profiles, or a skip."""
    if not (shared_data / "sotopia").is_dir():
        pytest.skip(f"no public data at {shared_data / 'sotopia'}")
    return shared_data / "sotopia"


@pytest.fixture
def server(monkeypatch):
    """A server that answers `server.script`, one entry a request, then `server.act`."""
    monkeypatch.setattr("agent_envs.net.web.BACKOFF", 0.001)
    with ChatServer(says("{}")) as one:
        yield one
