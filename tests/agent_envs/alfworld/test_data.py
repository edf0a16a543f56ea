"""Library: where games are looked for, which of them a split holds, and what is remembered."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from small_kitchen import kitchen_data

from agent_envs import BadAsset, MissingAsset
from agent_envs.alfworld import data
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.game import LEVELS, SHORT_NAMES

HEAT = "alfworld/train/pick_heat_then_place_in_recep-Mug-None-CounterTop-1/trial_b"
PICK = "alfworld/train/pick_and_place_simple-Mug-None-Fridge-1/trial_a"


@pytest.fixture
def read(monkeypatch):
    """The names of the games that a listing had to read."""
    names = []
    solvable = data._is_solvable

    def counted(file, name):
        names.append(name)
        return solvable(file, name)

    monkeypatch.setattr(data, "_is_solvable", counted)
    return names


def anew() -> None:
    """What a new process starts with."""
    data._public.cache_clear()
    data._parsed.cache_clear()


def game_file(folder, task_id):
    return folder.joinpath("json_2.1.1", *task_id.split("/")[1:], "game.tw-pddl")


def test_a_folder_has_its_games_sorted_and_named_after_it(folder):
    library = open_library(folder, "train")
    assert library.panel.task_ids == (PICK, HEAT)
    assert library.load(HEAT).goal.treatment == "heat"
    assert library.load(HEAT).task_id == HEAT
    assert open_library(folder, "valid_unseen").panel.task_ids[0].endswith("trial_e")


def test_the_folder_of_the_games_itself_is_understood(folder):
    assert open_library(folder / "json_2.1.1", "train").panel == open_library(folder).panel


def test_what_alfworlds_own_loader_leaves_out_is_left_out(folder):
    file = game_file(folder, PICK)
    file.write_text(json.dumps(kitchen_data() | {"solvable": False}), encoding="utf-8")
    anew()
    assert open_library(folder, "train").panel.task_ids == (HEAT,)


@pytest.mark.parametrize("name", ["AppleSliced-None-Fridge-1", "Mug-movable-Fridge-1"])
def test_sliced_objects_and_movable_receptacles_are_left_out(folder, name):
    added = game_file(folder, f"alfworld/train/pick_and_place_simple-{name}/trial_z")
    added.parent.mkdir(parents=True)
    added.write_text(json.dumps(kitchen_data()), encoding="utf-8")
    anew()
    assert open_library(folder, "train").panel.task_ids == (PICK, HEAT)


def test_a_file_that_changed_at_the_same_length_is_read_anew(folder):
    file, library = game_file(folder, PICK), open_library(folder, "train")
    assert library.load(PICK).task == "pick the mug."
    file.write_text(file.read_text(encoding="utf-8").replace("pick the mug", "find the mug"))
    later = time.time() + 5
    os.utime(file, (later, later))
    assert library.load(PICK).task == "find the mug."


@pytest.mark.parametrize(
    ("split", "count"), [("train", 600), ("valid_seen", 120), ("valid_unseen", 120)]
)
def test_the_embedded_set(split, count):
    panel = open_library("embedded", split).panel
    assert len(panel) == count
    assert list(panel.task_ids) == sorted(panel.task_ids)
    assert all(task_id.startswith(f"embedded/{split}/") for task_id in panel.task_ids)
    kinds = [task_id.split("/")[2].partition("-")[0] for task_id in panel.task_ids]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(
        SHORT_NAMES.values(), count / 6
    )


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


def test_a_variable_that_names_a_folder_without_games_is_no_wish_for_others(tmp_path, monkeypatch):
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
    assert data.types_named(given) == {SHORT_NAMES[kind] for kind in kinds}


def test_a_narrowed_panel_is_the_panel_without_the_others():
    whole = open_library("embedded", "valid_seen").panel.task_ids
    parts = [open_library("embedded", "valid_seen", level).panel.task_ids for level in LEVELS]
    assert sorted(task for part in parts for task in part) == list(whole)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"split": "valid_sen"},
            ValueError,
            r"unknown split 'valid_sen', did you mean 'valid_seen'",
        ),
        ({"split": 3}, ValueError, r"unknown split 3; known: \('train', "),
        (
            {"task_types": "heet"},
            ValueError,
            r"unknown task type or level 'heet'.*did you mean 'heat'",
        ),
        ({"task_types": ["pick", "L3"]}, ValueError, r"'L3', did you mean 'L\d'.*known are"),
        (
            {"data": "/nowhere"},
            MissingAsset,
            r"no games in /nowhere: .*alfworld-download.*embedded",
        ),
        ({"data": "/"}, MissingAsset, r"no games in /: expected json_2.1.1/<split>"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(options, error, message):
    with pytest.raises(error, match=message):
        open_library(**options)


def test_a_split_without_games_and_types_without_games_are_refused(folder):
    with pytest.raises(
        ValueError, match="split 'train' has no game of type pick_two_obj_and_place"
    ):
        open_library(folder, "train", "pick2")
    for file in folder.glob("json_2.1.1/valid_seen/*/*/*"):
        file.unlink()
    with pytest.raises(MissingAsset, match=f"no games of split 'valid_seen' in {folder}"):
        open_library(folder, "valid_seen")


def test_a_broken_file_is_listed_and_refused_when_it_is_played(folder):
    file = game_file(folder, HEAT)
    whole = file.read_text(encoding="utf-8")
    library = open_library(folder, "train")
    library.load(HEAT)
    file.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(BadAsset, match=f"^{file}: not JSON at line 1"):
        library.load(HEAT)
    anew()
    assert HEAT in open_library(folder, "train").panel.task_ids
    file.unlink()
    with pytest.raises(MissingAsset, match=f"^{file} does not exist"):
        library.load(HEAT)


def test_a_second_start_reads_only_what_changed(folder, read):
    first = open_library(folder, "train").panel
    assert len(read) == 3
    anew()
    assert open_library(folder, "train").panel == first
    assert len(read) == 3
    game_file(folder, PICK).write_text(json.dumps(kitchen_data(also="(isOn Mug_bar_1)")))
    anew()
    open_library(folder, "train")
    assert read[3:] == ["/".join(PICK.split("/")[2:])]


def test_a_game_added_is_found_without_a_new_process(folder):
    assert len(open_library(folder, "train").panel) == 2
    added = game_file(folder, PICK.replace("Fridge-1", "Fridge-2"))
    added.parent.mkdir(parents=True)
    added.write_text(json.dumps(kitchen_data()))
    later = time.time() + 5
    os.utime(added.parent.parent, (later, later))
    assert len(open_library(folder, "train").panel) == 3


@pytest.mark.parametrize("left", [b"", b"{", b"[]", b'{"x": 3}', b'{"x": [1]}', b"\xff"])
def test_a_damaged_memory_is_not_believed(folder, tmp_path, read, left):
    panel = open_library(folder, "train").panel
    (memory,) = (tmp_path / "cache").glob("agent-envs/alfworld/*.json")
    memory.write_bytes(left)
    anew()
    assert open_library(folder, "train").panel == panel
    assert len(read) == 6


def test_a_cache_folder_that_cannot_be_written_does_not_matter(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(open_library(folder, "train").panel) == 2


def test_a_full_disk_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(data.json, "dump", full)
    assert len(open_library(folder, "train").panel) == 2
    assert not list((tmp_path / "cache").glob("agent-envs/alfworld/*"))


def test_only_a_few_parsed_games_are_kept():
    library = open_library("embedded", "valid_seen")
    for task_id in library.panel.task_ids[: data.KEPT_GAMES + 5]:
        library.load(task_id)
    assert data._parsed.cache_info().currsize == data.KEPT_GAMES
    again = library.load(library.panel.task_ids[data.KEPT_GAMES])
    assert again is library.load(library.panel.task_ids[data.KEPT_GAMES])


@pytest.mark.slow
def test_the_public_splits(alfworld_data, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert len(open_library(alfworld_data, "train").panel) == 3553
    assert len(open_library(alfworld_data, "valid_seen").panel) == 140
    with pytest.raises(MissingAsset, match="no games of split 'valid_unseen'"):
        open_library(alfworld_data, "valid_unseen")
