"""Questions in the formats they come in, their splits, and what is refused."""

from __future__ import annotations

import copy
import gzip
import json
import lzma
import pickle
import re

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.search_qa.data import open_data, question_of


def test_our_own_format(folder):
    data = open_data(folder)
    chad = data.questions["chad"]
    assert chad.text == "What is the capital of Chad"
    assert chad.answers == ("N'Djamena", "Fort-Lamy")
    assert (chad.gold, chad.steps, chad.kind, chad.split) == (("p1", "p2"), (), "", "")
    assert data.questions["france"].gold == ()
    assert [passage.id for passage in data.corpus] == ["p1", "p2", "p3", "p4"]
    assert list(data.questions) == ["chad", "france"]


def test_all_that_a_question_may_have():
    steps = [{"question": "Who?", "answer": "She"}]
    row = {"_id": 0, "query": "Q", "answers": ["A", "A", 7, None], "gold": [3], "type": "bridge"}
    question = question_of(row | {"decomposition": steps, "split": "dev"}, "q-9", "train")
    assert question.id == "0"
    assert question.answers == ("A", "7")
    assert question.gold == ("3",)
    assert question.steps == tuple(steps)
    assert (question.kind, question.split) == ("bridge", "dev")


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"golden_answers": ["Paris", "City of Light"]}, ["Paris", "City of Light"]),  # FlashRAG
        ({"answer": "Paris"}, ["Paris"]),
        ({"answer": ["Paris", "Lutetia"]}, ["Paris", "Lutetia"]),  # NQ
        ({"answer": {"value": "Paris", "aliases": ["Lutetia", "Paris"]}}, ["Paris", "Lutetia"]),
        ({"answer": {"value": "Paris"}}, ["Paris"]),
        ({"possible_answers": '["Paris", "Paname"]'}, ["Paris", "Paname"]),  # PopQA
        ({"possible_answers": ["Paris"]}, ["Paris"]),
        ({"answer": "Paris", "answer_aliases": ["Lutetia"]}, ["Paris", "Lutetia"]),  # MuSiQue
        ({"answer": "[sic] Paris"}, ["[sic] Paris"]),
        ({"answer": "パリ"}, ["パリ"]),
        ({"answer": 1887}, ["1887"]),
        ({"reward_model": {"ground_truth": {"target": ["Paris"]}}}, ["Paris"]),  # verl
        ({"reward_model": {"ground_truth": {"target": "Paris"}}}, ["Paris"]),
        ({"reward_model": {"ground_truth": "Paris", "style": "rule"}}, ["Paris"]),
        ({"answers": ["Paris"], "answer": "Rome"}, ["Paris"]),
    ],
)
def test_answers_wherever_a_data_set_has_them(row, answers):
    question = question_of({"question": "Capital?"} | row, "q-0")
    assert list(question.answers) == answers
    assert (question.id, question.text) == ("q-0", "Capital?")


def test_verls_own_rows_have_the_question_further_in():
    row = {
        "data_source": "searchR1_nq",
        "prompt": [{"role": "user", "content": "Answer the given question. Question: capital?"}],
        "reward_model": {"ground_truth": {"target": ["Paris"]}},
        "extra_info": {"index": 3, "question": "capital?"},
    }
    question = question_of(row, "train-3", "train")
    assert (question.text, question.kind, question.split) == ("capital?", "searchR1_nq", "train")


def test_what_is_no_text_becomes_text():
    question = question_of({"id": "\ud800", "question": "x\udfff", "answers": ["\ud800"]}, "q")
    assert question[:3] == ("\ufffd", "x\ufffd", ("\ufffd",))


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (["Capital?"], TypeError, "a question must be an object, got ['Capital?']"),
        ({"answers": ["x"]}, ValueError, "a question needs a text under 'question', got"),
        ({"question": " ", "answers": ["x"]}, ValueError, "needs a text under 'question'"),
        ({"question": 3, "answers": ["x"]}, ValueError, "needs a text under 'question'"),
        ({"question": "Q"}, ValueError, "question 'Q' has no answers (one of ('answers',"),
        ({"question": "Q", "answers": []}, ValueError, "question 'Q' has no answers"),
        ({"question": "Q", "answers": [None]}, ValueError, "question 'Q' has no answers"),
        ({"question": "Q", "answer": " "}, ValueError, "question 'Q' has no answers"),
    ],
)
def test_rows_that_are_no_questions(row, error, message):
    with pytest.raises(error, match=re.escape(message)):
        question_of(row, "q-0")


ROWS = [{"question": f"Q{i}?", "golden_answers": [f"A{i}"]} for i in range(3)]


def written(folder, name, rows=ROWS):
    """A file of questions in the format that its name says."""
    path = folder / name
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    if name.endswith(".parquet"):
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        parquet.write_table(table, path)
    elif name.endswith(".json"):
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(content))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.xz", "json", "parquet"])
def test_files_packed_or_not(tmp_path, ending):
    written(tmp_path, f"qa.{ending}", [*ROWS, {"question": "Où?", "golden_answers": ["là", "ici"]}])
    questions = open_data(tmp_path).questions
    assert list(questions) == ["qa-0", "qa-1", "qa-2", "qa-3"]
    assert questions["qa-3"].text == "Où?"
    assert questions["qa-3"].answers == ("là", "ici")


def test_search_r1s_parquet(tmp_path):
    row = {
        "id": "train_0",
        "question": "capital?",
        "golden_answers": ["Paris"],
        "data_source": "nq",
        "prompt": [{"role": "user", "content": "Answer the given question. ..."}],
        "reward_model": {"ground_truth": {"target": ["Paris"]}, "style": "rule"},
    }
    written(tmp_path, "train.parquet", [row])
    written(tmp_path, "test.parquet", [row | {"id": "test_0"}])
    data = open_data(tmp_path)
    assert data.questions["train_0"].answers == ("Paris",)
    assert data.panel("test").task_ids == ("test_0",)
    assert data.corpus is None


def test_a_corpus_as_search_r1_has_it(tmp_path):
    written(tmp_path, "qa.jsonl")
    passages = [{"id": "7", "contents": '"Chad"\nA country.\nIn Africa.'}]
    written(tmp_path, "corpus.jsonl.gz", passages)
    assert open_data(tmp_path).corpus[0][:3] == ("7", "Chad", "A country.\nIn Africa.")


def test_qa_alone_is_read_where_it_is(tmp_path):
    written(tmp_path, "qa.jsonl")
    written(tmp_path, "train.jsonl", [{"question": "?", "answer": "x"}])
    assert len(open_data(tmp_path).questions) == 3


def test_the_public_questions_and_passages(shared_data):
    data = open_data(shared_data / "search_qa")
    assert (len(data.questions), len(data.corpus)) == (2573, 15_735)
    golds = [gold for question in data.questions.values() for gold in question.gold]
    assert all(gold in data.corpus.place for gold in golds)
    assert {question.kind for question in data.questions.values()} >= {"nq", "popqa"}


# splits


def test_splits_by_the_names_of_files(tmp_path):
    for name, rows in {"val": ROWS[:1], "test": ROWS[1:], "corpus_notes": [{}]}.items():
        written(tmp_path, f"{name}.jsonl", rows)
    data = open_data(tmp_path)
    assert data.panel("val").task_ids == ("val-0",)
    assert data.panel("test").task_ids == ("test-0", "test-1")
    assert data.panel("all").task_ids == ("test-0", "test-1", "val-0")  # by the files' names
    with pytest.raises(ValueError, match="unknown split 'train'; known: "):
        data.panel("train")


def test_splits_by_what_the_questions_say(tmp_path):
    splits = ["train", "dev", ""]
    rows = [row | {"id": s or "none", "split": s} for row, s in zip(ROWS, splits, strict=True)]
    written(tmp_path, "qa.jsonl", rows)
    data = open_data(tmp_path)
    assert data.panel("dev").task_ids == ("dev",)
    assert data.panel("train").task_ids == ("train",)
    assert len(data.panel("all")) == 3
    with pytest.raises(ValueError, match=r"unknown split 'devv', did you mean 'dev'\?"):
        data.panel("devv")


def test_other_questions_are_split_into_tenths_by_a_digest(tmp_path):
    rows = [{"id": f"é{i}", "question": "Q", "answer": "A"} for i in range(2000)]
    written(tmp_path, "qa.jsonl", rows)
    data = open_data(tmp_path)
    panels = {split: data.panel(split).task_ids for split in ("train", "val", "test")}
    assert sorted(sum(panels.values(), ())) == sorted(data.panel("all").task_ids)
    assert len(panels["train"]) == pytest.approx(1600, abs=80)
    assert len(panels["val"]) == pytest.approx(200, abs=60)
    assert (
        data.panel("val").hash == "77016ea4361bb73904e85ea700a0d2b47c728fa87dc142b60ca44181684218ec"
    )
    (tmp_path / "turned").mkdir()
    written(tmp_path / "turned", "qa.jsonl", rows[::-1])
    turned = open_data(tmp_path / "turned")
    assert sorted(turned.panel("val").task_ids) == sorted(panels["val"])  # whatever the order


def test_a_split_without_questions_is_refused(tmp_path):
    written(tmp_path, "qa.jsonl", [{"id": "a", "question": "Q", "answer": "A"}])
    data, full = open_data(tmp_path), []
    for split in ("train", "val", "test"):
        try:
            full.append(data.panel(split).task_ids)
        except ValueError as error:
            told = f"split {split!r} has no questions: there are 1 in all; use split='all'"
            assert str(error) == told  # noqa: PT017 - one of the three has the question
    assert full == [("a",)]


# errors


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qa.jsonl", b'{"question": "Q", "answer": "A"}\n\n{"quest', "qa.jsonl, line 3, is broken"),
        (
            "qa.jsonl",
            b'{"question": "Q", "answer": "A"}\n[1]\n',
            "qa.jsonl, question 2: a question",
        ),
        ("train.jsonl", b'{"question": "Q"}\n', "train.jsonl, question 1: question 'Q' has no"),
        ("qa.jsonl", b"\xff\xfe\n", "qa.jsonl is broken"),
        ("qa.jsonl", b"[" * 100_000, "qa.jsonl, line 1, is broken"),
        ("qa.json", b"{", "qa.json is broken"),
        ("qa.json", b"3", "qa.json is broken"),
        ("qa.jsonl.gz", b"no gzip", "qa.jsonl.gz cannot be decompressed"),
        ("qa.jsonl.xz", b"no xz", "qa.jsonl.xz cannot be decompressed"),
        ("qa.parquet", b"no parquet", "qa.parquet is broken"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadAsset, match=re.escape(str(tmp_path)) + ".*" + re.escape(message)):
        open_data(tmp_path)


def test_an_id_that_stands_twice_is_refused(folder_of):
    question = {"id": "a", "question": "Q", "answer": "A"}
    folder = folder_of([question, question | {"id": "b"}, question])
    with pytest.raises(BadAsset, match=r"question 'a' is twice in .*give each its own id"):
        open_data(folder)


def test_a_missing_folder_or_one_without_questions(tmp_path):
    with pytest.raises(MissingAsset, match=r"no folder .*nowhere; give one with qa.jsonl"):
        open_data(tmp_path / "nowhere")
    with pytest.raises(MissingAsset, match=r"no questions in .*; put qa.jsonl there"):
        open_data(tmp_path)
    (tmp_path / "qa.jsonl").write_text("\n")
    with pytest.raises(MissingAsset, match="no questions in"):
        open_data(tmp_path)


# one object for all


def test_a_folder_is_opened_once_and_copies_are_the_same(folder, monkeypatch):
    data = open_data(folder)
    assert open_data(str(folder)) is data
    assert copy.deepcopy(data) is data
    assert pickle.loads(pickle.dumps(data)) is data
    monkeypatch.setenv("SEARCH_QA_DATA", str(folder))
    assert open_data() is open_data("auto") is data
    monkeypatch.chdir(folder.parent)
    assert open_data(folder.name) is data


def test_parts_of_a_split_are_one_split(tmp_path):
    for part in range(2):
        row = {"question": f"Which {part}?", "answers": ["x"]}
        (tmp_path / f"train-0000{part}-of-00002.jsonl").write_text(json.dumps(row))
    data = open_data(tmp_path)
    assert len(data.panel("train")) == 2
    assert len(data.panel("all")) == 2


def test_kinds(tmp_path):
    rows = [
        {"id": str(i), "question": "?", "answers": ["x"], "type": t} for i, t in enumerate("aba")
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = open_data(tmp_path)
    assert data.panel("all", ["a"]).task_ids == ("0", "2")
    assert len(data.panel("all")) == len(data.panel("all", ["a", "b"])) == 3
    with pytest.raises(ValueError, match="unknown kind 'c'"):
        data.panel("all", ["c"])
