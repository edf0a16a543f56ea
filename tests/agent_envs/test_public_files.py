"""Public files as people have them: every reader keeps what is good, and names what it leaves out.

Each case is a damaged file, how many records of it are good, and words of the reason for the rest;
0 good records are one refusal. What is kept can be played.
"""

import gzip
import json
import math
import warnings

import gymnasium as gym
import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.retrieval.factory import Scripted
from agent_envs.search_qa.public import PublicSearchQA
from agent_envs.webshop.env import PublicWebShop

QUESTION = {"id": "a", "question": "Capital?", "answers": ["Rome"], "gold": ["a"]}
PASSAGE = {"id": "a", "title": "Rome", "text": "A city."}
LEVEL = "#####\n#@$.#\n#####\n"
OPTIONS = {"Size": [{"value": value} for value in ("s", "", " ", "a[b]", "x] click[y", "z" * 5000)]}
PRODUCT = {
    "asin": "a",
    "name": "Red Shoe",
    "full_description": "Light.",
    "small_description": None,
    "pricing": "$5",
    "product_category": "Shoes",
    "category": "fashion",
    "query": "shoe",
    "customization_options": OPTIONS,
}
ASKED = {"attributes": ["red"], "instruction": "a red shoe", "instruction_attributes": ["red"]}


def read_back(make, *, strict=False):
    """The environment, and what its reader warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = make(strict=strict)
    return env, " ".join(str(warning.message) for warning in caught)


def play_all(env):
    """Play every listed action of the first pages of every task."""
    for task_id in env.panel.task_ids:
        _, info = env.reset(options={"task_id": task_id})
        for action in info["admissible_actions"]:
            env.reset(options={"task_id": task_id})
            assert env.step(action)[-1]["valid"], action


def check(make, good, reason, play=play_all):
    if not good:
        with pytest.raises((BadAsset, MissingAsset), match=reason):
            make(strict=False)
        return
    env, warned = read_back(make)
    assert len(env.panel) == good
    play(env)
    assert bool(warned) == bool(reason)
    if reason:
        assert reason in warned
        assert f" {warned.count(' x ') or 1} " in f" {warned} "
        with pytest.raises(BadAsset, match="records are bad"):
            make(strict=True)


def lines_of(record):
    """Damaged files of JSON lines with two good records, and the reason for what is left out."""
    one, two = (json.dumps(record | {"id": name}).encode() + b"\n" for name in "ab")
    packed = gzip.compress(one + two, mtime=0)
    return {
        "whole": (one + two, 2, ""),
        "mark": (b"\xef\xbb\xbf" + one + two, 2, ""),
        "utf-16": ((one + two).decode().encode("utf-16"), 2, ""),
        "carriage returns": ((one + two).replace(b"\n", b"\r\n"), 2, ""),
        "blank": (b"\n" + one + b" \t\r\n\n" + two + b"\n\n", 2, ""),
        "no line end": ((one + two)[:-1], 2, ""),
        "null": (one + b"null\n" + two, 2, "line 2"),
        "truncated": (one + two + one[:20], 2, "line 3"),
        "no text": (one + b'{"id": 1}\n' + two, 2, "line 2"),
        "a list": (one + b"[1, 2]\n" + two, 2, "line 2"),
        "again": (one + two + one, 2, "an id of its own"),
        "latin-1": (one + '{"id": "é"}\n'.encode("latin-1") + two, 2, "can't decode byte"),
        "huge": (one + two + b'{"id": ' + b"9" * 5000 + b"}", 2, "line 3"),
        "_id": (one + two.replace(b'"id"', b'"_id"'), 2, ""),
        "an id of its kind": (one + b'{"id": NaN, "question": "?"}\n' + two, 2, "line 2"),
        "a list as id": (one + two + one.replace(b'"a"', b'["a"]', 1), 2, "an id must be a text"),
        "id null": (one + two.replace(b'"b"', b"null"), 2, ""),
        "all bad": (b"{}\n" * 9, 0, "9 of 9 records are bad"),
        "empty": (b"", 0, "(no questions in|has no passages)"),
        "half": (packed[:-9], 0, "is damaged"),
        "folder": (None, 0, "(is damaged|is a folder|Is a directory)"),
    }


LOOSE = {  # changes of the files of three products, and what is noted of them
    "records of no product": ({}, {"x": ASKED}, "ins_v2.json: 1 of 4 records are of no product"),
    "no record": ({}, {"a": None}, "ins_v2.json: 1 of 3 products have no record here"),
    "a button": ({"Kind": [{"value": "Buy Now"}]}, {}, ": 1 of 1 option values have no click"),
    "no values": ({"Kind": []}, {}, "shuffle.json: 1 of 3 products have an option of no values"),
    "again": (None, {}, "shuffle.json: 1 of 4 records have no id of their own"),
}  # fmt: skip


@pytest.mark.parametrize("case", LOOSE)
def test_what_belongs_to_nothing_is_noted_with_an_example(tmp_path, case):
    options, records, said = LOOSE[case]
    asked = {"a": ASKED, "b": ASKED, "c": ASKED} | records
    products = [PRODUCT | {"asin": name, "customization_options": {}} for name in "bc"]
    products += [PRODUCT | {"customization_options": options or {}}] * (1 + (options is None))
    (tmp_path / "items_shuffle.json").write_text(json.dumps(products))
    kept = {name: record for name, record in asked.items() if record}
    (tmp_path / "items_ins_v2.json").write_text(json.dumps(kept))
    env, warned = read_back(lambda strict: PublicWebShop(data=tmp_path, split="all", strict=strict))
    (note,) = env.reading.notes
    assert (said in note, ", such as '" in note, warned) == (True, True, "")


def write_file(path, content):
    path.mkdir() if content is None else path.write_bytes(content)


@pytest.mark.parametrize("case", lines_of({}))
@pytest.mark.parametrize("kind", ["qa", "corpus"])
def test_questions_and_passages(tmp_path, kind, case):
    content, good, reason = lines_of(QUESTION if kind == "qa" else PASSAGE)[case]
    other = {"qa": ("corpus", PASSAGE), "corpus": ("qa", QUESTION)}[kind]
    (tmp_path / f"{other[0]}.jsonl").write_text(json.dumps(other[1]))
    write_file(tmp_path / f"{kind}.jsonl{'.gz' * (case == 'half')}", content)

    def make(strict):
        return PublicSearchQA(
            data=tmp_path, split="all", retriever=Scripted({}), strict=strict
        ).unwrapped

    def play(env):
        for task_id in env.panel.task_ids:
            env.reset(options={"task_id": task_id})
            assert env.step("<think></think><answer>Rome</answer>")[-1]["success"]
        assert len({passage.id for passage in env.data.corpus}) == len(env.data.corpus)

    if kind == "corpus" and good:
        env, warned = read_back(make)
        assert (len(env.data.corpus), reason in warned) == (good, True)
        good = 1
    check(make, good, reason, play)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"answers": [math.nan]}, "a question needs answers"),
        ({"answers": "nan"}, "a question needs answers"),
        ({"answers": "['Rome', 'x"}, "a text or a whole list"),
        ({"question": "nan"}, "a question needs a text"),
    ],
)
def test_a_question_that_cannot_be_answered_is_left_out(tmp_path, fields, reason):
    rows = [QUESTION, QUESTION | {"id": "b"} | fields]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "corpus.jsonl").write_text(json.dumps(PASSAGE))
    given = {"data": tmp_path, "split": "all", "retriever": Scripted({})}
    check(lambda strict: PublicSearchQA(**given, strict=strict), 1, reason, lambda env: env.reset())


def test_gold_passages_that_the_corpus_lacks_are_noted(tmp_path):
    """The question may still be answered, so it is played, by its answer alone."""
    rows = [QUESTION, QUESTION | {"id": "b", "gold": ["a", "z"]}]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "corpus.jsonl").write_text(json.dumps(PASSAGE))
    env = PublicSearchQA(data=tmp_path, split="all", retriever=Scripted({}), strict=True)
    assert len(env.panel) == 2
    (note,) = env.data.reading.notes
    assert note.endswith(
        "1 of 2 questions have a gold passage that corpus.jsonl lacks, so none is known, such "
        "as 'b'"
    )
    assert [env.data.questions[one].gold for one in ("a", "b")] == [("a",), ()]


ANSWERS = [  # as data sets have them; the last is what earns
    ({"answers": {"text": ["x", "Rome"], "answer_start": [1, 2]}}, ("x", "Rome")),
    ({"answers": "['x', 'Rome']"}, ("x", "Rome")),
    ({"answers": "['x' 'Rome']"}, ("x", "Rome")),
    ({"answers": "{'text': ['Rome'], 'answer_start': [3]}"}, ("Rome",)),
    ({"answers": [["x"], ["Rome"]]}, ("x", "Rome")),
    ({"answers": [], "answer": {"text": ["Rome"]}}, ("Rome",)),
    ({"answers": None, "answer": {"value": "x", "aliases": ["Rome"]}}, ("x", "Rome")),
    ({"answers": ["", None, "Rome"]}, ("Rome",)),
    ({"answers": "[the] Rome"}, ("[the] Rome",)),
    ({"answers": "('x','Rome')"}, ("x", "Rome")),
    ({"answers": "{'x', 'Rome'}"}, ("Rome", "x")),
    ({"answers": "(3, 4)"}, ("(3, 4)",)),
    ({"answers": "array(['x', 'Rome'],\n  dtype=object)"}, ("x", "Rome")),
    ({"answers": ["nan", None, "Rome"]}, ("Rome",)),
    ({"answers": '[NaN, "Rome"]'}, ("Rome",)),
]


@pytest.mark.parametrize(("fields", "answers"), ANSWERS)
def test_answers_in_other_forms(tmp_path, fields, answers):
    steps = [{"gold": ["a"], "question": None}, {"gold": "a"}, ["Q"], "x", None]
    row = QUESTION | {"decomposition": steps} | fields
    (tmp_path / "qa.jsonl").write_text(json.dumps(row))
    env = PublicSearchQA(data=tmp_path, split="all", retriever=Scripted({}))
    _, info = env.reset()
    assert tuple(info["answers"]) == answers
    assert env.step(f"<think></think><answer>{answers[-1]}</answer>")[-1]["success"]


LEVELS = {
    "whole": (f"; 0\n{LEVEL}\n; 1\n{LEVEL}", 2, ""),
    "mark": (f"\ufeff{LEVEL}\n{LEVEL}", 2, ""),
    "utf-16": (f"{LEVEL}\n{LEVEL}".encode("utf-16"), 2, ""),
    "carriage returns": (f"{LEVEL}\n{LEVEL}".replace("\n", "\r\n"), 2, ""),
    "latin-1 title": (f"Título\n{LEVEL}\n{LEVEL}".encode("latin-1"), 2, ""),
    "run lengths": ("1.\n5#\n#@$.#\n5#\n\n2.\n5#|#@$.#|5#|", 2, ""),
    "groups": ("7#\n#@2(-$)2.#\n7#".replace("2(-$)2.", "$-$..") + "\n\n6#|#-@$.#|2(3#)", 2, ""),
    "out of reach": (f"{LEVEL[:-1]}###\n#*#\n###\n".replace("########", "########", 1), 1, ""),
    "two players": (f"{LEVEL}\n{LEVEL.replace('$', '@')}\n{LEVEL}", 2, "2 players"),
    "cut": (f"{LEVEL}\n{LEVEL}\n#####\n#@$", 2, "0 targets"),
    "bomb": (f"{LEVEL}\n{LEVEL}\n" + "9" * 5000 + "#", 2, "cells"),
    "null": (f"{LEVEL}\n{LEVEL}\n#\0##\n#@$.#\n####", 2, "unknown symbol"),
    "notes": ("# Build\n# numpy\n", 0, "line 1: no level"),
    "empty": ("", 0, "no level"),
    "half": (gzip.compress(LEVEL.encode(), mtime=0)[:-9], 0, "is damaged"),
    "folder": (None, 0, "no levels at"),
}


@pytest.mark.parametrize("case", LEVELS)
def test_levels(tmp_path, case):
    content, good, reason = LEVELS[case]
    path = tmp_path / f"levels.xsb{'.gz' * (case == 'half')}"
    write_file(path, content.encode() if isinstance(content, str) else content)
    check(lambda strict: gym.make("Sokoban-v0", levels=path, strict=strict).unwrapped, good, reason)


PRODUCTS = {
    "whole": ([PRODUCT, PRODUCT | {"asin": "b"}], 2, ""),
    "no price": ([PRODUCT, PRODUCT | {"asin": "c", "pricing": "call us"}], 1, "a price such as"),
    "no name": ([PRODUCT, {"asin": "c"}], 1, "'name': a text"),
    "again": ([PRODUCT, PRODUCT | {"asin": "A"}], 1, ""),  # as in the public WebShop
    "few asked": ([PRODUCT | {"asin": f"z{n}"} for n in range(4)] + [PRODUCT], 1, "only 1 of 5"),
    "mixed": ([PRODUCT | {"asin": f"c{n}"} for n in range(22)] + [PRODUCT], 1, "only 1 of 23"),
    "all bad": ([{}, 3], 0, "2 of 2 records are bad"),
    "empty": (b"", 0, "is no JSON"),
    "folder": (None, 0, "is damaged or no file"),
}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("case", PRODUCTS)
def test_products(tmp_path, case, mark):
    content, good, reason = PRODUCTS[case]
    if isinstance(content, (list, dict)):
        content = mark + json.dumps(content).encode()
    write_file(tmp_path / "items_shuffle.json", content)
    asked = {"a": ASKED, "b": ASKED, "c": ASKED} | {f"other{n}": ASKED for n in range(20)}
    (tmp_path / "items_ins_v2.json").write_text(json.dumps(asked))

    def make(strict):
        return PublicWebShop(data=tmp_path, split="all", strict=strict)

    def play(env):
        for task_id in env.panel.task_ids:
            for path in ([], ["search[shoe]"], ["search[shoe]", "click[a]"]):
                _, info = env.reset(options={"task_id": task_id})
                for action in path:
                    *_, info = env.step(action)
                listed = [one for one in info["admissible_actions"] if "<" not in one]
                for action in listed:
                    env.reset(options={"task_id": task_id})
                    for before in path:
                        env.step(before)
                    assert env.step(action)[-1]["valid"], action

    if good:  # a goal of each of the options that can be named
        env, _ = read_back(make)
        assert len({task_id.partition("-")[0] for task_id in env.panel.task_ids}) == good
        good = len(env.panel)
    check(make, good, reason, play)
