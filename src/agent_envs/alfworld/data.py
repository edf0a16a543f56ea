"""Where AlfWorld games come from: the embedded set, or a folder of public games.

A public folder is listed once; which of its games are solvable is remembered in the user's cache
folder with each file's size and time, so that the next start reads nothing but directories.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from agent_envs.alfworld.game import LEVELS, SHORT_NAMES, Game, load_game, parse_game
from agent_envs.assets import BadAsset, MissingAsset, asset
from agent_envs.panels import Panel, nearest

SPLITS = ("train", "valid_seen", "valid_unseen")
FOLDER = "json_2.1.1"
FILE = "game.tw-pddl"
DEFAULT_FOLDER = "~/.cache/alfworld"
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*true')
_LEFT_OUT = ("movable", "Sliced")  # tasks that ALFWorld's own loader leaves out


@dataclass(frozen=True)
class Library:
    """The games of one split: their panel, and each of them by its id.

    Attributes:
        source: "embedded" or "alfworld"; every task id starts with it.
        panel: The split's tasks, ordered by id.
        read: Makes the game of a task id.
    """

    source: str
    panel: Panel
    read: Callable[[str], Game]


def open_library(data: str | os.PathLike[str], split: str, task_types: Iterable[str] | str) -> Library:
    """The games of `split` whose type is asked for (all, when none is named).

    Args:
        data: "auto" (`$ALFWORLD_DATA` or `~/.cache/alfworld` if it holds games, else embedded),
            "embedded", or the folder that `$ALFWORLD_DATA` would name.
        split: One of `SPLITS`.
        task_types: Types, short names (`SHORT_NAMES`) or levels (`LEVELS`).

    Raises:
        ValueError: an unknown split, type or level. MissingAsset: a folder without games.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}{nearest(split, SPLITS)}; one of {', '.join(SPLITS)}")
    kinds = task_type_set(task_types)
    folder = _folder(data)
    library = _embedded(split) if folder is None else _public(folder, split)
    chosen = [i for i in library.panel.task_ids if _type_of(i) in kinds]
    if not chosen:
        raise ValueError(f"split {split!r} has no game of type {', '.join(sorted(kinds))}")
    return Library(library.source, Panel(split, tuple(chosen)), library.read)


def task_type_set(task_types: Iterable[str] | str) -> frozenset[str]:
    """Full type names for types, short names and levels; all six for none.

    Raises:
        ValueError: a name that is none of these.
    """
    named = [task_types] if isinstance(task_types, str) else list(task_types)
    known = {full: (full,) for full in SHORT_NAMES.values()}
    known |= {short: (full,) for short, full in SHORT_NAMES.items()}
    known |= {level: tuple(SHORT_NAMES[s] for s in shorts) for level, shorts in LEVELS.items()}
    for name in named:
        if name not in known:
            raise ValueError(
                f"unknown task type or level {name!r}{nearest(str(name), known)}; "
                f"one of {', '.join(known)}"
            )
    return frozenset(full for name in named or SHORT_NAMES for full in known[name])


def has_games(folder: Path) -> bool:
    """Does this folder hold any game of any split?"""
    return any(next((folder / FOLDER / split).glob(f"*/*/{FILE}"), None) for split in SPLITS)


def _folder(data: str | os.PathLike[str]) -> Path | None:
    """The folder of public games to use, None for the embedded set."""
    if data == "embedded":
        return None
    if data == "auto":
        usual = Path(os.environ.get("ALFWORLD_DATA") or DEFAULT_FOLDER).expanduser()
        return usual if has_games(usual) else None
    folder = Path(data).expanduser()
    if folder.name == FOLDER:
        folder = folder.parent
    if not has_games(folder):
        raise MissingAsset(
            f"no games in {folder}: expected {FOLDER}/<split>/<task>/<trial>/{FILE} below it; run "
            f"`alfworld-download`, name the folder that $ALFWORLD_DATA would name, or use "
            f'data="embedded"'
        )
    return folder


def _type_of(task_id: str) -> str:
    return task_id.split("/")[2].partition("-")[0]


def _embedded(split: str) -> Library:
    lines = embedded_lines(split)
    return Library("embedded", Panel(split, tuple(lines)), _EmbeddedReader(split))


@dataclass(frozen=True)
class _EmbeddedReader:
    """Reads one embedded game; made anew in every process from the wheel's file."""

    split: str

    def __call__(self, task_id: str) -> Game:
        data = {**logic(), **json.loads(embedded_lines(self.split)[task_id])}
        data["grammar"] = data["grammar"].replace("TASK", data["task"])
        return parse_game(data, task_id, f"embedded {self.split}, game {task_id}")


@lru_cache(maxsize=len(SPLITS))
def embedded_lines(split: str) -> dict[str, str]:
    """JSON text of each embedded game of a split, by task id, in the split's order."""
    text = lzma.decompress(asset(f"alfworld/{split}.jsonl.xz").read_bytes()).decode()
    lines = text.splitlines()
    return {f"embedded/{split}/{json.loads(line)['task_id']}": line for line in lines}


@lru_cache(maxsize=1)
def logic() -> dict[str, str]:
    """Our own wording of the domain and the grammar, which the embedded games share."""
    found: dict[str, str] = json.loads(lzma.decompress(asset("alfworld/logic.json.xz").read_bytes()))
    return found


def _public(folder: Path, split: str) -> Library:
    names = _listing(folder / FOLDER / split)
    if not names:
        raise MissingAsset(
            f"no games of split {split!r} in {folder}: expected {FOLDER}/{split}/<task>/<trial>/{FILE}; "
            f"run `alfworld-download` or use another split"
        )
    panel = Panel(split, tuple(f"alfworld/{split}/{name}" for name in names))
    return Library("alfworld", panel, _PublicReader(folder / FOLDER))


@dataclass(frozen=True)
class _PublicReader:
    """Reads one public game from its file."""

    root: Path

    def __call__(self, task_id: str) -> Game:
        return load_game(self.root / task_id.removeprefix("alfworld/") / FILE, task_id)


def _listing(split: Path) -> list[str]:
    """`<task>/<trial>` of every solvable text game, sorted; ALFWorld's own loader picks the same."""
    files: dict[str, list[int]] = {}
    for file in split.glob(f"*/*/{FILE}"):
        name = "/".join(file.parts[-3:-1])
        if name.partition("-")[0] in SHORT_NAMES.values() and not any(w in name for w in _LEFT_OUT):
            stat = file.stat()
            files[name] = [stat.st_size, stat.st_mtime_ns]
    cache = _cache_folder() / f"{blake2b(str(split.resolve()).encode(), digest_size=8).hexdigest()}.json"
    known = _read_cache(cache)
    fresh = {
        name: [*stamp, known[name][2]]
        if known.get(name, [])[:2] == stamp
        else [*stamp, _is_solvable(split / name / FILE)]
        for name, stamp in files.items()
    }
    if fresh != known:
        _write_cache(cache, fresh)
    return sorted(name for name, entry in fresh.items() if entry[2])


def _is_solvable(file: Path) -> bool:
    return _SOLVABLE.search(file.read_bytes()) is not None


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agent-envs" / "alfworld"


def _read_cache(cache: Path) -> dict[str, list[Any]]:
    """What was found out before; nothing where the file is missing or not ours."""
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_cache(cache: Path, entries: dict[str, list[Any]]) -> None:
    """Keep it for the next start; a folder that cannot be written only costs that start its time."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=cache.parent, delete=False, encoding="utf-8") as file:
            json.dump(entries, file)
        Path(file.name).replace(cache)
    except OSError:
        return
