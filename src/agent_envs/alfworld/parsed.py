"""Parsed games: those of a split's folder, in one file of the user's cache folder.

A head, a row for each game sorted by key, and the records. A record is a game as deflated JSON, or
JSON that says why there is none. A reset reads its record from the file: processes share what the
operating system keeps of it, and a file cut short is an error to handle, unlike that of a memory
map. Its version is a digest of the code that makes it.
"""

from __future__ import annotations

import json
import os
import struct
import warnings
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import fields
from functools import cache, lru_cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import IO, Any

from agent_envs.alfworld.game import Game, Goal, Words
from agent_envs.machine import find_cache, wait_for_lock, write_bytes

_HEAD = struct.Struct("<16s16sI")  # version, checksum of what follows, number of rows
_COUNT = 32  # the place of the latter
_ROW = struct.Struct("<8sQqQI")  # key, size and time of the game's file, record's place and size
_MAKERS = ("pddl.py", "game.py", "world.py", "parsed.py", "data.py")
_DEFLATED = b"x"  # the first byte of what zlib writes; JSON never starts with it


def _unshare(value: tuple[list[list[int]], list[int]]) -> tuple[tuple[int, ...], ...]:
    """Tuples from the different ones and the number of each."""
    different = list(map(tuple, value[0]))
    return tuple([different[number] for number in value[1]])


_FIELDS = fields(Game)[1:]  # without the task id
_NESTED = "tuple[tuple[int, ...], ...]"
_REVIVE: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys(("str", "int", "Mapping[str, int]"), lambda value: value),
    **dict.fromkeys(("tuple[str, ...]", "tuple[int, ...]"), tuple),
    _NESTED: _unshare,
    "bytes": bytes.fromhex,
    "Words": lambda value: Words(*value),
    "Goal": lambda value: Goal(*value),
    "Goal | None": lambda value: value and Goal(*value),
    "frozenset[int]": frozenset,
    "frozenset[tuple[int, int]]": lambda value: frozenset(map(tuple, value)),
    "Mapping[str, frozenset[int]]": lambda value: {k: frozenset(v) for k, v in value.items()},
}
"""Annotation of a field of `Game` -> what makes its value from decoded JSON."""
_REVIVERS = [_REVIVE[field.type] for field in _FIELDS]

Stamp = tuple[int, ...]
"""Size and time of a game's file."""

Rows = dict[bytes, tuple[Stamp, "bytes | memoryview"]]
"""Key of a game -> stamp of its file, and its record."""


def update_games(
    split: Path, stamps: Mapping[str, Stamp], parse: Callable[[str], Game | str | None]
) -> dict[str, str | None]:
    """Bring the file of a split's folder up to date; one process at a time does so.

    stamps: by the names of all games. parse: called for each name that is new or has changed; it
        returns the game, or why it cannot be played, or None if it is not meant to be.

    Returns: by name, why the game cannot be played, "" if it can, None if it is not meant to be.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # without a lock two processes may both build it
            stack.enter_context(wait_for_lock(_find_file(split).with_suffix(".lock")))
        known, rows = _read_rows(split), Rows()
        for name, stamp in stamps.items():
            key = _digest(os.fsencode(name), 8)
            same = key in known and known[key][0] == stamp
            rows[key] = known[key] if same else (stamp, _pack_game(name, parse(name)))
        if rows != known:
            _write_rows(split, rows)
    records = zip(stamps, rows.values(), strict=True)
    return {
        name: "" if record[:1] == _DEFLATED else json.loads(bytes(record))
        for name, (_, record) in records
    }


def load_parsed(split: Path, name: str, stamp: Stamp, task_id: str) -> Game | None:
    """A game from the file of a split's folder.

    None if it has to be parsed: it has changed, or the file is missing or, which a warning tells,
    damaged.
    """
    try:
        with _find_file(split).open("rb", buffering=0) as stream:
            record = _find_record(stream, name, stamp)
        if record is None:
            return None
        said, *values = json.loads(zlib.decompress(record))
        if said == name:
            revived = [make(value) for make, value in zip(_REVIVERS, values, strict=True)]
            return Game(task_id, *revived)
    except OSError:
        return None
    except (ValueError, TypeError, struct.error, zlib.error):
        pass
    _warn_of_damage(split, f"{name} is parsed, and the next start builds it anew")
    return None


def _find_record(stream: IO[bytes], name: str, stamp: Stamp) -> bytes | None:
    """The record of a game; None if it has changed or there is none.

    Raises:
        ValueError: the file is of another version, or the record lies outside it.
        struct.error: it ends within the rows.
    """
    version, _, count = _HEAD.unpack(stream.read(_HEAD.size))
    end = os.fstat(stream.fileno()).st_size
    if version != _find_version() or not 0 < count <= end // _ROW.size:
        raise ValueError(version, count)
    index, step, key = stream.read(count * _ROW.size), _ROW.size, _digest(os.fsencode(name), 8)
    number = bisect_left(range(count), key, key=lambda row: index[row * step : row * step + 8])
    found, size, time, place, length = _ROW.unpack_from(index, min(number, count - 1) * step)
    if found != key or (size, time) != stamp:
        return None
    if place + length > end:
        raise ValueError(place, length)
    stream.seek(place)
    return stream.read(length)


def _read_rows(split: Path) -> Rows:
    """All rows of the file; none if it is missing or, which a warning tells, damaged."""
    try:
        content = memoryview(_find_file(split).read_bytes())  # its slices take no memory
    except OSError:
        return {}
    if content[:_COUNT] != _find_version() + _digest(content[_COUNT:]):
        _warn_of_damage(split, "it is built anew")
        return {}
    count = _HEAD.unpack_from(content)[-1]
    return {
        key: ((size, time), content[place : place + length])
        for key, size, time, place, length in _ROW.iter_unpack(
            content[_HEAD.size : _HEAD.size + count * _ROW.size]
        )
    }


def _write_rows(split: Path, rows: Rows) -> None:
    """Write the file; if that is not possible, a warning says so."""
    index, records = bytearray(len(rows).to_bytes(4, "little")), bytearray()
    start = _HEAD.size + len(rows) * _ROW.size
    for key, (stamp, record) in sorted(rows.items()):
        index += _ROW.pack(key, *stamp, start + len(records), len(record))
        records += record
    body = bytes(index + records)
    try:
        write_bytes(_find_file(split), _find_version() + _digest(body) + body)
    except OSError as error:
        warnings.warn(
            f"the parsed games of {split} cannot be kept ({error}), so that every reset parses its "
            "game; make the folder writable, or set XDG_CACHE_HOME to one that is",
            stacklevel=2,
        )


def _pack_game(name: str, game: Game | str | None) -> bytes:
    """The record of a game, or of why there is none."""
    if not isinstance(game, Game):
        return json.dumps(game).encode()
    values = [getattr(game, field.name) for field in _FIELDS]
    for at, field in enumerate(_FIELDS):
        if field.type == _NESTED:
            different = list(dict.fromkeys(values[at]))
            values[at] = different, [different.index(value) for value in values[at]]
    record = json.dumps([name, *values], default=_simplify, separators=(",", ":"))
    return zlib.compress(record.encode())


def _simplify(value: Any) -> Any:
    """A value of a field of `Game` for JSON; tuples need nothing."""
    if isinstance(value, bytes):
        return value.hex()
    return list(vars(value).values()) if isinstance(value, Goal) else sorted(value)


@lru_cache(maxsize=16)
def _find_file(split: Path) -> Path:
    """The file of a split's folder; errors as of `find_cache`."""
    return find_cache() / "alfworld" / f"{_digest(bytes(split)).hex()}.games"


@cache
def _find_version() -> bytes:
    """The digest of the code that makes the file."""
    package = resources.files("agent_envs.alfworld")
    return _digest(b"".join(package.joinpath(name).read_bytes() for name in _MAKERS))


def _digest(content: bytes | memoryview, size: int = 16) -> bytes:
    return blake2b(content, digest_size=size).digest()


def _warn_of_damage(split: Path, effect: str) -> None:
    warnings.warn(f"{_find_file(split)} is damaged or of another version; {effect}", stacklevel=3)
