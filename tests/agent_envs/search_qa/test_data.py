"""Questions in the formats of public data sets, their splits, and what is refused."""

import copy
import gzip
import json
import lzma
import pickle
import re
from contextlib import nullcontext

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.search_qa.data import open_data, read_question
from agent_envs.search_qa.public import PublicSearchQA as SearchQA


def test_our_own_format(folder):
    data = open_data(folder)
    chad = ("chad", "What is the capital of Chad", ("N'Djamena", "Fort-Lamy"), ("p1", "p2"))
    assert data.questions["chad"] == (*chad, "", "")
    assert [passage.id for passage in data.corpus] == ["p1", "p2", "p3", "p4"]


def test_all_that_a_question_may_have():
    row = {"_id": 0, "query": "Q", "answers": ["A", "A", 7, None], "gold": [3], "type": "bridge"}
    question = read_question(row | {"split": "dev"}, "q-9", "train")
    assert question == ("0", "Q", ("A", "7"), ("3",), "bridge", "dev")
    odd = read_question({"id": "\ud800", "question": "x\udfff", "answers": ["\ud800"]}, "q")
    assert odd[:3] == ("\ufffd", "x\ufffd", ("\ufffd",))


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"golden_answers": ["Paris", "City of Light"]}, ["Paris", "City of Light"]),  # FlashRAG
        ({"answer": ["Paris", "Lutetia"]}, ["Paris", "Lutetia"]),  # NQ
        ({"answer": {"value": "Paris", "aliases": ["Lutetia", "Paris"]}}, ["Paris", "Lutetia"]),
        ({"answer": {"value": "Paris"}}, ["Paris"]),
        ({"possible_answers": '["Paris", "Paname"]'}, ["Paris", "Paname"]),  # PopQA
        ({"answer": "Paris", "answer_aliases": ["Lutetia"]}, ["Paris", "Lutetia"]),  # MuSiQue
        ({"answer": "[sic] Paris"}, ["[sic] Paris"]),
        ({"answers": {"text": ["Paris", "Lutetia"], "answer_start": [3, 9]}}, ["Paris", "Lutetia"]),
        ({"answers": "['Paris', \"L'Île\"]"}, ["Paris", "L'Île"]),  # of a CSV file
        ({"answers": "[" * 9000}, ["[" * 9000]),
        ({"answer": 1887}, ["1887"]),
        ({"answer": 1994.0}, ["1994"]),  # of a column with gaps
        ({"answers": [1.5, "N/A", "None", "Nonesuch"]}, ["1.5", "Nonesuch"]),
        ({"reward_model": {"ground_truth": {"target": "Paris"}}}, ["Paris"]),  # verl
        ({"reward_model": {"ground_truth": "Paris", "style": "rule"}}, ["Paris"]),
        ({"answers": ["Paris"], "answer": "Rome"}, ["Paris"]),
    ],
)
def test_answers_of_every_data_set(row, answers):
    question = read_question({"question": "Capital?"} | row, "q-0")
    assert list(question.answers) == answers
    assert (question.id, question.text) == ("q-0", "Capital?")


def test_verls_own_rows_have_the_question_further_in():
    row = {"data_source": "nq", "prompt": [{"role": "user", "content": "Answer: capital?"}]}
    row |= {"reward_model": {"ground_truth": {"target": ["Paris"]}}}
    question = read_question(row | {"extra_info": {"question": "capital?"}}, "train-3", "train")
    assert (question.text, question.kind, question.split) == ("capital?", "nq", "train")


ROWS = [{"question": f"Q{i}?", "golden_answers": [f"A{i}"]} for i in range(3)]


def write(folder, name, rows=ROWS):
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
    target = {"ground_truth": {"target": ["là", "ici"]}, "style": "rule"}  # as Search-R1 has it
    rows = [{"question": text, "reward_model": target} for text in ("Where?", "Où?")]
    write(tmp_path, f"qa.{ending}", rows)
    questions = open_data(tmp_path).questions
    assert list(questions) == ["qa-0", "qa-1"]
    assert (questions["qa-1"].text, questions["qa-1"].answers) == ("Où?", ("là", "ici"))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_nan_is_nothing(tmp_path, ending):
    nan = float("nan")
    rows = [
        {"id": nan, "question": "Where?", "answer": "here"},
        {"question": "Who?", "answer": nan},
    ]
    if ending == "parquet":  # a column has one type
        rows = [{"id": nan, "question": "Where?", "answers": ["here"], "answer": nan}]
    write(tmp_path, f"qa.{ending}", rows)
    with pytest.warns(UserWarning, match="needs answers") if rows[1:] else nullcontext():
        questions = open_data(tmp_path).questions
    assert {name: one.answers for name, one in questions.items()} == {"qa-0": ("here",)}


@pytest.mark.long
def test_the_public_questions_and_passages(shared_data):
    data = open_data(shared_data / "search_qa")
    assert (len(data.questions), len(data.corpus)) == (2573, 15_735)
    golds = [gold for question in data.questions.values() for gold in question.gold]
    assert all(gold in data.corpus.place for gold in golds)
    assert {question.kind for question in data.questions.values()} >= {"nq", "popqa"}
    env = SearchQA(data=shared_data / "search_qa", split="all")
    for task_id in data.questions:
        assert env.reset(options={"task_id": task_id})[1]["goal"]


def test_splits_by_the_names_of_files(tmp_path):
    files = {"val": ROWS[:1], "test-00000-of-00002": ROWS[1:2], "test-00001-of-00002": ROWS[2:]}
    for name, rows in {**files, "corpus_notes": [{}]}.items():
        write(tmp_path, f"{name}.jsonl", rows)
    data = open_data(tmp_path)
    assert data.panel("val").task_ids == ("val-0",)
    assert data.panel("test").task_ids == ("test-00000-of-00002-0", "test-00001-of-00002-0")
    assert data.panel("all").task_ids[-1] == "val-0"  # by the files' names


def test_qa_is_read_alone(tmp_path):
    write(tmp_path, "qa.jsonl")
    write(tmp_path, "train.jsonl", [{"question": "?", "answer": "x"}])
    assert list(open_data(tmp_path).questions) == ["qa-0", "qa-1", "qa-2"]


def test_splits_of_the_questions(tmp_path):
    rows = [
        {"id": name, "question": "?", "answer": "x", "split": split, "type": kind}
        for name, split, kind in (("0", "train", "a"), ("1", "dev", "b"), ("2", "", "a"))
    ]
    write(tmp_path, "qa.jsonl", rows)
    data = open_data(tmp_path)
    assert data.panel("dev").task_ids == ("1",)
    assert data.panel("train").task_ids == ("0",)
    assert len(data.panel("all")) == 3


def test_other_questions_are_split_into_tenths_by_a_digest(tmp_path):
    rows = [{"id": f"é{i}", "question": "Q", "answer": "A"} for i in range(2000)]
    write(tmp_path, "qa.jsonl", rows)
    data = open_data(tmp_path)
    panels = {split: data.panel(split).task_ids for split in ("train", "val", "test")}
    assert sorted(sum(panels.values(), ())) == sorted(data.panel("all").task_ids)
    assert data.panel("val").origins == dict.fromkeys(panels["val"], "Q")  # asked again and again
    assert len(panels["train"]) == pytest.approx(1600, abs=80)
    assert len(panels["val"]) == pytest.approx(200, abs=60)
    assert (
        data.panel("val").hash == "77016ea4361bb73904e85ea700a0d2b47c728fa87dc142b60ca44181684218ec"
    )
    (tmp_path / "turned").mkdir()
    write(tmp_path / "turned", "qa.jsonl", rows[::-1])
    turned = open_data(tmp_path / "turned")
    assert sorted(turned.panel("val").task_ids) == sorted(panels["val"])  # whatever the order


QUESTION = b'{"question": "Q", "answer": "A"}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qa.jsonl", QUESTION + b'\n{"quest', "qa.jsonl, line 3: no JSON: Unterminated string"),
        ("qa.jsonl", QUESTION + b"[1]", "qa.jsonl, line 2: a question must be an object"),
        ("qa.jsonl", b'{"answers": ["x"]}', "line 1: a question needs a text under 'question'"),
        ("qa.jsonl", b'{"question": " ", "answer": "x"}', "needs a text under 'question'"),
        ("qa.jsonl", b'{"question": 3, "answer": "x"}', "needs a text under 'question'"),
        ("train.jsonl", b'{"question": "Q"}', "a question needs answers under 'answer' or one of"),
        ("qa.jsonl", b'{"question": "Q", "answers": [null]}', "needs answers under 'answer'"),
        ("qa.jsonl", b'{"question": "Q", "answer": " "}', "needs answers under 'answer'"),
        ("qa.jsonl", b'{"question": "Q", "answers": [{"x": 1}]}', "or have one under 'text', got"),
        ("qa.jsonl", b'{"id": 1, "question": "Q", "answer": "A"}\n' * 2, "got '1' again"),
        ("qa.jsonl", b"\xff\xfe\n", "qa.jsonl, as a whole: is damaged"),
        ("qa.jsonl", b"[" * 100_000, "qa.jsonl, as a whole: maximum recursion"),
        ("qa.json", b"3", "qa.json, line 1: a question must be an object"),
        ("qa.jsonl.gz", b"no gzip", "qa.jsonl.gz, as a whole: is damaged"),
        ("qa.jsonl.xz", b"no xz", "qa.jsonl.xz, as a whole: is damaged"),
        ("qa.parquet", b"no parquet", "qa.parquet, as a whole: "),
    ],
)
def test_strict_refuses_a_broken_record_with_its_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadAsset, match=re.escape(str(tmp_path)) + ".*" + re.escape(message)):
        open_data(tmp_path, strict=True)


def test_other_refusals(tmp_path):
    with pytest.raises(MissingAsset, match=r"no folder .*nowhere; give one with qa.jsonl"):
        open_data(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "qa.jsonl").write_text("\n")
    with pytest.raises(MissingAsset, match=r"no questions in .*; put qa.jsonl there"):
        open_data(tmp_path / "empty")
    write(tmp_path, "qa.jsonl", [{"id": "a", "question": "Q", "answer": "A"}])
    data = open_data(tmp_path)
    with pytest.raises(ValueError, match=r"unknown split 'tran', did you mean 'train'\?"):
        data.panel("tran")
    with pytest.raises(ValueError, match="split 'val' has none of the 1 questions; use split='all"):
        data.panel("val")


def test_a_folder_is_opened_once_and_copies_are_the_same(folder, monkeypatch):
    data = open_data(folder)
    assert open_data(str(folder)) is data
    assert copy.deepcopy(data) is data
    assert pickle.loads(pickle.dumps(data)) is data
    monkeypatch.setenv("SEARCH_QA_DATA", str(folder))
    assert open_data() is open_data("auto") is data
    monkeypatch.chdir(folder.parent)
    assert open_data(folder.name) is data
