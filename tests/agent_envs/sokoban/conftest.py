"""Rooms drawn by hand or at random."""

import sys
from pathlib import Path

import gymnasium as gym
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from agent_envs.sokoban.levels import parse_level
from agent_envs.sokoban.rooms import draft_plan, furnish_plan


@pytest.fixture(scope="session")
def read_room():
    """Makes a room of rows in XSB symbols."""
    return lambda *rows: parse_level(list(rows), "here")


@pytest.fixture(scope="session")
def generate():
    """Makes the room of the first plan that works out."""

    def from_rng(rng, settings):
        while isinstance(room := furnish_plan(rng, settings, draft_plan(rng, settings)), str):
            pass
        return room

    return from_rng


@pytest.fixture
def level(tmp_path):
    """Makes an environment of one level."""

    def from_rows(*rows, env_id="Sokoban-v0", **options):
        (tmp_path / "level.txt").write_text("\n".join(rows))
        return gym.make(env_id, levels=tmp_path / "level.txt", **options)

    return from_rows
