"""The genuine engine beside the native one, on random commands; runs where its packages are.

`.ci/genuine` makes an environment with them and runs this file there.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import gymnasium as gym
import numpy as np
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.env import measure_milestones
from agent_envs.alfworld.genuine import load_genuine_engine
from agent_envs.alfworld.world import World

installed = all(importlib.util.find_spec(name) for name in ("textworld", "alfworld"))
needed = pytest.mark.skipif(not installed, reason="needs the extra [alfworld]; see .ci/genuine")


def genuine(test):
    """Marks a test that plays the genuine engine, whose packages warn."""
    return pytest.mark.genuine(needed(pytest.mark.filterwarnings("ignore")(test)))


FORMS = ["take {o} from {r}", "move {o} to {r}", "open {r}", "close {r}", "examine {o}",
         "go to {r}", "use {o}", "heat {o} with {r}", "clean {o} with {r}", "slice {o} with {o}",
         " look ", "Look", "dance", ""]  # fmt: skip


def command(world: World, rng: np.random.Generator) -> str:
    """A command for a world: of three, one walks or looks, one uses the hands, one is made up."""
    handy = [c for c in world.admissible() if not c.startswith(("go", "help", "inventory"))]
    free = FORMS[rng.integers(len(FORMS))].format(
        o=world.game.objects[rng.integers(len(world.game.objects))],
        r=world.game.receptacles[rng.integers(len(world.game.receptacles))],
    )
    options = (world.admissible(), handy, [free])[rng.choice(3, p=[0.35, 0.5, 0.15])]
    return options[rng.integers(len(options))]


def differences(library, task_id: str, seed: int, turns: int) -> list[str]:
    """What the engines do not agree on in one game of random commands among the solution's."""
    rng = np.random.default_rng(seed)
    native, other = World(library.load(task_id)), load_genuine_engine()(library, task_id, "0.4")
    solution = list(native.game.walkthrough)
    last, said = "", (native.intro, other.intro)
    for _ in range(turns):
        pairs = {
            "text": said,
            "admissible": (native.admissible(), other.admissible()),
            "won": (native.won, other.won),
            "accepted": (native.accepted, other.accepted),
            "facts": (native.facts(), other.facts()),
            "anchor": (native.anchor(), other.anchor()),
            "progress": (measure_milestones(native), measure_milestones(other)),
        }
        wrong = [
            f"{task_id} {last!r} {what}: {a!r} {b!r}" for what, (a, b) in pairs.items() if a != b
        ]
        if wrong:
            return wrong
        following = solution and rng.random() < 0.3
        last = solution.pop(0) if following else command(native, rng)
        said = native.execute(last), other.execute(last)
    return []


@genuine
@pytest.mark.parametrize("task", range(0, 120, 60))
def test_embedded_games_play_the_same_on_both_engines(task):
    library = open_library("embedded", "valid_unseen")
    assert differences(library, library.panel.at(task), seed=task, turns=40) == []


@genuine
@pytest.mark.parametrize("task", range(0, 140, 48))
def test_public_games_play_the_same_on_both_engines(alfworld_data, task):
    library = open_library(alfworld_data, "valid_seen")
    assert differences(library, library.panel.at(task), seed=task, turns=40) == []


@genuine
def test_the_environment_on_the_genuine_engine_wins_an_embedded_game():
    argv, folder = list(sys.argv), os.environ.get("ALFWORLD_DATA")
    make = {"data": "embedded", "split": "valid_seen", "progress": "distance", "walkthrough": True}
    env = gym.make("AlfWorld-v0", engine="textworld", **make)
    _, info = env.reset(options={"task": 1})
    native = gym.make("AlfWorld-v0", **make)
    assert native.reset(options={"task": 1})[1] == info
    for step in info["walkthrough"]:
        assert (result := env.step(step)) == native.step(step)
    assert result[2]
    assert (sys.argv, os.environ.get("ALFWORLD_DATA")) == (argv, folder)
    with pytest.raises(TypeError, match="cannot be copied"):
        env.unwrapped.world.__deepcopy__({})


@pytest.mark.parametrize("missing", ["textworld", "textworld.envs.pddl"])
def test_without_its_packages_the_engine_says_what_to_install(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install 'agent-envs\[alfworld\]'.*engine='native'"):
        gym.make("AlfWorld-v0", data="embedded", engine="textworld")
