"""Talks made by hand, episodes of a player, and a server of a model."""

from __future__ import annotations

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs.sotopia.acts import parse_act
from agent_envs.sotopia.families import draw_scene
from agent_envs.sotopia.talk import Talk
from tests.agent_envs.chat_server import ChatServer, says


@pytest.fixture(autouse=True)
def _embedded_data(monkeypatch):
    monkeypatch.delenv("SOTOPIA_DATA", raising=False)


@pytest.fixture
def talked():
    """A function that makes the talk of a scene's lines, side 0 first."""

    def talk(family, number, *lines):
        made = Talk(draw_scene(family, number))
        for place, line in enumerate(lines):
            made = made.after(place % 2, parse_act(line))
        return made

    return talk


@pytest.fixture
def play():
    """A function that plays episodes by `act(env)`: their last infos."""

    def played(act, *, family, split="val", partner="scripted", tasks=48):
        env = gym.make("Sotopia-v0", split=split, family=family, partner=partner)
        infos = []
        for task in range(min(tasks, len(env.unwrapped.panel))):
            env.reset(seed=task, options={"task": task})
            ended = False
            while not ended:
                _, _, terminated, truncated, info = env.step(act(env))
                ended = terminated or truncated
            infos.append(info)
        return infos

    return played


@pytest.fixture(scope="session")
def public_folder(shared_data):
    """The public profiles, or a skip."""
    if not (shared_data / "sotopia").is_dir():
        pytest.skip(f"no public data at {shared_data / 'sotopia'}")
    return shared_data / "sotopia"


@pytest.fixture
def server(monkeypatch):
    """A server that answers `server.script`, one entry a request, then `server.act`."""
    monkeypatch.setattr("agent_envs.web.BACKOFF", 0.001)
    with ChatServer(says("{}")) as one:
        yield one
