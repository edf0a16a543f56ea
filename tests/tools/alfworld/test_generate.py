"""generate: games that can be won and read like the public ones, the same bytes everywhere."""

import json
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.alfworld.data import TWO_GOALS, open_library
from agent_envs.alfworld.experts import read_task, read_things
from agent_envs.alfworld.game import SHORT_NAMES, load_game, parse_game
from agent_envs.alfworld.world import World
from agent_envs.assets import MissingAsset, asset
from tools.alfworld.__main__ import main
from tools.alfworld.generate import generate_game, generate_pairs, generate_splits, read_rules
from tools.alfworld.rooms import draw_job, draw_room, read_scenes

SPLITS = ("train", "valid_seen", "valid_unseen")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(list(SHORT_NAMES)), st.floats(0.001, 1))
def test_a_game_has_the_size_asked_for_and_its_walkthrough_wins(seed, task, size):
    data = generate_game(np.random.default_rng(seed), size=size, task_type=task)
    world = World(game := parse_game(data, f"embedded/train/{task}/trial", "generated"))
    assert len(game.receptacles) == round(4 + 26 * size)
    assert len(game.objects) >= len(game.receptacles) // 2
    for receptacle, inside in enumerate(game.contents):
        assert all(receptacle in game.fits[thing] for thing in inside)
    assert sorted(sum(game.contents, ())) == list(range(len(game.objects)))
    line = read_task(game.task)
    assert (line.thing, line.verb) == (game.goal.object_type[:-4], game.goal.treatment)
    assert game.goal.task == task
    for command in game.walkthrough:
        assert not world.won
        world.execute(command)
        assert world.accepted
    assert world.won


def test_the_vocabulary_is_consistent():
    scenes = read_scenes().values()
    places = {p for s in scenes for p in (*s.always, *(extra for extra, _ in s.extras))}
    assert all(thing.places.keys() <= places for thing in read_things().values())
    assert all(set(scene.things) <= read_things().keys() for scene in scenes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rng: generate_game(rng, size=0.5, task_type="juggle"), "unknown task type 'jug"),
        (lambda rng: generate_game(rng, size=0, task_type="pick"), r"lie in \(0, 1\], got 0"),
        (lambda rng: draw_room(rng, kind="attic", size=0.5), "unknown kind of room 'attic'"),
        (lambda rng: draw_job(rng, draw_room(rng, kind="bedroom", size=0.5), "heat"),
         "a bedroom with .* has no job 'heat'"),
        (lambda _: read_rules(Path("nowhere")), r"alfred\.pddl is not there; name the folder"),
    ],
)  # fmt: skip
def test_impossible_wishes_are_refused(make, message):
    with pytest.raises((ValueError, MissingAsset), match=message):
        make(np.random.default_rng(0))


@pytest.mark.long
def test_the_embedded_set_is_what_this_code_makes():
    """Known rooms and new tasks are in valid_seen, new rooms in valid_unseen."""
    splits = generate_splits(0) | generate_pairs(0, train=240, valid=60)
    for split in splits:
        packed = asset(f"alfworld/{split}.jsonl.xz").read_bytes()
        lines = [json.loads(line) for line in lzma.decompress(packed).decode().splitlines()]
        assert lines == splits[split]
        assert len({line["task_id"] for line in lines}) == len(lines)
    (rules,) = lzma.decompress(asset("alfworld/logic.json.xz").read_bytes()).decode().splitlines()
    assert json.loads(rules) == read_rules(None)
    declared = re.compile(r"^(\S+) - receptacle$", re.MULTILINE)
    tasks = [{line["task_id"].partition("/")[0] for line in splits[split]} for split in SPLITS]
    rooms = [
        {" ".join(sorted(declared.findall(line["pddl_problem"]))) for line in splits[split]}
        for split in SPLITS
    ]
    assert not tasks[0] & tasks[1]
    assert rooms[1] <= rooms[0]
    assert not rooms[2] & rooms[0]
    unseen = "".join(line["pddl_problem"] for line in splits["valid_two"])
    assert not any(set(room.split()) & set(declared.findall(unseen)) for room in rooms[0])


def test_the_bytes_are_the_same_whatever_the_hash_seed(tmp_path):
    options = ["--seed", "4", "--train", "12", "--valid", "6", "--pack"]
    main([*options, str(tmp_path / "here")])
    there = [sys.executable, "-m", "tools.alfworld", *options, str(tmp_path / "there")]
    subprocess.run(there, check=True, env=os.environ | {"PYTHONHASHSEED": "1"})
    here, there = (
        {file.name: file.read_bytes() for file in sorted((tmp_path / name).iterdir())}
        for name in ("here", "there")
    )
    assert here == there
    splits = sorted((*SPLITS, *TWO_GOALS))
    assert list(here) == ["logic.json.xz", *(f"{split}.jsonl.xz" for split in splits)]


def test_a_tree_is_laid_out_as_the_public_one_and_may_have_other_rules(tmp_path, capsys):
    main(["--seed", "2", "--train", "6", "--valid", "6", "--out", str(tmp_path / "tree")])
    assert "18 games in" in capsys.readouterr().out
    library = open_library(tmp_path / "tree", "valid_unseen")
    assert len(library.panel.task_ids) == 6
    game = library.load(library.panel.task_ids[0])
    assert game.task_id.startswith("alfworld/valid_unseen/look_at_obj_in_light-")
    (tmp_path / "alfred.pddl").write_text("(define (domain alfred))")
    (tmp_path / "alfred.twl2").write_text(
        'g :: """{"task": [{"rhs": "Your task is to: UNKNOWN GOAL."}]}"""'
    )
    logic, out = (f"--{name}={tmp_path}" for name in ("logic", "out"))
    main(["--train", "1", "--valid", "0", logic, out])
    (file,) = tmp_path.glob("json_2.1.1/train/*/*/game.tw-pddl")
    data = json.loads(file.read_text())
    assert (data["pddl_domain"], data["solvable"]) == ("(define (domain alfred))", True)
    assert f"Your task is to: {load_game(file).task}" in data["grammar"]
