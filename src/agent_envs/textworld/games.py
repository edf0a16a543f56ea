"""Games by task: panels of generated games, files of a user, and the cache of generated games.

A generated game is made once per machine, by TextWorld's program `tw-make`. The splits of its seeds
are in `seeds.toml`, which `tools/textworld_seeds.py` makes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.metadata import files, version
from pathlib import Path
from typing import NamedTuple

from agent_envs.assets import BadAsset, MissingAsset, Reading, read_json, table
from agent_envs.machine import find_cache, wait_for_lock
from agent_envs.panels import Panel, one_of, source_of
from agent_envs.textworld.engine import Game

SPLITS = {"train": 100, "val": 20, "test": 20}
"""Games of each split, for a kind at a level."""
KINDS = {
    "coin_collector": (5, (range(1, 101), range(101, 151), range(201, 234))),
    "treasure_hunter": (5, (range(1, 31),)),
    "simple": (1, (range(1, 4),)),
    "cooking": (1, (range(1, 5),)),
    "custom": (5, (range(1, 21),)),
}
"""Kinds of generated games: the default level, and all levels."""
SETTINGS = {
    "coin_collector": ("tw-coin_collector level={level}",),
    "treasure_hunter": ("tw-treasure_hunter level={level}",),
    "simple": (
        "tw-simple rewards=dense goal=detailed",
        "tw-simple rewards=balanced goal=brief",
        "tw-simple rewards=sparse goal=brief",
    ),
    "cooking": (
        "tw-cooking recipe=1 take=1 go=1 open cut",
        "tw-cooking recipe=1 take=1 go=1 open cut cook",
        "tw-cooking recipe=1 take=1 go=9 open",
        "tw-cooking recipe=3 take=3 go=6 open cut cook",
    ),
    "custom": ("custom world-size={level} nb-objects={twice} quest-length={level}",),
}
"""Kind and options of `tw-make`, for each level or all; of cooking as in Adhikari et al. (2020),
Table 1."""
VERSION = "1.7"
"""Of the generator; others may make other games of a seed."""

_TASK = re.compile(r"([a-z_]+)-(\d{1,3})-(\d{1,9})")
_LOCKS = 16


class Task(NamedTuple):
    """A generated game."""

    kind: str
    level: int
    seed: int


def read_task(task_id: str) -> Task:
    """The game of a task id such as `coin_collector-5-17`.

    Raises:
        ValueError: not of this form, or no such kind or level.
    """
    found = _TASK.fullmatch(task_id)
    if found is None:
        raise ValueError(
            f"{task_id!r:.80} names no generated game; write kind-level-seed, such as "
            "coin_collector-5-17"
        )
    check_level(found[1], int(found[2]))
    return Task(found[1], int(found[2]), int(found[3]))


def check_level(kind: str, level: int | None) -> None:
    """Refuse an unknown kind or level.

    Raises:
        ValueError: it is one.
    """
    one_of("kind", kind, tuple(KINDS))
    if level is not None and not any(level in some for some in KINDS[kind][1]):
        allowed = " or ".join(f"{some[0]}..{some[-1]}" for some in KINDS[kind][1])
        raise ValueError(f"level of {kind} must lie in {allowed}, got {level}")


def open_panel(split: str, kind: str | None, level: int | None) -> Panel:
    """The generated games of a split: of one kind and level, or of all kinds in turn.

    Raises:
        ValueError: no such split or kind, or no splits of this level.
    """
    one_of("split", split, tuple(SPLITS))
    if kind is None and level is not None:
        raise ValueError(f"level={level} is that of one kind; give kind, one of {', '.join(KINDS)}")
    digit, rows, seeds = str([*SPLITS].index(split)), [], table("textworld/seeds.toml")
    for one in KINDS if kind is None else (kind,):
        check_level(one, level)
        of_kind, known = KINDS[one][0] if level is None else level, seeds[one]
        if str(of_kind) not in known:
            raise ValueError(
                f"{one} has splits at level {', '.join(known)}, got {of_kind}; "
                f"games=['{one}-{of_kind}-0'] plays any seed"
            )
        chosen = [seed for seed, part in enumerate(known[str(of_kind)]) if part == digit]
        rows.append([f"{one}-{of_kind}-{seed}" for seed in chosen[: SPLITS[split]]])
    longest = max(map(len, rows))
    return Panel(split, tuple(row[at] for at in range(longest) for row in rows if at < len(row)))


def find_files(path: Path, reading: Reading, *, strict: bool) -> tuple[Panel, dict[str, str]]:
    """The panel of the games in a folder, or of one file; the .json of each task.

    Raises:
        MissingAsset: no such folder or file, or no game in it.
        BadAsset: all games are bad, or with `strict` one is.
    """
    if not path.exists():
        raise MissingAsset(f"no file or folder {path}; make a game with tw-make, or leave data out")
    found, paths = sorted(path.glob("*.z8")) if path.is_dir() else [path], dict[str, str]()
    for file in found:
        with reading.record(file, "as a whole"):
            if file.suffix != ".z8":
                raise BadAsset(f"{file} is no game of TextWorld; give a .z8 file with its .json")
            description = file.with_suffix(".json")
            if not description.is_file():
                raise BadAsset(
                    f"{file} has no {description.name} beside it, which has its commands, facts "
                    "and solution; put it there, or make a game with tw-make"
                )
            read_json(description)
            paths[file.stem] = str(description)
    reading.report(strict=strict)
    if not paths:
        raise MissingAsset(f"no game (.z8 with its .json) in {path}; tw-make makes some")
    return Panel("all", tuple(paths), source_of("textworld", path)), paths


@lru_cache(maxsize=16)
def open_game(name: str) -> Game:
    """The game of a task id, made if it is not there yet, or of the path of a .json file.

    Raises:
        ValueError, RuntimeError: as of `make_game`.
        MissingAsset: a file is gone.
        BadAsset: a file is damaged.
    """
    description = Path(name) if name.endswith(".json") else make_game(name)
    return Game(name, description, description.with_suffix(".z8"), open_game)


def make_game(task_id: str) -> Path:
    """The .json of a generated game; the game is made if it is not there yet.

    Any number of processes may do so at the same time; each game is made once.

    Raises:
        ValueError: as of `read_task`.
        RuntimeError: another version of TextWorld, `tw-make` failed, or the folder of caches cannot
            be written.
    """
    task, installed = read_task(task_id), version("textworld")
    if not f"{installed}.".startswith(f"{VERSION}."):
        raise RuntimeError(
            f"generated games are those of textworld {VERSION}, and {installed} is installed; run "
            "pip install 'agent-envs[textworld]'"
        )
    folder = find_cache() / "textworld"
    made = folder / f"{task_id}-{installed}.json"
    try:
        if not made.exists():
            with wait_for_lock(folder / f"{task.seed % _LOCKS}.lock"):
                if not made.exists():
                    _run_tw_make(task, made)
    except OSError as error:
        raise RuntimeError(
            f"generated games cannot be kept in {folder} ({error}); make it writable, or set "
            "XDG_CACHE_HOME to a folder that is"
        ) from error
    return made


def list_arguments(task: Task, output: str) -> list[str]:
    """What `tw-make` gets to make the file of a game."""
    kind, level, seed = task
    forms = SETTINGS[kind]
    form = forms[level - 1] if len(forms) > 1 else forms[0]
    name, *options = form.format(level=level, twice=2 * level).split()
    return [name, *(f"--{one}" for one in (*options, f"seed={seed}", "silent", f"output={output}"))]


def find_tw_make() -> str:
    """TextWorld's program that makes games."""
    return next(str(file.locate()) for file in files("textworld") or () if file.name == "tw-make")


def _run_tw_make(task: Task, made: Path) -> None:
    """Make the files of a game; the .json is there last.

    Strings have fixed hashes in the program, because the generators follow the order of sets.

    Raises:
        RuntimeError: it failed.
    """
    environment = os.environ | {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    with tempfile.TemporaryDirectory(dir=made.parent) as work:
        output = Path(work, "game.z8")
        arguments = list_arguments(task, str(output))
        command = [sys.executable, "-W", "ignore", find_tw_make(), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not output.exists():
            last = ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"tw-make {' '.join(arguments):.80} failed: {last:.200}")
        description = output.with_suffix(".json")
        content = json.loads(description.read_text())
        content["KB"]["text_grammars_path"] = ""  # a folder of this installation
        description.write_text(json.dumps(content))
        for ending in (".z8", ".json"):
            output.with_suffix(ending).replace(made.with_suffix(ending))
