"""Library: where games are looked for, which of them a split has, and what is cached."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import nullcontext

import gymnasium as gym
import pytest
from small_kitchen import kitchen_data

from agent_envs import BadAsset, MissingAsset
from agent_envs.alfworld import data
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.game import LEVELS, SHORT_NAMES

HEAT = "alfworld/train/pick_heat_then_place_in_recep-Mug-None-CounterTop-1/trial_b"
CLEAN = {"pddl_problem": kitchen_data("clean")["pddl_problem"]}  # into the same receptacle
PICK = "alfworld/train/pick_and_place_simple-Mug-None-Fridge-1/trial_a"


def restart() -> None:
    """Forget what a new process does not have."""
    data._open_public.cache_clear()
    data._load_game.cache_clear()


def find_file(folder, task_id):
    return folder.joinpath("json_2.1.1", *task_id.split("/")[1:], "game.tw-pddl")


def add_game(folder, task_id, **change):
    file = find_file(folder, task_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(kitchen_data() | change), encoding="utf-8")
    later = time.time() + 5
    os.utime(file.parent.parent, (later, later))


def test_a_folder_has_its_games_sorted(folder):
    library = open_library(folder, "train")
    assert library.panel.task_ids == (PICK, HEAT)
    assert library.load(HEAT).goal.treatment == "heat"
    assert library.load(HEAT).task_id == HEAT
    assert open_library(folder / "json_2.1.1", "train").panel == library.panel


@pytest.mark.parametrize(
    ("task_id", "change", "ids"),
    [
        (PICK, {"solvable": False}, (HEAT,)),
        (PICK, {"solvable": "false"}, (HEAT,)),
        (PICK.replace("Mug", "AppleSliced"), {}, (PICK, HEAT)),
        (PICK.replace("Mug", "movable"), {}, (PICK, HEAT)),
        (PICK.replace("Fridge-1", "Fridge-2"), {}, (PICK, PICK.replace("ge-1", "ge-2"), HEAT)),
    ],
)
def test_games_of_no_use_are_left_out_and_new_ones_found(folder, task_id, change, ids):
    assert open_library(folder, "train").panel.task_ids == (PICK, HEAT)
    add_game(folder, task_id, **change)
    if "solvable" in change:  # the folders have not changed
        restart()
    library = open_library(folder, "train")
    assert library.panel.task_ids == ids
    (note,), total = library.reading.notes, 3 + (task_id != PICK)
    assert f": {total - len(ids)} of {total} games" in note


@pytest.mark.parametrize(
    ("split", "count"), [("train", 600), ("valid_seen", 120), ("valid_unseen", 120)]
)
def test_the_embedded_set(split, count):
    ids = open_library("embedded", split).panel.task_ids
    assert list(ids) == sorted(ids)
    assert all(task_id.startswith(f"embedded/{split}/") for task_id in ids)
    kinds = [task_id.split("/")[2].partition("-")[0] for task_id in ids]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(
        SHORT_NAMES.values(), count / 6
    )
    parts = [open_library("embedded", split, level).panel.task_ids for level in LEVELS]
    assert sorted(task for part in parts for task in part) == list(ids)


@pytest.mark.parametrize(("split", "count"), [("train_two", 240), ("valid_two", 60)])
def test_the_games_of_two_goals(split, count, folder):
    library = open_library("embedded", split)
    assert len(library.panel) == count
    for task_id in library.panel.task_ids[::20]:
        game = library.load(task_id)
        assert len(game.parts) == 2
        assert game.goal.object_type != game.also.object_type
        assert [part.goal for part in game.parts] == [game.goal, game.also]
    with pytest.raises(ValueError, match=f"split '{split}' has embedded games only"):
        open_library(folder, split)


def test_auto_takes_the_folder_of_the_variable_and_nothing_else(folder, tmp_path, monkeypatch):
    home = tmp_path / "home"
    shutil.copytree(folder, home / ".cache" / "alfworld")
    monkeypatch.setenv("HOME", str(home))
    assert open_library("auto").folder is None
    assert open_library("auto").panel.source == "embedded"
    monkeypatch.setenv("ALFWORLD_DATA", str(folder))
    assert open_library("auto").folder == folder
    assert open_library("auto").panel.source == f"alfworld:{folder.name}"
    assert open_library("embedded").folder is None
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(MissingAsset, match="no games in"):
        open_library("auto")


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ((), set(SHORT_NAMES)),
        ("heat", {"heat"}),
        (["pick", "pick_heat_then_place_in_recep"], {"pick", "heat"}),
        ("L0", {"pick", "look"}),
        (["L1", "L2"], {"clean", "heat", "cool", "pick2"}),
    ],
)
def test_task_types_by_name_short_name_and_level(given, kinds):
    ids = open_library("embedded", "valid_seen", given).panel.task_ids
    found = {task_id.split("/")[2].partition("-")[0] for task_id in ids}
    assert found == {SHORT_NAMES[kind] for kind in kinds}


def test_splits_and_types_without_games_are_refused(folder):
    with pytest.raises(ValueError, match="split 'train' has no game of type pick_two_obj_and"):
        open_library(folder, "train", "pick2")
    for file in folder.glob("json_2.1.1/valid_seen/*/*/*"):
        file.unlink()
    with pytest.raises(MissingAsset, match=f"no games of split 'valid_seen' in {folder}"):
        open_library(folder, "valid_seen")


def test_a_file_that_breaks_later_is_refused_when_it_is_played(folder):
    file, library = find_file(folder, HEAT), open_library(folder, "train")
    library.load(HEAT)
    file.write_text(file.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    with pytest.raises(BadAsset, match=rf"^{file} is no JSON, perhaps truncated: "):
        library.load(HEAT)
    file.write_bytes(b'{"grammar": "\xff"}')
    with pytest.raises(BadAsset, match=rf"^{file} is no JSON, .*'utf-8' codec"):
        library.load(HEAT)
    restart()
    with pytest.warns(UserWarning, match="1 of 2 records are bad"):
        assert open_library(folder, "train").panel.task_ids == (PICK,)
    with pytest.raises(BadAsset, match=f"train, {HEAT.partition('train/')[2]}/game.tw-pddl: is no"):
        open_library(folder, "train", strict=True)
    file.unlink()
    with pytest.raises(MissingAsset, match=f"^no file {file}; "):
        library.load(HEAT)


@pytest.mark.parametrize(
    ("damage", "good", "reason"),
    [
        (lambda whole: b"\xef\xbb\xbf" + whole, 2, ""),
        (lambda whole: whole.decode().encode("utf-16"), 2, ""),
        (lambda whole: json.dumps(json.loads(whole), indent=1).replace("\n", "\r\n").encode(), 2,
         ""),
        (lambda whole: whole[: len(whole) // 2], 1, "is no JSON, perhaps truncated"),
        (lambda _: b"", 1, "is no JSON"),
        (lambda _: b"null", 1, "a game is a JSON object, got NoneType"),
        (lambda _: b"[1]", 1, "a game is a JSON object, got list"),
        (lambda whole: whole.replace(b"mug", "m\u00fcg".encode("latin-1")), 1, "can't decode byte"),
        (lambda _: b"[" * 99_999, 1, "is no JSON"),
        (lambda _: b'{"x": ' + b"9" * 5000 + b"}", 1, "is no JSON"),
        (lambda whole: json.dumps(json.loads(whole) | {"grammar": None}).encode(), 1, "'grammar'"),
        (lambda whole: json.dumps(json.loads(whole) | {"walkthrough": [3]}).encode(), 1,
         "commands"),
        (lambda whole: whole.replace(b"the mug", b"the egg"), 1, "are of different games"),
        (lambda whole: whole.replace(b"heat the", b"cool the"), 1, "are of different games"),
        (lambda whole: whole.replace(b"problem kitchen", b"problem plan_trial_a"), 1, "are of "),
        (lambda whole: whole.replace(b"problem kitchen", b"problem plan_trial_b"), 2, ""),
        (lambda whole: json.dumps(json.loads(whole) | CLEAN).encode(), 1, "are of different games"),
        (lambda _: json.dumps(kitchen_data()).encode(), 1, "are of different games"),
        (lambda whole: whole.replace(b"(atLocation agent1", b"(atlocation"), 1, "atlocation"),
        (lambda _: None, 1, "is damaged or no file"),
    ],
)  # fmt: skip
def test_a_damaged_game_costs_one_game(folder, damage, good, reason):
    file = find_file(folder, HEAT)
    content = damage(file.read_bytes())
    file.unlink()
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.warns(UserWarning, match=reason) if reason else nullcontext():
        env = gym.make("AlfWorld-v0", data=folder).unwrapped
    assert len(env.panel) == good
    for task_id in env.panel.task_ids:
        _, info = env.reset(options={"task_id": task_id})
        assert env.step(info["admissible_actions"][0])[-1]["valid"]
    if reason:
        with pytest.raises(BadAsset, match=reason):
            gym.make("AlfWorld-v0", data=folder, strict=True)


def test_a_file_that_changed_at_the_same_length_is_read_again(folder):
    file, library = find_file(folder, PICK), open_library(folder, "train")
    assert library.load(PICK).task == "pick the mug, fridge."
    file.write_text(file.read_text(encoding="utf-8").replace("pick the mug", "find the mug"))
    later = time.time() + 5
    os.utime(file, (later, later))
    assert library.load(PICK).task == "find the mug, fridge."


def test_a_second_start_reads_only_changed_files(folder, monkeypatch):
    read, parse = [], data._parse_public
    monkeypatch.setattr(
        data, "_parse_public", lambda file, name: read.append(name) or parse(file, name)
    )
    first = open_library(folder, "train").panel
    assert len(read) == 3
    restart()
    assert open_library(folder, "train").panel == first
    assert len(read) == 3
    find_file(folder, PICK).write_text(json.dumps(kitchen_data(also="(isOn Mug_bar_1)")))
    restart()
    open_library(folder, "train")
    assert read[3:] == ["/".join(PICK.split("/")[2:])]
