"""Rooms drawn by hand, and the folder of public levels."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from agent_envs.sokoban.levels import parsed


@pytest.fixture(scope="session")
def drawn():
    """Makes a room of rows in XSB symbols."""
    return lambda *rows: parsed(list(rows), "here")


@pytest.fixture(scope="session")
def boxoban(shared_data):
    """The folder of public Boxoban levels."""
    return shared_data / "boxoban"


@pytest.fixture
def level(tmp_path):
    """Makes an environment of one level."""

    def from_rows(*rows, env_id="Sokoban-v0", **options):
        (tmp_path / "level.txt").write_text("\n".join(rows))
        return gym.make(env_id, levels=tmp_path / "level.txt", **options)

    return from_rows
