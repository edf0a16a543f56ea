"""Library: where AlfWorld games come from, the embedded set or a folder of public games.

At the first start every game of a public folder is parsed once. The user's cache folder keeps the
games and which of them are bad or marked unsolvable (`parsed`), with each file's size and time, so
that the next start only reads directories.
"""

from __future__ import annotations

import json
import lzma
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Any

from agent_envs.alfworld.game import LEVELS, SHORT_NAMES, Game, load_game, parse_game
from agent_envs.alfworld.parsed import load_parsed, update_games
from agent_envs.alfworld.world import World
from agent_envs.assets import (
    BadAsset,
    MissingAsset,
    Reading,
    asset,
    find_data,
    read_json,
    unpack_file,
)
from agent_envs.panels import Panel, one_of, source_of

SPLITS = ("train", "valid_seen", "valid_unseen")
TWO_GOALS = ("train_two", "valid_two")
"""The splits of embedded games with two goals; the latter in the rooms of `valid_unseen`."""
FOLDER = "json_2.1.1"
FILE = "game.tw-pddl"
TASK = "TASK"
"""Placeholder for the task sentence in the embedded grammar."""

KEPT_GAMES = 32
"""How many parsed games are cached."""

_LEFT_OUT = ("movable", "Sliced")  # tasks that ALFWorld's own loader skips
_TRIAL = re.compile(rb"\(problem plan_(trial_\w+)\)")
_TREATED = {"clean": {"clean"}, "heat": {"heat", "hot"}, "cool": {"cool"}, "pick2": {"two"}}
"""Words by which the sentence of a task says of what kind it is."""
_UNSOLVABLE = re.compile(rb'"solvable"\s*:\s*"?false\b')


@dataclass(frozen=True)
class Library:
    """The games of one split, optionally only those of some task types.

    panel: their ids "<source>/<split>/<task>/<trial>", sorted.
    folder: the folder of public games (as in `$ALFWORLD_DATA`), None for the embedded set.
    reading: what was left out of the split.
    """

    panel: Panel
    folder: Path | None
    reading: Reading

    def load(self, task_id: str) -> Game:
        """The game of a task.

        Raises:
            MissingAsset: its file is gone.
            BadAsset: it is broken; names file and place.
        """
        return _load_game(self.folder, task_id, _read_stamp(_file_of(self.folder, task_id)))


def open_library(
    data: str | os.PathLike[str] = "auto",
    split: str = "train",
    task_types: Iterable[str] | str = (),
    *,
    strict: bool = False,
) -> Library:
    """The games of `split` of the given task types; bad ones are left out with a warning.

    data: "auto" (the folder in `$ALFWORLD_DATA` if it is set, else embedded), "embedded", or a
        folder of public games.
    task_types: types, short names (`SHORT_NAMES`), levels (`LEVELS`), or a single one; empty for
        all six types.

    Raises:
        ValueError: an unknown split, type or level, or a split without games of the types.
        MissingAsset: a folder without games.
        BadAsset: no game is good, or with `strict`, one is bad.
    """
    one_of("split", split, (*SPLITS, *TWO_GOALS))
    kinds = expand_task_types(task_types)
    folder = _find_folder(data)
    if folder is None:
        return _open_embedded(split, kinds)
    if split in TWO_GOALS:
        raise ValueError(f"split {split!r} has embedded games only: use data='embedded'")
    found = _open_public(folder, split, kinds, _digest_folders(folder / FOLDER / split))
    found.reading.report(strict=strict)
    return found


def expand_task_types(task_types: Iterable[str] | str) -> frozenset[str]:
    """Full names for types, short names and levels; all six if none is given.

    Raises:
        ValueError: an unknown name; the message suggests the most similar one.
    """
    named = (task_types,) if isinstance(task_types, str) else tuple(task_types)
    known = {full: [full] for full in SHORT_NAMES.values()}
    known |= {short: [full] for short, full in SHORT_NAMES.items()}
    known |= {level: [SHORT_NAMES[short] for short in of] for level, of in LEVELS.items()}
    for name in named:
        one_of("task type or level", name, tuple(known))
    return frozenset(full for name in named or SHORT_NAMES for full in known[name])


@cache
def read_logic() -> dict[str, str]:
    """Domain and grammar shared by the embedded games, with `TASK` for the task sentence."""
    found: dict[str, str] = json.loads(_read_packed("logic.json.xz"))
    return found


def fill_task_sentence(rules: Mapping[str, str], task: str, *, place: str = TASK) -> dict[str, str]:
    """The rules with `place` in their grammar replaced by the task sentence."""
    return {**rules, "grammar": rules["grammar"].replace(place, task)}


@lru_cache(maxsize=len(SPLITS + TWO_GOALS))
def embedded_games(split: str) -> dict[str, dict[str, Any]]:
    """The embedded games of a split without domain and grammar, by task id, sorted."""
    lines = [json.loads(line) for line in _read_packed(f"{split}.jsonl.xz").splitlines()]
    games = {f"embedded/{split}/{line['task_id']}": line for line in lines}
    return dict(sorted(games.items()))


def _read_packed(name: str) -> str:
    packed = asset(f"alfworld/{name}")
    try:
        return lzma.decompress(packed.read_bytes()).decode()
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise BadAsset(
            f"{packed} is damaged ({error}); run `pip install --force-reinstall agent-envs`"
        ) from error


@lru_cache(maxsize=KEPT_GAMES)
def _load_game(folder: Path | None, task_id: str, stamp: tuple[int, ...]) -> Game:
    """The game of a task; `stamp` invalidates the cache when its file changes."""
    if folder is not None:
        split, name = task_id.split("/", 2)[1:]
        game = load_parsed(folder / FOLDER / split, name, stamp, task_id)
        if game is not None:
            return game
    data, source = read_data(folder, task_id)
    return parse_game(data, task_id, source)


def read_data(folder: Path | None, task_id: str) -> tuple[Any, str]:
    """The decoded JSON of a game, and its name for error messages; raises as `load_game`."""
    path = _file_of(folder, task_id)
    if path is not None:
        return read_json(path), str(path)
    line = embedded_games(task_id.split("/")[1])[task_id]
    return {**line, **fill_task_sentence(read_logic(), line["task"])}, f"embedded game {task_id}"


def _file_of(folder: Path | None, task_id: str) -> Path | None:
    """The file of a public game, None for an embedded one."""
    return folder and folder.joinpath(FOLDER, *task_id.split("/")[1:], FILE)


def _read_stamp(path: Path | None) -> tuple[int, ...]:
    """Size and time of a file; () without a file."""
    try:
        stat = path and path.stat()
    except OSError:
        return ()
    return (stat.st_size, stat.st_mtime_ns) if stat and S_ISREG(stat.st_mode) else ()


def _find_folder(data: str | os.PathLike[str]) -> Path | None:
    """The folder of public games to use, None for the embedded set."""
    folder = find_data(data, "ALFWORLD_DATA")
    if folder is None:
        return None
    if folder.name == FOLDER:
        folder = folder.parent
    if not any(next((folder / FOLDER / s).glob(f"*/*/{FILE}"), None) for s in SPLITS):
        raise MissingAsset(
            f"no games in {folder}: expected {FOLDER}/<split>/<task>/<trial>/{FILE} below it; give "
            'the folder of $ALFWORLD_DATA, run `alfworld-download`, or use "embedded"'
        )
    return folder


@lru_cache(maxsize=16)
def _open_embedded(split: str, kinds: frozenset[str]) -> Library:
    return Library(_choose_panel(split, kinds, embedded_games(split), "embedded"), None, Reading())


@lru_cache(maxsize=16)
def _open_public(folder: Path, split: str, kinds: frozenset[str], _contents: str) -> Library:
    """The library of a folder; `_contents` invalidates the cache when the folder changes."""
    names, reading = list_solvable(folder / FOLDER / split)
    if not names:
        reading.report(strict=True)
        raise MissingAsset(
            f"no games of split {split!r} in {folder}: expected {FOLDER}/{split}/<task>/<trial>/"
            f"{FILE} below it; run `alfworld-download` or use another split"
        )
    ids = [f"alfworld/{split}/{name}" for name in names]
    return Library(_choose_panel(split, kinds, ids, source_of("alfworld", folder)), folder, reading)


def _choose_panel(split: str, kinds: frozenset[str], task_ids: Iterable[str], source: str) -> Panel:
    chosen = tuple(i for i in task_ids if i.split("/")[2].partition("-")[0] in kinds)
    if not chosen:
        raise ValueError(f"split {split!r} has no game of type {', '.join(sorted(kinds))}")
    return Panel(split, chosen, source)


def _digest_folders(split: Path) -> str:
    """A digest of a split's task folders and their modification times."""
    if not split.is_dir():
        return ""
    with os.scandir(split) as tasks:
        stamps = sorted((task.name, task.stat().st_mtime_ns) for task in tasks)
    return blake2b(repr(stamps).encode(), digest_size=16).hexdigest()


def list_solvable(split: Path) -> tuple[list[str], Reading]:
    """`<task>/<trial>` of each good text game below a split's folder, sorted, and the bad ones.

    Like ALFWorld's own loader, it skips movable receptacles, sliced objects, and games marked as
    unsolvable.
    """
    found = split.glob("*/*/*")  # by name alone a glob leaves out broken links
    files = {f"{file.parts[-3]}/{file.parts[-2]}": file for file in found if file.name == FILE}
    stamps = {name: _read_stamp(file) or (0, 0) for name, file in files.items()}
    faults = update_games(split, stamps, lambda name: _parse_public(files[name], name))
    names, reading = list[str](), Reading()
    for name, fault in faults.items():
        if fault is not None:
            with reading.record(split, f"{name}/{FILE}"):
                if fault:
                    raise BadAsset(fault)
                names.append(name)
    left = sorted(name for name, fault in faults.items() if fault is None)
    reading.note(split, left, len(faults), "games are no text games (movable, sliced, unsolvable)")
    return sorted(names), reading


def _parse_public(file: Path, name: str) -> Game | str | None:
    """A public game; why it cannot be played, if it cannot; None if it is not meant to be."""
    kind = name.partition("-")[0]
    if kind not in SHORT_NAMES.values() or any(word in name for word in _LEFT_OUT):
        return None
    try:
        content = unpack_file(file)
        if _UNSOLVABLE.search(content):
            return None
        game, trial = load_game(file), _TRIAL.search(content)
        things = game.goal.object_type, game.goal.receptacle_type or game.goal.lamp
        words = set(re.findall(r"\w+", game.task))
        treated = {one for one, own in _TREATED.items() if own & words}
        if (
            not all(one.removesuffix("type") in words for one in things)
            or treated != {game.goal.task} & {*_TREATED}
            or game.task_type != kind
            or (trial and trial[1].decode() != name.rpartition("/")[2])
        ):
            goal = " ".join((game.goal.task, *things))
            return f"folder, task {game.task!r:.60} and problem, {goal}, are of different games"
        return "nothing is to be done, the goal holds" if World(game).won else game
    except (ValueError, OSError, RecursionError) as error:
        return str(error)
