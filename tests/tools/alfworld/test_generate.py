"""generate: games that can be won and read like the public ones, the same bytes everywhere."""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.experts import read_habits, read_task, read_things
from agent_envs.alfworld.game import SHORT_NAMES, Game, load_game, parse_game
from agent_envs.alfworld.world import World
from agent_envs.assets import MissingAsset, asset
from tools.alfworld.__main__ import main
from tools.alfworld.generate import (
    generate_game,
    generate_splits,
    read_rules,
)
from tools.alfworld.rooms import KINDS, draw_job, draw_room, list_jobs, read_scenes

SPLITS = ("train", "valid_seen", "valid_unseen")


def generated(seed: int, task: str, size: float = 0.3) -> Game:
    data = generate_game(np.random.default_rng(seed), size=size, task_type=task)
    return parse_game(data, f"embedded/train/{task}/trial", "generated")


@pytest.fixture(scope="module")
def splits() -> dict[str, list]:
    return generate_splits(0)


@pytest.mark.parametrize("task", SHORT_NAMES)
@pytest.mark.parametrize("size", [0.001, 0.3, 1.0])
def test_walkthrough_wins_with_its_last_command(task: str, size: float):
    world = World(generated(11, task, size))
    assert world.game.goal.task == task
    for command in world.game.walkthrough:
        assert not world.won
        world.execute(command)
        assert world.accepted
    assert world.won


@given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.floats(0.001, 1))
@settings(max_examples=40, deadline=None)
def test_rooms_have_the_size_asked_for_and_things_lie_where_they_can(
    seed: int, task: str, size: float
):
    game = generated(seed, task, size)
    assert len(game.receptacles) == round(4 + 26 * size)
    assert len(game.objects) >= len(game.receptacles) // 2
    for receptacle, inside in enumerate(game.contents):
        assert all(receptacle in game.fits[thing] for thing in inside)
    assert sorted(thing for inside in game.contents for thing in inside) == list(
        range(len(game.objects))
    )
    task_line = read_task(game.task)
    assert (task_line.thing, task_line.verb) == (game.goal.object_type[:-4], game.goal.treatment)


def test_things_mostly_lie_where_people_keep_them():
    kept: Counter[str] = Counter()
    for seed in range(150):
        game = generated(seed, "cool")
        for receptacle, inside in enumerate(game.contents):
            place = game.receptacles[receptacle].split()[0]
            kept.update(place for thing in inside if game.objects[thing].startswith("lettuce "))
    likely = sum(kept[place] for place in ("countertop", "diningtable", "fridge"))
    assert 0.6 < likely / kept.total() < 0.98  # worth a guess, not worth a bet


@pytest.mark.parametrize("kind", read_scenes())
def test_every_room_has_work_of_every_type_that_is_at_home_there(kind: str):
    for seed in range(10):
        room = draw_room(np.random.default_rng(seed), kind=kind, size=0.001)
        for task, full in SHORT_NAMES.items():
            assert bool(list_jobs(room, task)) or kind not in KINDS[full]


def test_vocabulary_is_consistent():
    places = {
        p for s in read_scenes().values() for p in (*s.always, *(extra for extra, _ in s.extras))
    }
    for thing in read_things().values():
        assert thing.places.keys() <= places, thing.name
    for scene in read_scenes().values():
        assert set(scene.things) <= read_things().keys()
    assert read_habits()["apple"]["fridge"] > read_habits()["apple"]["sidetable"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rng: generate_game(rng, size=0.5, task_type="juggle"), "unknown task type 'jug"),
        (lambda rng: generate_game(rng, size=0, task_type="pick"), r"lie in \(0, 1\], got 0"),
        (lambda rng: draw_room(rng, kind="attic", size=0.5), "unknown kind of room 'attic'"),
        (lambda rng: draw_job(rng, draw_room(rng, kind="bedroom", size=0.5), "heat"),
         "a bedroom with .* has no job 'heat'"),
    ],
)  # fmt: skip
def test_impossible_wishes_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make(np.random.default_rng(0))


def test_embedded_set_is_what_this_code_makes(splits: dict[str, list]):
    for split in SPLITS:
        packed = asset(f"alfworld/{split}.jsonl.xz").read_bytes()
        lines = [json.loads(line) for line in lzma.decompress(packed).decode().splitlines()]
        assert lines == splits[split]
    (rules,) = lzma.decompress(asset("alfworld/logic.json.xz").read_bytes()).decode().splitlines()
    assert json.loads(rules) == read_rules(None)


def test_valid_seen_has_known_rooms_and_new_tasks_and_valid_unseen_new_rooms(
    splits: dict[str, list],
):
    def tasks(split: str) -> set[str]:
        return {line["task_id"].partition("/")[0] for line in splits[split]}

    def receptacles(split: str) -> set[str]:
        declared = re.compile(r"^(\S+) - receptacle$", re.MULTILINE)
        found = (declared.findall(line["pddl_problem"]) for line in splits[split])
        return {" ".join(sorted(names)) for names in found}

    assert not tasks("train") & tasks("valid_seen")
    assert receptacles("valid_seen") <= receptacles("train")
    assert not receptacles("valid_unseen") & receptacles("train")


def test_task_ids_are_unique_and_name_the_task(splits: dict[str, list]):
    assert all(len({line["task_id"] for line in splits[s]}) == len(splits[s]) for s in SPLITS)
    library = open_library("embedded", "valid_seen")
    for task_id in library.panel.task_ids[::10]:
        kind, thing, _, place, _ = task_id.split("/")[2].split("-")
        game = library.load(task_id)
        assert (kind, f"{thing.lower()}type") == (game.task_type, game.goal.object_type)
        assert f"{place.lower()}type" == (game.goal.receptacle_type or game.goal.lamp)


def test_same_bytes_whatever_the_hash_seed(tmp_path):
    made = []
    for seed in ("0", "1"):
        folder = tmp_path / seed
        command = [sys.executable, "-m", "tools.alfworld", "--seed", "4"]
        command += ["--train", "12", "--valid", "6", "--pack", str(folder)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment, capture_output=True)
        made.append({file.name: file.read_bytes() for file in sorted(folder.iterdir())})
    assert made[0] == made[1]
    assert list(made[0]) == ["logic.json.xz", *(f"{split}.jsonl.xz" for split in SPLITS)]


def test_tree_is_laid_out_as_the_public_one(tmp_path, capsys: pytest.CaptureFixture[str]):
    main(["--seed", "2", "--train", "6", "--valid", "6", "--out", str(tmp_path)])
    assert "18 games in" in capsys.readouterr().out
    library = open_library(tmp_path, "valid_unseen")
    assert len(library.panel.task_ids) == 6
    game = library.load(library.panel.task_ids[0])
    assert game.task_id.startswith("alfworld/valid_unseen/look_at_obj_in_light-")
    assert World(game).intro.startswith("-= Welcome to TextWorld, ALFRED! =-")


def test_tree_with_other_rules(tmp_path):
    logic = tmp_path / "logic"
    with pytest.raises(MissingAsset, match=r"alfred\.pddl is not there; name the folder"):
        read_rules(logic)
    logic.mkdir()
    (logic / "alfred.pddl").write_text("(define (domain alfred))")
    (logic / "alfred.twl2").write_text(
        'g :: """{"task": [{"rhs": "Your task is to: UNKNOWN GOAL."}]}"""'
    )
    main(["--train", "1", "--valid", "0", "--logic", str(logic), "--out", str(tmp_path)])
    (file,) = tmp_path.glob("json_2.1.1/train/*/*/game.tw-pddl")
    data = json.loads(file.read_text())
    assert data["pddl_domain"] == "(define (domain alfred))"
    assert data["solvable"] is True
    assert f"Your task is to: {load_game(file).task}" in data["grammar"]
