"""Levels from files: what is read, and what is refused with file, line and reason."""

import gzip

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.sokoban.board import write_board
from agent_envs.sokoban.levels import open_levels
from agent_envs.sokoban.rooms import find_split

ONE = "#####\n#@$.#\n#####\n"
COLLECTION = f"""; 0
{ONE}
Title: with a niche, a player on a target and uneven rows
   ####
####  #
#+ $* #
#######
Author: nobody

; 2
#######
#@-_$.#
#######"""
BOARDS = ["#####\n#PXO#\n#####", "#######\n####__#\n#S_X√_#\n#######", "#######\n#P__XO#\n#######"]


@pytest.fixture
def write_file(tmp_path):
    """Writes a file of levels: its path."""

    def write(content, name="some.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def write_boards(levels):
    rooms = [levels.load(task_id) for task_id in levels.panel.task_ids]
    return [write_board(room.encode_state(room.start), room.width) for room in rooms]


@pytest.mark.parametrize(
    "content", [COLLECTION, COLLECTION.replace("\n", "\r\n"), f"\ufeff{COLLECTION}"]
)
def test_a_collection_by_hand(write_file, content):
    levels = open_levels(write_file(content))
    assert levels.panel.task_ids == ("some.txt/0", "some.txt/1", "some.txt/2")
    assert (levels.panel.split, levels.shape, levels.panel.origins) == ("all", (4, 7), {})
    assert write_boards(levels) == BOARDS


def test_a_folder_in_the_order_of_names(write_file, tmp_path):
    for name in ("b.txt", "a.txt", "more/c.xsb", "more/d.sok"):
        write_file(ONE, name)
    write_file(gzip.compress(ONE.encode()), "e.txt.gz")
    write_file("no levels", "README.md")
    panel = open_levels(tmp_path).panel
    assert len(set(panel.origins.values())) == 1  # five copies of one level
    assert panel.task_ids == ("a.txt/0", "b.txt/0", "e.txt.gz/0", "more/c.xsb/0", "more/d.sok/0")


PACKED = gzip.compress(ONE.encode(), mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "some.txt, as a whole: no level: a level has rows of the symbols"),
        ("#####\n#@$.#\n#@  #\n#####", "line 1: 2 players"),
        ("######\n#@$$.#\n######", r"2 boxes \(\$ or \*\) and 1 targets"),
        ("######\n#@$..#\n######", "1 boxes .* and 2 targets"),
        ("#####\n#@* #\n#####", "all boxes are on targets already"),
        ("#####\n#@$. \n#####", "the walls are open at row 2, column 5; close them"),
        ("#####\n#@$.#\n## ##", "the walls are open at row 3, column 3"),
        ("#######\n#@$.#.#\n#####$#\n#   ###\n#####", "the player cannot reach the box or target"),
        ("########\n#@$$.#.#\n########", "cannot reach the box or target at row 2, column 7"),
        ("#####\n#@$x#\n#####", "unknown symbol 'x', known are # @"),
        (ONE + "\n#####\n#@$√#\n#####", r"some.txt, line 5: unknown symbol '√'"),
        ("#" * 65 + "\n#@$.#\n" + "#" * 65, "3 rows of 65 cells, at most 64 are allowed"),
        (b"\xff\xfe#", "some.txt, as a whole: is damaged .*decode"),
    ],
)
def test_broken_levels_are_refused(write_file, content, message):
    with pytest.raises(BadAsset, match=message):
        open_levels(write_file(content), strict=True)


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", PACKED[:-9], PACKED[:10] + b"\xff" + PACKED[11:]]
)
def test_broken_packing_is_refused(write_file, content):
    with pytest.raises(BadAsset, match=r"some\.txt\.gz, as a whole: (is damaged|no level)"):
        open_levels(write_file(content, "some.txt.gz"))


def test_missing_files_and_splits_are_refused(write_file, tmp_path):
    with pytest.raises(MissingAsset, match=r"no levels at .*nowhere.txt: name a file"):
        open_levels(tmp_path / "nowhere.txt")
    with pytest.raises(MissingAsset, match=r"or a folder with \*.txt, \*.xsb"):
        open_levels(tmp_path)
    path = write_file(ONE)
    with pytest.raises(ValueError, match="unknown split 'tests', did you mean 'test'"):
        open_levels(path, "tests")
    (own,) = (find_split(room) for room in open_levels(path).rooms.values())
    other = "val" if own == "train" else "train"
    with pytest.raises(ValueError, match=f"no level in .* belongs to split '{other}'"):
        open_levels(path, other)
