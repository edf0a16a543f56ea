"""Games of TextWorld-v0 by task, map and file, and what reaches the game; without its package."""

import random
import sys
import zlib

import gymnasium as gym
import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.assets import Reading
from agent_envs.textworld.engine import check_story, read_reply
from agent_envs.textworld.env import find_refusal
from agent_envs.textworld.games import KINDS, SPLITS, Task, find_files, open_panel, read_task
from tools.textworld_seeds import hash_map, split_by_map


def describe(*facts, names=None, uuid=""):
    """The .json of a game with facts such as "at k_0:k r_1:r"."""
    world = []
    for fact in facts:
        name, *things = fact.split()
        arguments = [dict(zip(("name", "type"), thing.split(":"), strict=True)) for thing in things]
        world.append({"name": name, "arguments": arguments})
    infos = [[key, {"name": name}] for key, name in (names or {}).items()]
    return {"world": world, "infos": infos, "quests": [], "KB": {}, "metadata": {"uuid": uuid}}


HOUSE = (
    "at P:P a:r", "east_of b:r a:r", "west_of a:r b:r", "north_of c:r b:r", "south_of b:r c:r",
    "link b:r d:d c:r", "link c:r d:d b:r", "closed d:d", "at k:k a:r", "at x:c c:r", "in o:o x:c",
    "at s:s b:r",
)  # fmt: skip


def change(**places):
    """The house with some facts replaced: number -> fact."""
    return describe(*(places.get(f"f{at}", fact) for at, fact in enumerate(HOUSE)))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (change(f0="at P:P c:r"), True),  # the player is elsewhere
        (change(f7="locked d:d"), True),
        (describe(*reversed(HOUSE)), True),
        (describe(*(fact.replace("a:r", "zz:r").replace("o:o", "q:o") for fact in HOUSE)), True),
        (describe(*HOUSE, names={"k": "red key"}), True),
        (change(f10="at o:o c:r"), False),  # beside the box instead of in it
        (change(f8="at k:k b:r"), False),
        (change(f8="at k:f a:r"), False),  # food in the place of the key
        (change(f3="west_of c:r b:r", f4="east_of b:r c:r"), False),
        (change(f5="closed d:d", f6="closed d:d"), False),  # no door
        (describe(*HOUSE[:-1]), False),
    ],
)
def test_a_map_is_rooms_exits_doors_and_places_without_names(other, same):
    assert (hash_map(other) == hash_map(describe(*HOUSE))) is same


def test_games_of_the_one_house_differ_by_names():
    foods = [describe(*HOUSE, names={"o": name}, uuid="tw-simple-x") for name in ("egg", "milk")]
    assert hash_map(foods[0]) == hash_map(foods[1])
    assert hash_map(foods[0], named=True) != hash_map(foods[1], named=True)


def test_the_split_is_by_the_map_and_each_has_its_share():
    rng, found = random.Random(0), []
    for _ in range(400):
        places = [f"at o{at}:o {rng.choice('abc')}:r" for at in range(9)]
        one = describe(*HOUSE, *places, *(f"at f{at}:f {rng.choice('abc')}:r" for at in range(9)))
        found.append(split_by_map(one))
        moved = {**one, "world": [*describe("at P:P b:r")["world"], *one["world"][1:]]}
        assert split_by_map(moved) == found[-1]
    # an eighth each: 50 of 400, within four deviations of 6.6
    assert all(24 < found.count(split) < 76 for split in (1, 2))


def test_panels_have_every_kind_in_turn_and_share_no_game():
    panels = {split: open_panel(split, None, None) for split in SPLITS}
    for split, panel in panels.items():
        tasks = [read_task(name) for name in panel.task_ids]
        assert [task.kind for task in tasks[: len(KINDS)]] == [*KINDS]
        for kind, (level, _) in KINDS.items():
            seeds = [task.seed for task in tasks if task.kind == kind]
            assert seeds == sorted(set(seeds))
            assert 0 < len(seeds) <= SPLITS[split]
            assert {task.level for task in tasks if task.kind == kind} == {level}
        assert panel.source == "embedded"
    ids = [name for panel in panels.values() for name in panel.task_ids]
    assert len(set(ids)) == len(ids)
    one = open_panel("test", "coin_collector", None)
    assert set(one.task_ids) < set(panels["test"].task_ids)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: open_panel("tset", None, None), ("'tset'", "did you mean 'test'")),
        (lambda: open_panel("test", "coins", None), ("'coins'", "coin_collector")),
        (lambda: open_panel("test", "cooking", 9), ("1..4", "got 9")),
        (lambda: open_panel("test", "coin_collector", 7),
         ("got 7", "games=['coin_collector-7-0']")),
        (lambda: open_panel("test", None, 3), ("level=3", "give kind")),
        (lambda: read_task("coin_collector-5"), ("kind-level-seed", "coin_collector-5-17")),
        (lambda: read_task("coin_collector-5--1"), ("kind-level-seed",)),
        (lambda: read_task("coin_collector-0-17"), ("1..100 or 101..150", "got 0")),
        (lambda: read_task("zork-1-1"), ("unknown kind 'zork'", "simple")),
    ],
)  # fmt: skip
def test_what_there_is_not_is_named(call, words):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as refused:
        call()
    assert all(word in str(refused.value) for word in words)


def test_a_task_id_is_kind_level_and_seed():
    assert read_task("coin_collector-5-17") == Task("coin_collector", 5, 17)


def test_a_folder_has_the_games_with_a_description(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("b.z8", "a.z8", "lost.z8", "notes.txt"):
        (folder / name).touch()
    for name in ("a.json", "b.json", "other.json"):
        (folder / name).write_text("{}")
    with pytest.warns(UserWarning, match=r"lost.z8, as a whole: .*lost.json beside it.*1 of 3"):
        panel, paths = find_files(folder, Reading(), strict=False)
    assert panel.task_ids == ("a", "b")
    assert panel.source == "textworld:mine"
    assert paths["b"] == str(folder / "b.json")
    with pytest.raises(BadAsset, match=r"lost.json beside it"):
        find_files(folder, Reading(), strict=True)
    assert find_files(folder / "a.z8", Reading(), strict=True)[0].task_ids == ("a",)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("game.z8", None, ("no file or folder", "tw-make")),
        ("game.exe", b"", ("game.exe", "is no game of TextWorld", ".z8 file with its .json")),
        ("lone.z8", b"", ("lone.json beside it", "tw-make")),
        ("game.z8", b"{", ("game.json", "is no JSON", "get it again")),
        ("", b"{}", ("no game (.z8 with its .json)", "tw-make")),
    ],
)
def test_a_file_that_is_no_game_is_named(tmp_path, file, content, words):
    if file and content is not None:
        (tmp_path / file).touch()
        (tmp_path / "game.json").write_bytes(content)
    with pytest.raises((BadAsset, MissingAsset)) as refused:
        find_files(tmp_path / file, Reading(), strict=False)
    said = str(refused.value)
    assert "\n" not in said
    assert all(word in said for word in words), said


def make_story(body=b"x" * 448):
    """A story file: its header has version, length / 8 and the sum of what follows it."""
    header = bytearray(64)
    header[0] = 8
    header[0x1A:0x1C] = ((64 + len(body)) // 8).to_bytes(2, "big")
    header[0x1C:0x1E] = (sum(body) & 0xFFFF).to_bytes(2, "big")
    return bytes(header) + body


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no whole story"),
        (zlib.compress(make_story()), "no whole story"),
        (make_story()[:-8], "no whole story"),
        (make_story().replace(b"xx", b"xy", 1), "checksum"),
    ],
)
def test_a_damaged_story_is_refused_before_it_runs(tmp_path, content, words):
    file = tmp_path / "game.z8"
    file.write_bytes(make_story() + b"\0" * 9)  # padding after the end is allowed
    check_story(file)
    file.write_bytes(content)
    with pytest.raises(BadAsset, match=f"game.z8 is .*{words}"):
        check_story(file)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        *((command, "") for command in ("look", "take it-bag", "go e", "examine box's lid")),
        *((command, "format") for command in (
            "", "look\nlook", "look\\", "\x1b[2J", "nimm Schlüssel", "x" * 199, "look. look",
            "look then look", "take a, b", "look; look",
        )),
        *((command, "refused") for command in (
            "restart", "QUIT", "q", "save game", "Undo", "tw-print max_score", "again", "g",
            "print_state", "take it", "put them on box",
        )),
    ],
)  # fmt: skip
def test_what_must_not_reach_the_game(command, reason):
    found = find_refusal(command)
    assert (found[0] if found else "") == ("refused" if command == "take it-bag" else reason)


def test_an_answer_is_split_into_text_events_and_score():
    reply = read_reply(
        "\n[taking the key]\n[(1) opening the door - succeeded]\n"
        "[opening the box - failed the rule]\n[taking the key - succeeded]\n"
        "You take the key.\n\n<score>\n3\n</score><moves>\n12\n</moves>\n>   -= Attic =-2/11"
    )
    assert reply[:5] == ("You take the key.", ("taking the key",), ("opening the door",), 3, True)
    assert read_reply("\nWhat?\n\n>  -= Attic =-0/1")[:5] == ("What?", (), (), None, False)


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(
        ImportError, match=r"^[^\n]*textworld[^\n]*pip install 'agent-envs\[textworld\]'$"
    ):
        gym.make("TextWorld-v0")
