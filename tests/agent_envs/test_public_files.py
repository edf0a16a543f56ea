"""Public files as people have them: every reader keeps what is good, and names what it leaves out.

Each case is a damaged file, how many records of it are good, and words of the reason for the rest;
0 good records are one refusal. What is kept can be played.
"""

import gzip
import json
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
        "deep": (one + two + b"[" * 99_999, 2, "line 3"),
        "_id": (one + two.replace(b'"id"', b'"_id"'), 2, ""),
        "id null": (one + two.replace(b'"b"', b"null"), 2, ""),
        "all bad": (b"{}\n" * 9, 0, "9 of 9 records are bad"),
        "empty": (b"", 0, "(no questions in|has no passages)"),
        "half": (packed[:-9], 0, "is damaged"),
        "folder": (None, 0, "(is damaged|is a folder|Is a directory)"),
    }


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
    "one open": (f"{LEVEL}\n#####\n#@$. \n#####\n\n{LEVEL}", 2, "the walls are open"),
    "two players": (f"{LEVEL}\n{LEVEL.replace('$', '@')}\n{LEVEL}", 2, "2 players"),
    "solved": (f"{LEVEL}\n{LEVEL.replace('$.', '* ')}\n{LEVEL}", 2, "nothing is left to do"),
    "cut": (f"{LEVEL}\n{LEVEL}\n#####\n#@$", 2, "0 targets"),
    "huge": (f"{LEVEL}\n{LEVEL}\n99#|#@$.#|99#", 2, "of 99 cells"),
    "too long": (f"{LEVEL}\n{LEVEL}\n134#|#@$.#|5#", 2, "unknown symbol '1'"),
    "bomb": (f"{LEVEL}\n{LEVEL}\n" + "9" * 5000 + "#", 2, "cells"),
    "null": (f"{LEVEL}\n{LEVEL}\n#\0##\n#@$.#\n####", 2, "unknown symbol"),
    "titles only": ("1. One\n* two *\n", 0, "no level"),
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
    "euros": ([PRODUCT, PRODUCT | {"asin": "b", "pricing": "1.299,00 €"}], 2, ""),
    "no price": ([PRODUCT, PRODUCT | {"asin": "c", "pricing": "call us"}], 1, "a price such as"),
    "price a number": ([PRODUCT, PRODUCT | {"asin": "c", "pricing": 5}], 1, "'pricing': a text"),
    "huge price": ([PRODUCT, PRODUCT | {"asin": "c", "pricing": "9" * 400}], 1, "a price such as"),
    "null": ([PRODUCT, None], 1, "an object is needed, got None"),
    "no name": ([PRODUCT, {"asin": "c"}], 1, "'name': a text"),
    "name a list": ([PRODUCT, PRODUCT | {"asin": "c", "name": ["x"]}], 1, "'name': a text"),
    "no id": ([PRODUCT, PRODUCT | {"asin": None}], 1, "'asin': a text"),
    "again": ([PRODUCT, PRODUCT | {"asin": "A"}], 1, ""),  # as in the public WebShop
    "bad options": ([PRODUCT, PRODUCT | {"asin": "c", "customization_options": 3}], 1, "an object"),
    "mixed": ([PRODUCT | {"asin": f"c{n}"} for n in range(22)] + [PRODUCT], 1, "only 1 of 23"),
    "an object": ({"a": PRODUCT}, 0, "a list of products is needed"),
    "all bad": ([{}, 3], 0, "2 of 2 records are bad"),
    "truncated": (b'[{"asin": "a", ', 0, "is no JSON, perhaps truncated"),
    "empty": (b"", 0, "is no JSON"),
    "half": (gzip.compress(json.dumps([PRODUCT]).encode(), mtime=0)[:-9], 0, "is damaged"),
    "folder": (None, 0, "is damaged or no file"),
}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("case", PRODUCTS)
def test_products(tmp_path, case, mark):
    content, good, reason = PRODUCTS[case]
    if isinstance(content, (list, dict)):
        content = mark + json.dumps(content).encode()
    write_file(tmp_path / f"items_shuffle.json{'.gz' * (case == 'half')}", content)
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


@pytest.mark.parametrize(
    ("pricing", "tag"),
    [
        ("€12,99", "$12.99"),
        ("12,99 $", "$12.99"),
        ("1.299 €", "$1299.0"),
        ("1 299,50 kr", "$1299.5"),
        ("CHF 1'299.00", "$1299.0"),
        ("₹1,23,456.00", "$123456.0"),
        ("Rs.499", "$499.0"),
        ("£5 – £7,50", "$5.0 to $7.5"),
        ("12.99 - 15.00", "$12.99 to $15.0"),
        ("12.999", "$12.999"),
        ("$1,299", "$1299.0"),
        ("$.99", "$0.99"),
    ],
)
def test_prices_in_other_notations(tmp_path, pricing, tag):
    (tmp_path / "items_shuffle.json").write_text(json.dumps([PRODUCT | {"pricing": pricing}]))
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({"a": ASKED}))
    shop = gym.make("WebShop-v0", data=tmp_path, split="all").unwrapped.shop
    assert shop.products[0].price_tag == tag


@pytest.mark.parametrize(
    "pricing", ["-5", "$-5", "12%", "2 for €5", "$1e5", "1.2.3", "12 15", "free", "12,99,5"]
)
def test_other_texts_are_no_prices(tmp_path, pricing):
    (tmp_path / "items_shuffle.json").write_text(json.dumps([PRODUCT | {"pricing": pricing}]))
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({"a": ASKED}))
    with pytest.raises(BadAsset, match="record 0: field 'pricing': a price such as"):
        gym.make("WebShop-v0", data=tmp_path, split="all")
