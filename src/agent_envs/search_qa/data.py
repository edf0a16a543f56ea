"""Questions and their corpus: from a folder, in public formats, or the embedded encyclopaedia."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.assets import BadAsset, MissingAsset, asset, find_data, require
from agent_envs.contract import encodable
from agent_envs.panels import Panel, one_of, source_of
from agent_envs.retrieval.passages import open_corpus, unpack_file

if TYPE_CHECKING:
    import os

    from agent_envs.retrieval.passages import Corpus

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".json", ".parquet")
_ANSWERS = ("answers", "golden_answers", "possible_answers", "target")
_SHARD = re.compile(r"-\d+-of-\d+$")  # in names of files with a part of a split
_PAIR = 2
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
        answers = (step.get("answer") for step in self.steps[:-1])
        return tuple(answer for answer in answers if isinstance(answer, str))


class Data:
    """Questions by id, in order, and the corpus; one shared object per folder.

    Attributes:
        folder: The folder, None for the embedded data.
        questions: Questions by id.
        corpus: None if the folder has none; then passages must come from a server.
    """

    def __init__(
        self, folder: Path | None, questions: dict[str, Question], corpus: Corpus | None
    ) -> None:
        self.folder, self.questions, self.corpus = folder, questions, corpus

    def panel(self, split: str, kinds: Sequence[str] = ()) -> Panel:
        """The tasks of a split, as named by the questions, or else tenths by a digest of the id.

        With `kinds`, only questions of these kinds.

        Raises:
            ValueError: No such split or kind, or it has no question.
        """
        known_kinds = tuple(dict.fromkeys(question.kind for question in self.questions.values()))
        for kind in kinds:
            one_of("kind", kind, known_kinds)
        named = dict.fromkeys(question.split for question in self.questions.values())
        named.pop("", None)
        one_of("split", split, ("all", *(named or _TENTHS)))
        ids = [
            question.id
            for question in self.questions.values()
            if split in ("all", question.split if named else _draw_split(question.id))
            and question.kind in (kinds or known_kinds)
        ]
        if not ids:
            count = len(self.questions)
            raise ValueError(f"split {split!r} has none of the {count} questions; use split='all'")
        source = source_of("search_qa", self.folder) if self.folder else "embedded"
        return Panel(split, tuple(ids), source)

    def __deepcopy__(self, memo: dict[int, Any]) -> Data:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_folder, (self.folder,)


def open_data(data: str | os.PathLike[str] = "auto") -> Data:
    """The questions of "embedded", of a folder, or of "auto": `$SEARCH_QA_DATA` if that is set.

    A folder has `qa.jsonl`, or files of questions named by their split (JSON lines, a JSON list or
    parquet; plain, gzip or xz), and optionally `corpus.jsonl`.

    Raises:
        MissingAsset: A folder without questions.
        BadAsset: A broken file.
    """
    return _read_folder(find_data(data, "SEARCH_QA_DATA"))


@lru_cache(maxsize=2)
def _read_folder(folder: Path | None) -> Data:
    where = Path(str(asset("search_qa"))) if folder is None else folder
    if not where.is_dir():
        raise MissingAsset(f"no folder {where}; give one with qa.jsonl, or use data='embedded'")
    files = sorted(path for path in where.iterdir() if path.name.endswith(ENDINGS))
    names = {path: path.name.partition(".")[0] for path in files}
    corpora = [where / f"corpus{ending}" for ending in ENDINGS[:3]]
    alone = [where / f"qa{ending}" for ending in ENDINGS if where / f"qa{ending}" in files][:1]
    questions: dict[str, Question] = {}
    for path in alone or [path for path in files if not path.name.startswith("corpus")]:
        split = "" if names[path] == "qa" else _SHARD.sub("", names[path])
        for number, row in enumerate(_read_rows(path)):
            try:
                question = read_question(row, f"{names[path]}-{number}", split)
            except (TypeError, ValueError) as error:
                raise BadAsset(f"{path}, question {number + 1}: {error}") from error
            if questions.setdefault(question.id, question) is not question:
                raise BadAsset(f"{path}: question {question.id!r} is there twice; give it an id")
    if not questions:
        raise MissingAsset(f"no questions in {where}; put qa.jsonl there, or use data='embedded'")
    corpus = next((path for path in corpora if path in files), None)
    return Data(folder, questions, open_corpus(corpus) if corpus else None)


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
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"a question needs a text under 'question', got {row!r:.80}")
    given = (encodable(str(answer)) for answer in _read_answers(row) if answer is not None)
    answers = tuple(dict.fromkeys(given))
    if not answers:
        raise ValueError(f"question {text!r:.60} has no answers (one of {_ANSWERS}, 'answer')")
    ids = (row.get(key) for key in ("id", "_id"))
    return Question(
        encodable(str(next((known for known in ids if known not in (None, "")), name))),
        encodable(text),
        answers,
        gold=tuple(str(passage) for passage in _read_list(row.get("gold"))),
        steps=tuple(_read_steps(row)),
        kind=str(row.get("type") or row.get("dataset") or row.get("data_source") or ""),
        split=str(row.get("split") or split),
    )


def _read_answers(row: Mapping[str, Any]) -> list[Any]:
    """The accepted answers, in any of the formats."""
    judged = row.get("reward_model")
    if isinstance(judged, Mapping):
        truth = judged.get("ground_truth")
        row = {**row, **(truth if isinstance(truth, Mapping) else {"target": truth})}
    for key in _ANSWERS:
        if (found := _read_list(row.get(key))) != []:
            return found
    answer = row.get("answer")
    if isinstance(answer, Mapping):  # TriviaQA
        return [*_read_list(answer.get("value")), *_read_list(answer.get("aliases"))]
    return [*_read_list(answer), *_read_list(row.get("answer_aliases"))]


def _read_steps(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The simpler questions: objects, or pairs of question and answer; others are left out."""
    for step in _read_list(row.get("decomposition") or row.get("question_decomposition")):
        if isinstance(step, Mapping):
            yield dict(step)
        elif isinstance(step, Sequence) and not isinstance(step, str) and len(step) == _PAIR:
            yield {"question": step[0], "answer": step[1]}


def _read_list(value: Any) -> list[Any]:
    """A value as a list: the list itself, one in a text (PopQA), SQuAD's object, or [value]."""
    if value is None:
        return []
    if isinstance(value, str):
        for read in (json.loads, ast.literal_eval) if value.startswith("[") else ():
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return list(read(value))
        return [value] if value.strip() else []
    if isinstance(value, Mapping):
        return _read_list(value["text"]) if "text" in value else [value]
    return list(value) if hasattr(value, "__iter__") else [value]


def _read_rows(path: Path) -> list[Any]:
    where = str(path)
    try:
        if path.suffix == ".parquet":
            return list(require("pyarrow.parquet", "train").read_table(path).to_pylist())
        content = unpack_file(path).decode()
        if path.suffix == ".json":
            return list(json.loads(content))
        rows = []
        for number, line in enumerate(content.split("\n"), 1):
            where = f"{path}, line {number},"
            rows += [json.loads(line)] if line.strip() else []
    except (ValueError, TypeError, RecursionError) as error:
        raise BadAsset(f"{where} is broken: {error}") from error
    return rows


def _draw_split(name: str) -> str:
    """The split of the question with that id: tenths by a digest."""
    tenth = blake2b(name.encode(), digest_size=4).digest()[0] % 10
    return next(split for split, tenths in _TENTHS.items() if tenth in tenths)
