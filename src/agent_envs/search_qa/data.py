"""Questions and their corpus: from a folder, in public formats, or the embedded encyclopaedia."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.assets import BadAsset, MissingAsset, asset, require
from agent_envs.contract import encodable
from agent_envs.panels import Panel, nearest, one_of, source_of
from agent_envs.retrieval.corpus import open_corpus, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agent_envs.retrieval.corpus import Corpus

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".json", ".parquet")
_ANSWERS = ("answers", "golden_answers", "possible_answers", "target")
_SHARD = re.compile(r"-\d+-of-\d+$")  # in names of files with a part of a split
_TENTHS = {"test": range(1), "val": range(1, 2), "train": range(2, 10)}


class Question(NamedTuple):
    """A question with its accepted answers.

    gold: ids of the passages with the answer, in the order needed; () if unknown.
    steps: the simpler questions that lead to it, with their answers and passages; () if unknown.
    kind, split: as given by the data, or "".
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[str, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    kind: str = ""
    split: str = ""

    @property
    def bridges(self) -> tuple[str, ...]:
        """The answers of the steps before the last; () if unknown."""
        told = (step.get("answer") for step in self.steps[:-1])
        return tuple(answer for answer in told if isinstance(answer, str))


class Data:
    """Questions by id, in order, and the corpus; one shared object per folder.

    Attributes:
        folder: The folder, None for the embedded data.
        questions: Questions by id.
        corpus: None if the folder has none; then passages must come from a server.
    """

    def __init__(
        self, folder: Path | None, questions: Iterable[Question], corpus: Corpus | None
    ) -> None:
        self.folder, self.corpus = folder, corpus
        self.questions = {question.id: question for question in questions}

    def panel(self, split: str, kinds: Sequence[str] = ()) -> Panel:
        """The tasks of a split, as named by the questions, or else tenths by a digest of the id.

        With `kinds`, only questions of these kinds.

        Raises:
            ValueError: No such split or kind, or it has no question.
        """
        there = dict.fromkeys(question.kind for question in self.questions.values())
        for kind in kinds:
            one_of("kind", kind, tuple(there))
        named = [q.split for q in self.questions.values() if q.split]
        known = ("all", *(dict.fromkeys(named) if named else _TENTHS))
        if split not in known:
            raise ValueError(f"unknown split {split!r}{nearest(str(split), known)}; known: {known}")
        ids = [
            question.id
            for question in self.questions.values()
            if split in ("all", _split_of(question, named)) and question.kind in (kinds or there)
        ]
        if not ids:
            raise ValueError(
                f"split {split!r} has no questions: there are {len(self.questions)} in all; "
                "use split='all'"
            )
        source = source_of("search_qa", self.folder) if self.folder else "embedded"
        return Panel(split, tuple(ids), source)

    def __deepcopy__(self, memo: dict[int, Any]) -> Data:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.folder,)


def open_data(data: str | os.PathLike[str] = "auto") -> Data:
    """The questions of "embedded", of a folder, or of "auto": `$SEARCH_QA_DATA` if that is set.

    A folder has `qa.jsonl`, or files of questions named by their split (JSON lines, a JSON list or
    parquet; plain, gzip or xz), and optionally `corpus.jsonl`.

    Raises:
        MissingAsset: A folder without questions.
        BadAsset: A broken file.
    """
    named = os.fspath(data)
    if named == "auto":
        named = os.environ.get("SEARCH_QA_DATA") or "embedded"
    return _opened(None if named == "embedded" else Path(named).expanduser().absolute())


@lru_cache(maxsize=2)
def _opened(folder: Path | None) -> Data:
    where = Path(str(asset("search_qa"))) if folder is None else folder
    corpora = _files(where, "corpus", ENDINGS[:3])
    questions: list[Question] = []
    files = _files(where, "qa", ENDINGS) or _split_files(where)
    for path in files:
        name = path.name.partition(".")[0]
        split = "" if name == "qa" else _SHARD.sub("", name)
        questions.extend(_questions(path, name, split))
    if not questions:
        raise MissingAsset(
            f"no questions in {where}; put qa.jsonl there (one question per line: id, question, "
            "answers), or use data='embedded'"
        )
    twice = [name for name, times in Counter(q.id for q in questions).items() if times > 1]
    if twice:
        raise BadAsset(f"question {twice[0]!r} is twice in {where}; give each its own id")
    return Data(folder, questions, open_corpus(corpora[0]) if corpora else None)


def _files(folder: Path, name: str, endings: Iterable[str]) -> list[Path]:
    found = [folder / f"{name}{ending}" for ending in endings]
    return [path for path in found if path.is_file()][:1]


def _split_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise MissingAsset(f"no folder {folder}; give one with qa.jsonl, or use data='embedded'")
    return [
        path
        for path in sorted(folder.iterdir())
        if path.name.endswith(ENDINGS) and not path.name.startswith("corpus")
    ]


def _questions(path: Path, name: str, split: str) -> Iterator[Question]:
    for number, row in enumerate(_rows(path)):
        try:
            yield question_of(row, f"{name}-{number}", split)
        except (KeyError, TypeError, ValueError) as error:
            raise BadAsset(f"{path}, question {number + 1}: {error}") from error


def question_of(row: Any, name: str, split: str = "") -> Question:
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
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"a question needs a text under 'question', got {row!r:.80}")
    told = (encodable(str(answer)) for answer in _answers(row) if answer is not None)
    answers = tuple(dict.fromkeys(told))
    if not answers:
        raise ValueError(f"question {text!r:.60} has no answers (one of {_ANSWERS}, 'answer')")
    ids = (row.get(key) for key in ("id", "_id"))
    return Question(
        encodable(str(next((given for given in ids if given not in (None, "")), name))),
        encodable(text),
        answers,
        gold=tuple(str(passage) for passage in _list(row.get("gold"))),
        steps=tuple(_list(row.get("decomposition"))),
        kind=str(row.get("type") or row.get("dataset") or row.get("data_source") or ""),
        split=str(row.get("split") or split),
    )


def _answers(row: Mapping[str, Any]) -> list[Any]:
    """The accepted answers, in any of the formats."""
    judged = row.get("reward_model")
    if isinstance(judged, Mapping):
        truth = judged.get("ground_truth")
        row = {**row, **(truth if isinstance(truth, Mapping) else {"target": truth})}
    for key in _ANSWERS:
        if (found := _list(row.get(key))) != []:
            return found
    answer = row.get("answer")
    if isinstance(answer, Mapping):  # TriviaQA
        return [*_list(answer.get("value")), *_list(answer.get("aliases"))]
    return [*_list(answer), *_list(row.get("answer_aliases"))]


def _list(value: Any) -> list[Any]:
    """A value as a list: the list itself, a JSON list in a text (PopQA), or [value]."""
    if value is None:
        return []
    if isinstance(value, str):
        if value.startswith("["):
            try:
                return list(json.loads(value))
            except ValueError:
                return [value]
        return [value] if value.strip() else []
    if isinstance(value, Mapping) or not hasattr(value, "__iter__"):
        return [value]
    return list(value)


def _rows(path: Path) -> list[Any]:
    where = str(path)
    try:
        if path.suffix == ".parquet":
            return list(require("pyarrow.parquet", "train").read_table(path).to_pylist())
        content = unpacked(path).decode()
        if path.suffix == ".json":
            return list(json.loads(content))
        rows = []
        for number, line in enumerate(content.split("\n"), 1):
            where = f"{path}, line {number},"
            rows += [json.loads(line)] if line.strip() else []
    except (ValueError, TypeError, RecursionError) as error:
        raise BadAsset(f"{where} is broken: {error}") from error
    return rows


def _split_of(question: Question, named: list[str]) -> str:
    if named:
        return question.split
    tenth = blake2b(question.id.encode(), digest_size=4).digest()[0] % 10
    return next(split for split, tenths in _TENTHS.items() if tenth in tenths)
