"""Public questions and their corpus, from a folder in one of the public formats."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.assets import MissingAsset, Reading, find_data, read_stamps
from agent_envs.contract import encodable
from agent_envs.panels import Panel, find_copies, one_of, source_of
from agent_envs.retrieval.passages import open_corpus, read_id

if TYPE_CHECKING:
    import os

    from agent_envs.retrieval.passages import Corpus

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".json", ".parquet")
_ANSWERS = ("answers", "golden_answers", "possible_answers", "target")
_SHARD = re.compile(r"-\d+-of-\d+$")  # in names of files with a part of a split
_NO_COMMA = re.compile(r"(['\"])\s+(['\"])")  # between texts of a list
_NOTHING = ("", "nan", "nat", "inf", "-inf", "none", "null", "n/a", "<na>", "[nan]")
"""What programs print for what is missing."""
_ARRAY = re.compile(r"array\((\[.*\])(?:,\s*dtype=\S+)?\)", re.DOTALL)  # as NumPy prints it
_OPENED = re.compile(r"[\[{]\s*['\"]")  # of a printed list
_TENTHS = {"test": range(1), "val": range(1, 2), "train": range(2, 10)}


class Question(NamedTuple):
    """A question with its accepted answers.

    gold: ids of the passages with the answer, in the order needed; () if unknown.
    kind, split: as given by the data, or "".
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[str, ...] = ()
    kind: str = ""
    split: str = ""

    @property
    def strata(self) -> dict[str, str]:
        """The data set or its kind of question."""
        return {"kind": self.kind} if self.kind else {}


class Data:
    """Questions by id, in order, and the corpus; one shared object per folder.

    Attributes:
        folder: The folder.
        questions: Questions by id.
        corpus: None if the folder has none; then passages must come from a server.
        reading: What was left out of the files.
    """

    def __init__(
        self, folder: Path, questions: dict[str, Question], corpus: Corpus | None, reading: Reading
    ) -> None:
        self.folder, self.questions, self.corpus = folder, questions, corpus
        self.reading = reading

    def panel(self, split: str) -> Panel:
        """The tasks of a split, as named by the questions, or else tenths by a digest of the id.

        Raises:
            ValueError: No such split, or it has no question.
        """
        named = dict.fromkeys(question.split for question in self.questions.values())
        named.pop("", None)
        one_of("split", split, ("all", *(named or _TENTHS)))
        asked = {
            question.id: question.text
            for question in self.questions.values()
            if split in ("all", question.split if named else _draw_split(question.id))
        }
        if not asked:
            count = len(self.questions)
            raise ValueError(f"split {split!r} has none of the {count} questions; use split='all'")
        return Panel(split, tuple(asked), source_of("search_qa", self.folder), find_copies(asked))

    def __deepcopy__(self, memo: dict[int, Any]) -> Data:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _share_data, (self.folder,)


def open_data(
    data: str | os.PathLike[str] = "auto", name: str = "SearchQA", *, strict: bool = False
) -> Data:
    """The questions of a folder, or of "auto": that of `$SEARCH_QA_DATA`.

    A folder has `qa.jsonl`, or files of questions named by their split (JSON lines, a JSON list or
    parquet; plain, gzip or xz), and optionally `corpus.jsonl`. Bad records are left out with a
    warning.

    Raises:
        MissingAsset: No folder, or one without questions.
        BadAsset: No record is good, or with `strict`, one is bad.
    """
    folder = find_data(data, "SEARCH_QA_DATA")
    if folder is None:
        raise MissingAsset(
            f"{name}-v0 plays public questions and has none of its own, got data={data!r}; give a "
            f"folder as data=, or play the generated world, {name}-v1"
        )
    found = _share_data(folder)
    found.reading.report(strict=strict)
    return found


def _share_data(folder: Path) -> Data:
    return _read_folder(folder, read_stamps(folder))


@lru_cache(maxsize=2)
def _read_folder(where: Path, _stamps: tuple[Any, ...]) -> Data:
    """The data of a folder; `_stamps` invalidates the cache when a file changes."""
    if not where.is_dir():
        raise MissingAsset(f"no folder {where}; give one with qa.jsonl as data=")
    files = sorted(path for path in where.iterdir() if path.name.endswith(ENDINGS))
    names = {path: path.name.partition(".")[0] for path in files}
    corpora = [where / f"corpus{ending}" for ending in ENDINGS[:3]]
    alone = [where / f"qa{ending}" for ending in ENDINGS if where / f"qa{ending}" in files][:1]
    corpus = next((open_corpus(path) for path in corpora if path in files), None)
    questions: dict[str, Question] = {}
    reading = Reading()
    for path in alone or [path for path in files if not path.name.startswith("corpus")]:
        split = "" if names[path] == "qa" else _SHARD.sub("", names[path])
        for number, (place, row) in enumerate(reading.read_rows(path)):
            with reading.record(path, place):
                question = read_question(row, f"{names[path]}-{number}", split)
                if question.id in questions:
                    raise ValueError(
                        f"a question needs an id of its own, got {question.id!r:.60} again"
                    )
                questions[question.id] = question
    if not questions:
        reading.report(strict=True)
        raise MissingAsset(f"no questions in {where}; put qa.jsonl there")
    if corpus is not None:
        asked = [one for one in questions.values() if not corpus.place.keys() >= {*one.gold}]
        what = f"questions have a gold passage that {corpus.path.name} lacks, so none is known"
        questions |= {one.id: one._replace(gold=()) for one in asked}
        reading.note(where, [one.id for one in asked], len(questions), what)
        reading.good += corpus.reading.good
        reading.bad += corpus.reading.bad
    return Data(where, questions, corpus, reading)


def read_question(row: Any, name: str, split: str = "") -> Question:
    """The question in a row of our own format, or Search-R1's, FlashRAG's, verl's or a data set's.

    Raises:
        TypeError: The row is not an object.
        ValueError: It has no question or no answers.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"a question must be an object, got {row!r:.60}")
    extra = row.get("extra_info")  # verl
    inner = extra.get("question") if isinstance(extra, Mapping) else None
    text = row.get("question") or row.get("query") or inner
    if not isinstance(text, str) or text.strip().lower() in _NOTHING:
        raise ValueError(f"a question needs a text under 'question', got {row!r:.80}")
    answers = tuple(dict.fromkeys(_read_answers(row)))
    if not answers:
        raise ValueError(
            f"a question needs answers under 'answer' or one of {_ANSWERS}, got {row!r:.80}"
        )
    return Question(
        encodable(read_id(row) or name),
        encodable(text),
        answers,
        gold=tuple(str(passage) for passage in _read_list(row.get("gold"))),
        kind=str(row.get("type") or row.get("dataset") or row.get("data_source") or ""),
        split=str(row.get("split") or split),
    )


def _read_answers(row: Mapping[str, Any]) -> list[str]:
    """The accepted answers, in any of the formats."""
    judged = row.get("reward_model")
    if isinstance(judged, Mapping):
        truth = judged.get("ground_truth")
        row = {**row, **(truth if isinstance(truth, Mapping) else {"target": truth})}
    for keys in (*((key,) for key in _ANSWERS), ("answer", "answer_aliases")):
        given = [part for key in keys for part in _read_list(row.get(key))]
        if found := [
            encodable(text) for text in _iter_texts(given) if text.strip().lower() not in _NOTHING
        ]:
            return found
    return []


def _iter_texts(value: Any) -> Iterator[str]:
    """The texts of an answer: itself, SQuAD's {"text"}, TriviaQA's {"value", "aliases"}, lists."""
    if isinstance(value, Mapping):
        parts = [value[key] for key in ("text", "value", "aliases") if key in value]
        if not parts:
            raise ValueError(
                f"an answer must be a text or have one under 'text', got {value!r:.60}"
            )
        value = parts
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        whole = isinstance(value, float) and value.is_integer()  # a column with gaps: 1994.0
        yield from () if value is None else (str(int(value) if whole else value),)
    else:
        for part in value:
            yield from _iter_texts(part)


def _read_list(value: Any) -> list[Any]:
    """A value as a list: the list itself, one or an object as printed (PopQA), or [value]."""
    if isinstance(value, str):
        printed = _ARRAY.sub(r"\1", value.strip())
        for read in (json.loads, ast.literal_eval) if printed[:1] in {*"[{("} else ():
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                # NumPy writes lists without commas
                parsed = read(_NO_COMMA.sub(r"\1, \2", printed))
                if isinstance(parsed, (tuple, set)) and all(isinstance(one, str) for one in parsed):
                    parsed = sorted(parsed) if isinstance(parsed, set) else [*parsed]
                return _read_list(parsed) if isinstance(parsed, (list, dict)) else [value]
        if _OPENED.match(printed):
            raise ValueError(f"answers must be a text or a whole list, got {value!r:.60}")
    if value is None or value == "":
        return []
    whole = isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__")
    return [value] if whole else list(value)


def _draw_split(name: str) -> str:
    """The split of the question with that id: tenths by a digest."""
    tenth = blake2b(name.encode(), digest_size=4).digest()[0] % 10
    return next(split for split, tenths in _TENTHS.items() if tenth in tenths)
