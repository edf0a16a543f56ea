"""Files that the environments read: the shipped ones, and the rules by which public ones are read.

A bad record costs one record: readers keep what is good, and a `Reading` says what they left out.
"""

from __future__ import annotations

import codecs
import gzip
import json
import lzma
import os
import re
import tomllib
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_CASE = re.compile(r", got |: line \d| 0x| at row \d")  # what follows differs between records
_TOLD = 4  # reasons in a report
_REFUSALS = (ValueError, TypeError, RecursionError, OSError)
_UNPACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}


class MissingAsset(FileNotFoundError):
    """A required file is missing; the message names it and the command that gets it."""


class BadAsset(ValueError):
    """A file is damaged or has the wrong content; the message names it and what is wrong.

    bad: The bad records, where these are known.
    """

    bad: list[BadRecord]

    def __init__(self, said: str, bad: Iterable[BadRecord] = ()) -> None:
        super().__init__(said)
        self.bad = list(bad)


class BadRecord(NamedTuple):
    """A record that was left out: its file, its place there, such as "line 3", and the reason."""

    file: str
    place: str
    reason: str


class Reading:
    """The records of some files.

    good: How many records of each file are good.
    bad: The bad ones.
    notes: What is no fault of one record, such as records that belong to nothing, in sentences.
    """

    def __init__(self) -> None:
        self.good: Counter[str] = Counter()
        self.bad: list[BadRecord] = []
        self.notes = dict[str, None]()

    @contextmanager
    def record(self, file: object, place: str) -> Iterator[None]:
        """Read one record in this block; if the block refuses it, it is left out."""
        try:
            yield
        except _REFUSALS as error:
            self.leave_out(file, place, error)
        else:
            self.good[str(file)] += 1

    def leave_out(self, file: object, place: str, why: object) -> None:
        """Add a bad record; `why` may begin with file and place."""
        reason = str(why).removeprefix(f"{file}").lstrip(":, /").removeprefix(place).lstrip(":, ")
        self.bad.append(BadRecord(str(file), place, reason))

    def note(self, file: object, found: Sequence[object], total: int, what: str) -> None:
        """Note that some of so many are `what`, if there are any, with an example."""
        if found:
            self.notes[f"{file}: {len(found):,} of {total:,} {what}, such as {found[0]!r:.80}"] = (
                None
            )

    def read_rows(self, path: Path) -> Iterator[tuple[str, Any]]:
        """Place and value of each record of a file of JSON lines, a JSON list or parquet.

        Blank lines are skipped, and NaN is null. What cannot be decoded is left out, a line or the
        whole file.
        """
        lines, rows = [b""], []
        try:
            if path.suffix == ".parquet":
                rows = [
                    {name: None if repr(value) == "nan" else value for name, value in row.items()}
                    for row in require("pyarrow.parquet", "train").read_table(path).to_pylist()
                ]
            else:
                content = unpack_file(path)
                lines = content.split(b"\n")
                if content.lstrip()[:1] == b"[" or lines[0].strip() == b"{":
                    whole = _load_json(content)
                    lines, rows = [], whole if isinstance(whole, list) else [whole]
        except _REFUSALS as error:
            self.leave_out(path, "as a whole", error)
            return
        yield from ((f"record {number}", row) for number, row in enumerate(rows, 1))
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    row = _load_json(line)
                except _REFUSALS as error:
                    self.leave_out(path, f"line {number}", f"no JSON: {error}")
                else:
                    yield f"line {number}", row

    def report(self, *, strict: bool) -> None:
        """Warn once of what was left out, by count and reason.

        Raises:
            BadAsset: With `strict`, something was left out; without it, everything.
        """
        if not self.bad:
            return
        alike = Counter(_CASE.split(bad.reason)[0] for bad in self.bad).most_common()
        reasons = [f"{count} x {reason}" for reason, count in alike[:_TOLD]]
        reasons += [f"{len(alike) - _TOLD} other reasons"] * (len(alike) > _TOLD)
        file, place, reason = self.bad[0]
        said = (
            f"{file}, {place}: {reason}. {len(self.bad)} of {len(self.bad) + self.good.total()} "
            f"records are bad ({'; '.join(reasons)}); `agent-envs assets check` lists them"
        )
        if strict or not self.good:
            raise BadAsset(said, self.bad)
        warnings.warn(f"{said}; they are left out, strict=True refuses them", stacklevel=3)


def _load_json(content: bytes) -> Any:
    """JSON, with null for NaN and infinity."""
    return json.loads(content, parse_constant=lambda _: None)


def asset(path: str) -> Traversable:
    """The file or folder `path` of the data shipped with the package, in a checkout or a wheel.

    Raises:
        MissingAsset: it is not installed.
    """
    found = resources.files("env_assets").joinpath(*path.split("/"))
    if not (found.is_file() or found.is_dir()):
        raise MissingAsset(
            f"{found} is not in this installation; run `pip install --force-reinstall agent-envs`"
        )
    return found


def find_data(given: str | os.PathLike[str], variable: str) -> Path | None:
    """The folder of public data; "auto" is that of an environment variable, "embedded" is None."""
    named = os.fspath(given)
    if named == "auto":
        named = os.environ.get(variable) or "embedded"
    return None if named == "embedded" else expand_path(named)


def read_stamps(path: Path | None) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of a file, or of all in a folder, to notice changes; () for none."""
    if path is None or not path.exists():
        return ()
    files = path.iterdir() if path.is_dir() else (path,)
    stats = ((file, file.stat(follow_symlinks=file.exists())) for file in files)
    return tuple(sorted((file.name, stat.st_size, stat.st_mtime_ns) for file, stat in stats))


def expand_path(given: str | os.PathLike[str]) -> Path:
    """The absolute path, with the home folder of a user for `~`.

    Raises:
        MissingAsset: There is no such user, or the user has no home folder.
    """
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        more = " or set HOME" if os.fspath(given).partition("/")[0] == "~" else ""
        raise MissingAsset(
            f"{given}: there is no home folder for the ~; give the path without ~{more}"
        ) from error


def table(path: str) -> dict[str, Any]:
    """The TOML file `path` of this package, such as `sotopia/people.toml`."""
    file = resources.files("agent_envs").joinpath(*path.split("/"))
    return tomllib.loads(file.read_text(encoding="utf-8"))


def require(module: str, extra: str) -> Any:
    """The package `module`, which the extra `extra` installs.

    Raises:
        ImportError: It is not installed; the message has the command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {module} ({error}): pip install 'agent-envs[{extra}]'"
        ) from error


def unpack_file(path: Path) -> bytes:
    """The bytes of a plain, gzip or xz file, as UTF-8 without a byte order mark.

    Raises:
        MissingAsset: There is no such file.
        BadAsset: It cannot be read or decompressed.
    """
    try:
        content = path.read_bytes()
        if path.suffix in _UNPACK:
            content = _UNPACK[path.suffix](content)
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16").encode()
    except FileNotFoundError:
        raise MissingAsset(f"no file {path}; put it there, or name another one") from None
    except (OSError, EOFError, UnicodeError, lzma.LZMAError, zlib.error) as error:
        raise BadAsset(f"{path} is damaged or no file: {error}") from error
    return content.removeprefix(codecs.BOM_UTF8)


def read_json(path: Path) -> Any:
    """The content of a JSON file, plain, gzip or xz.

    Raises:
        MissingAsset: There is no such file.
        BadAsset: It is broken.
    """
    content = unpack_file(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadAsset(f"{path} is no JSON, perhaps truncated: {error}; get it again") from error


def refuse_damaged(source: str, rules: Mapping[str, Any]) -> None:
    """Refuse what breaks a rule; `rules` has what each says, and whether it is broken.

    Raises:
        BadAsset: one is; the message has the `source` and the first.
    """
    for said, is_broken in rules.items():
        if is_broken:
            raise BadAsset(f"{source}: {said}")
