"""The small kitchen as fixtures; tests and the processes they start import it as a module."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from agent_envs.alfworld.game import parse_game
from agent_envs.alfworld.world import World

sys.path.insert(0, str(Path(__file__).parent))
from small_kitchen import kitchen_data


@pytest.fixture
def kitchen():
    """Makes a kitchen being played: a task, and further facts of its start."""

    def make(task="pick", also="", **options):
        return World(parse_game(kitchen_data(task, also), f"toy/train/{task}/1", "toy"), **options)

    return make


@pytest.fixture(scope="session")
def generate():
    """Makes a world of a generated game."""

    from tools.alfworld.generate import generate_game

    def make(seed, task, size=0.3, **options):
        data = generate_game(np.random.default_rng(seed), size=size, task_type=task)
        return World(parse_game(data, f"embedded/train/{task}/trial", "generated"), **options)

    return make


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of five public games: three in train, one of them not for text, and two others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for split, task, kind in (
        ("train", "pick_heat_then_place_in_recep-Mug-None-CounterTop-1/trial_b", "heat"),
        ("train", "pick_and_place_simple-Mug-None-Fridge-1/trial_a", "pick"),
        ("train", "pick_and_place_with_movable_recep-Mug-Pan-Fridge-1/trial_c", "pick"),
        ("valid_seen", "look_at_obj_in_light-Mug-None-DeskLamp-1/trial_d", "look"),
        ("valid_unseen", "pick_two_obj_and_place-Mug-None-Fridge-9/trial_e", "pick2"),
    ):
        file = tmp_path / "games" / "json_2.1.1" / split / task / "game.tw-pddl"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(kitchen_data(kind)), encoding="utf-8")
    return tmp_path / "games"
