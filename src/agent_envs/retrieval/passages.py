"""Passages, the corpus that has them, the protocol of retrievers, and the order of results.

A corpus is a JSON-lines file that is read on access, so that millions of passages fit in memory.
"""

from __future__ import annotations

import codecs
import json
import mmap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from agent_envs.assets import BadAsset, Reading, read_stamps, unpack_file
from agent_envs.contract import encodable
from agent_envs.machine import read_cache, write_cache

_LETTERS = str.maketrans({
    "æ": "ae", "ð": "d", "đ": "d", "ħ": "h", "ı": "i", "ĸ": "k", "ł": "l", "ŋ": "n", "ø": "o",
    "œ": "oe", "þ": "th", "ŧ": "t",
})  # fmt: skip
_LARGE = 100_000  # lines, which take half a second
Places: TypeAlias = NDArray[np.intp]


class Passage(NamedTuple):
    """A passage of a corpus.

    score: score of the search that found it, higher is better.
    quoted: whether the title is in double quotes in `contents`, as in Search-R1's corpus.
    """

    id: str
    title: str
    text: str
    score: float = 0.0
    quoted: bool = True

    @property
    def heading(self) -> str:
        """The title as written in `contents`."""
        return f'"{self.title}"' if self.quoted else self.title

    @property
    def document(self) -> str:
        """The title, a line break and the text."""
        return f"{self.title}\n{self.text}"


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query, best first; [] if nothing matches.

        Raises:
            ValueError: `k` below 1.
        """


def check_search(queries: Sequence[str], k: int) -> None:
    """Check the arguments of `Retriever.search`.

    Raises:
        TypeError: One text instead of a list of texts.
        ValueError: `k` below 1.
    """
    if isinstance(queries, str):
        raise TypeError(f"queries must be a list of texts, got {queries!r:.60}; give [query]")
    if k < 1:
        raise ValueError(f"k, the number of passages per query, must be at least 1, got {k}")


def pick_best(
    passages: Sequence[Passage], scores: NDArray[np.float32], k: int, *, above: float
) -> list[Passage]:
    """The `k` passages with the highest scores above `above`; ties in the corpus's order."""
    least = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
    chosen = np.flatnonzero((scores >= least) & (scores > above))
    order = chosen[np.argsort(-scores[chosen], kind="stable")][:k]
    return [passages[at]._replace(score=float(scores[at])) for at in order.tolist()]


class Corpus(Sequence[Passage]):
    """The passages of `path`, in the file's order; a plain file is memory-mapped.

    A line is `{"id", "title", "text"}`, or `{"id", "contents"}` as in Search-R1, with the title in
    the first line of `contents`. A compressed file (`.gz`, `.xz`) is decompressed into memory.
    Every line of a file that is new is read once; invalid ones, and later ones with the same id,
    are left out, which `reading` counts and a cache file keeps.

    Raises:
        MissingAsset: There is no such file.
        BadAsset: It has no passages or cannot be decompressed.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.reading = path, Reading()
        self._data = _map_file(path)
        ends = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n"))
        starts = np.concatenate([[0], ends + 1])
        stops = np.concatenate([ends, [len(self._data)]])
        starts[0] += len(codecs.BOM_UTF8) * (self._data[:3] == codecs.BOM_UTF8)
        left = self._list_left_out(starts, stops)
        for line, reason in left.items():
            if reason:
                self.reading.leave_out(path, f"line {line}", reason)
        good = np.delete(np.arange(len(starts)), [int(line) - 1 for line in left])
        self._starts, self._stops = starts[good], stops[good]
        self.reading.good[str(path)] = len(good)
        if not len(good):
            self.reading.report(strict=True)
            raise BadAsset(f"{path} has no passages; it needs one JSON object per line")

    def _list_left_out(self, starts: Places, stops: Places) -> dict[str, str]:
        """Why lines are left out, by their number; "" for blank ones. A cache file keeps it."""
        large, known = len(starts) > _LARGE, self._read_cache() if len(starts) > _LARGE else {}
        if "left" in known:
            return dict(known["left"])
        left, ids = dict[str, str](), np.arange(len(starts))
        for at, line in enumerate(map(slice, starts.tolist(), stops.tolist())):
            try:
                text = self._data[line].strip()
                if text:
                    ids[at] = hash(parse_passage(json.loads(text)).id)
                else:
                    left[str(at + 1)] = ""
            except (ValueError, TypeError, RecursionError) as error:
                left[str(at + 1)] = str(error)
        order = np.argsort(ids, kind="stable")
        for at in order[1:][ids[order][1:] == ids[order][:-1]].tolist():
            left.setdefault(
                str(at + 1), "a passage needs an id of its own, it has an earlier one's"
            )
        if large:
            self._write_cache({"left": left})
        return left

    @cached_property
    def digest(self) -> str:
        """`digest_documents` of the passages; of a large corpus a cache file keeps it."""
        large = len(self) > _LARGE
        found: str = (self._read_cache() if large else {}).get("digest") or digest_documents(self)
        if large:
            self._write_cache({"digest": found})
        return found

    def _name_cache(self) -> str:
        return f"corpora/{sha256(bytes(self.path.absolute())).hexdigest()[:32]}.json"

    def _read_cache(self) -> dict[str, Any]:
        """What was kept of the file as it is now."""
        stat, known = self.path.stat(), read_cache(self._name_cache())
        return known if known.get("stamp") == [stat.st_size, stat.st_mtime_ns] else {}

    def _write_cache(self, found: dict[str, Any]) -> None:
        stat = self.path.stat()
        known = self._read_cache() | {"stamp": [stat.st_size, stat.st_mtime_ns]}
        write_cache(self._name_cache(), known | found)

    @cached_property
    def place(self) -> dict[str, int]:
        """Place of each passage by its id."""
        return {passage.id: at for at, passage in enumerate(self)}

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, at: int) -> Passage: ...
    @overload
    def __getitem__(self, at: slice) -> list[Passage]: ...
    def __getitem__(self, at: int | slice) -> Passage | list[Passage]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        found = parse_passage(json.loads(self._data[self._starts[at] : self._stops[at]]))
        return found._replace(title=encodable(found.title), text=encodable(found.text))

    def __deepcopy__(self, memo: dict[int, Any]) -> Corpus:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_corpus, (self.path,)


def digest_documents(passages: Iterable[Passage]) -> str:
    """A digest of titles and texts in their order, of which an index is made."""
    digest = sha256()
    for passage in passages:
        document = passage.document.encode(errors="surrogatepass")
        digest.update(b"%d " % len(document) + document)
    return digest.hexdigest()


def fold_letters(text: str) -> str:
    """A text in lower case and without diacritics: Latin letters as those of English.

    Letters that Unicode decomposes lose their marks (é, ů); a table has those that have a stroke or
    join two letters (ø, ł, œ, þ), and ß is ss.
    """
    if text.isascii():
        return text.lower()
    letters = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return "".join(letters).casefold().translate(_LETTERS)


def open_corpus(path: Path) -> Corpus:
    """The corpus of a file; one shared object per file, until it changes."""
    return _read_corpus(path, read_stamps(path))


@lru_cache(maxsize=4)
def _read_corpus(path: Path, _stamps: tuple[Any, ...]) -> Corpus:
    return Corpus(path)


def parse_passage(record: Any) -> Passage:
    """The passage of a record in a corpus or in a server's answer, or of a plain text.

    A passage without an id gets a digest of its title and text as its id.

    Raises:
        TypeError: Neither an object nor a text, or title or text is not a string.
        ValueError: It has neither text nor contents.
    """
    if isinstance(record, str):
        first, found, rest = record.partition("\n")
        record = {"contents": record} if found else {"text": first + rest}
    if not isinstance(record, dict):
        raise TypeError(f"a passage must be an object or a text, got {record!r:.60}")
    title, text, contents = record.get("title") or "", record.get("text"), record.get("contents")
    if text is None and not isinstance(contents, str):
        raise ValueError(f"a passage needs 'text' or 'contents', got {record!r:.60}")
    first, _, rest = str(contents or "").partition("\n")
    if text is None:
        quoted = len(first) > 1 and first[0] == first[-1] == '"'
        title, text = title or (first[1:-1] if quoted else first), rest
    if not isinstance(title, str) or not isinstance(text, str):
        raise TypeError(f"title and text must be strings, got {record!r:.60}")
    known = read_id(record)
    if known is None:
        known = sha256(f"{title}\n{text}".encode(errors="surrogatepass")).hexdigest()[:16]
    return Passage(known, title, text, quoted=contents is None or first != title)


def read_id(record: Mapping[str, Any]) -> str | None:
    """The id of a passage or question, under "id" or "_id" (BEIR), if it has one.

    Raises:
        ValueError: It is neither a text nor a number.
    """
    known = record.get("_id") if record.get("id") is None else record["id"]
    if not isinstance(known, (str, int, float, type(None))) or str(known) == "nan":
        raise ValueError(f"an id must be a text or a number, got {known!r:.60}")
    return None if known is None else str(known)


def _map_file(path: Path) -> bytes | mmap.mmap:
    """The bytes of a file; a plain file is memory-mapped."""
    if path.suffix in {".gz", ".xz"} or not path.is_file() or not path.stat().st_size:
        return unpack_file(path)
    with path.open("rb") as file:
        if file.read(2) in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
            return unpack_file(path)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
