"""Parsed games: equal to those parsed anew, whatever happens to their file."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields

import pytest

from agent_envs.alfworld import data, parsed
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.game import Game, load_game
from agent_envs.alfworld.world import World

COUNT = """
import sys
from agent_envs.alfworld import data
parse, names = data._parse_public, []
data._parse_public = lambda file, name: names.append(name) or parse(file, name)
sys.stdin.readline()
data.open_library(sys.argv[1], "train")
print(len(names))
"""


def restart():
    """Forget what a new process does not have."""
    data._open_public.cache_clear()
    data._load_game.cache_clear()
    parsed._find_file.cache_clear()


def tables(game):
    return {field.name: getattr(game, field.name) for field in fields(Game)}


def transcribe(game):
    world = World(game)
    said = [world.intro, world.admissible(), world.anchor(), world.facts()]
    for command in game.walkthrough:
        said += [world.execute(command), world.admissible(), world.anchor(), world.facts()]
    assert world.won
    return said


def load_all(folder, split="train"):
    restart()
    library = open_library(folder, split)
    return [library.load(task_id) for task_id in library.panel.task_ids]


@pytest.fixture
def kept(folder, monkeypatch):
    """The file of the split `train`, the tables of its games, and what is parsed from now on."""
    games = load_all(folder)
    again = []
    parse, parse_public = data.parse_game, data._parse_public
    monkeypatch.setattr(data, "parse_game", lambda *a: again.append("load") or parse(*a))
    monkeypatch.setattr(data, "_parse_public", lambda *a: again.append("start") or parse_public(*a))
    (file,) = (folder.parent / "cache/agent-envs/alfworld").glob("*.games")
    return file, list(map(tables, games)), again


def test_a_second_start_parses_nothing(folder, kept):
    _, games, again = kept
    assert list(map(tables, load_all(folder))) == games
    assert again == []


@pytest.mark.slow
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.long)])
def test_public_games_are_equal_from_the_file(alfworld_data, tmp_path, monkeypatch, every):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    restart()
    for split in ("valid_seen", "train") if every == 1 else ("valid_seen",):
        library = open_library(alfworld_data, split)
        for task_id in library.panel.task_ids[::every]:
            file = data._file_of(library.folder, task_id)
            name = task_id.split("/", 2)[2]
            game = parsed.load_parsed(file.parents[2], name, data._read_stamp(file), task_id)
            fresh = load_game(file, task_id)
            assert tables(game) == tables(fresh)
            assert transcribe(game) == transcribe(fresh)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"no games at all, but longer than the head of such a file is",
        lambda whole: whole[:20],
        lambda whole: whole[:-1],
        lambda whole: whole + b"x",
        lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
        lambda whole: bytes([whole[0] ^ 1]) + whole[1:],  # the version
    ],
)
def test_a_damaged_file_is_built_anew(folder, kept, damage):
    file, games, again = kept
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    with pytest.warns(UserWarning, match=f"^{file} is damaged or of another version; it is built"):
        assert list(map(tables, load_all(folder))) == games
    assert again == ["start"] * 3
    assert file.read_bytes() == whole


@pytest.mark.filterwarnings("ignore:.*is damaged or of another version")
def test_any_flipped_bit_is_found_at_the_start(folder, kept):
    file, _, again = kept
    whole = file.read_bytes()
    places = range(0, len(whole), 7)
    for at in places:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        restart()
        open_library(folder, "train")
        assert file.read_bytes() == whole
    assert again == ["start"] * 3 * len(places)


def test_names_that_are_no_text_have_their_games(folder):
    file = next(folder.glob("json_2.1.1/train/*/trial_a")) / "game.tw-pddl"
    odd = file.parents[1] / os.fsdecode(b"trial_\xff") / file.name
    odd.parent.mkdir()
    odd.write_bytes(file.read_bytes())
    assert [game.goal.task for game in load_all(folder)] == ["pick", "pick", "heat"]


def test_a_file_of_other_code_is_built_anew(folder, kept, monkeypatch):
    file, games, again = kept
    monkeypatch.setattr(parsed, "_find_version", lambda: bytes(16))
    with pytest.warns(UserWarning, match="is damaged or of another version; it is built anew"):
        assert list(map(tables, load_all(folder))) == games
    assert again == ["start"] * 3
    assert file.read_bytes().startswith(bytes(16))


@pytest.mark.filterwarnings("ignore:.*is damaged or of another version")
def test_no_damage_under_a_running_process_gives_another_game(folder, kept):
    file, games, again = kept
    library = open_library(folder, "train")
    whole = file.read_bytes()
    places = range(0, len(whole), 5)
    flipped = [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in places]
    for content in flipped + [whole[:at] for at in places[::10]]:
        file.write_bytes(content)
        data._load_game.cache_clear()
        loaded = [library.load(task_id) for task_id in library.panel.task_ids]
        assert list(map(tables, loaded)) == games
    assert again.count("load") > len(places) // 2
    assert "start" not in again


@pytest.mark.filterwarnings("ignore:.*is damaged or of another version")
def test_a_row_that_leads_to_the_record_of_another_game_is_found(folder, kept):
    file, games, again = kept
    library = open_library(folder, "train")
    whole = bytearray(file.read_bytes())
    starts = [parsed._HEAD.size + number * parsed._ROW.size + 24 for number in range(3)]
    places = [whole[at : at + 12] for at in starts]
    for at, place in zip(starts, places[1:] + places[:1], strict=True):
        whole[at : at + 12] = place
    file.write_bytes(whole)
    data._load_game.cache_clear()
    assert [tables(library.load(i)) for i in library.panel.task_ids] == games
    assert again == ["load"] * 2


def test_damage_under_a_running_process_is_told(folder, kept):
    file, games, again = kept
    library = open_library(folder, "train")
    file.write_bytes(file.read_bytes()[:200])
    data._load_game.cache_clear()
    with pytest.warns(UserWarning, match=rf"^{file} is damaged .*; \S+/trial_. is parsed, and the"):
        loaded = [library.load(task_id) for task_id in library.panel.task_ids]
    assert list(map(tables, loaded)) == games
    assert again == ["load"] * 2
    file.unlink()
    data._load_game.cache_clear()
    assert tables(library.load(library.panel.task_ids[0])) == games[0]


def test_where_nothing_can_be_written_games_are_parsed(folder, kept, monkeypatch, tmp_path):
    _, games, again = kept
    (tmp_path / "file").touch()
    for place in (str(tmp_path / "file"), "~nobody-of-this-name/cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        again.clear()
        with pytest.warns(UserWarning, match="the parsed games of .*/train cannot be kept"):
            assert list(map(tables, load_all(folder))) == games
        assert again == ["start"] * 3 + ["load"] * 2


def test_a_file_that_cannot_be_replaced_still_serves(folder, kept, monkeypatch):
    _, games, again = kept

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(parsed, "wait_for_lock", refuse)
    monkeypatch.setattr(parsed, "write_bytes", refuse)
    assert list(map(tables, load_all(folder))) == games
    assert again == []


@pytest.mark.slow
def test_of_processes_that_start_together_one_parses(folder):
    command = [sys.executable, "-c", COUNT, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for process in started:  # all of them have imported by now, or will soon
        process.stdin.write("\n")
        process.stdin.flush()
    counts = [int(process.communicate(timeout=60)[0]) for process in started]
    assert sorted(counts) == [0, 0, 0, 3]
